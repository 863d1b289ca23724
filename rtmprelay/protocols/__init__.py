"""RTMP on Twisted transports."""
