"""The event stream: server-sent events for the dashboard and other readers."""
