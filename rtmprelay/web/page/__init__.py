"""The dashboard: files read once and served from memory."""
