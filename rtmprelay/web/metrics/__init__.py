"""Prometheus metrics, read from plain counters when somebody scrapes."""
