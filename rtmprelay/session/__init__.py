"""RTMP conversations without input or output: bytes and time in, events and bytes out."""
