"""RTMP conversations without input or output: bytes and time in, reports and bytes out."""
