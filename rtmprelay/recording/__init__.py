"""Recording of live streams. A slow or full disk costs recorded frames, never live ones."""
