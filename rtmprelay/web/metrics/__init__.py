"""Prometheus metrics, read from plain counters when a client asks for them."""
