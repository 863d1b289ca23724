"""Other servers that get the live streams: routing, reconnection, accounts."""
