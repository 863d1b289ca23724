"""Server-sent events for the dashboard and other programs."""
