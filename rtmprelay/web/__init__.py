"""HTTP: the API, metrics, the event stream, the dashboard and live media."""
