"""Measures a relay under load, beside nginx-rtmp where that is installed."""
