"""The relay over HTTP: status, metrics, events, control, live media, and a page for people."""
