"""RTMP on Twisted: connections, the server, publishing and playing, and the client for outbound publishes."""
