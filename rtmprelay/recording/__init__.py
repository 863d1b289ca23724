"""Recording of live streams: beside them, and never in their way."""
