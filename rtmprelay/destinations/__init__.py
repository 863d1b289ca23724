"""Sends live streams on to other servers."""
