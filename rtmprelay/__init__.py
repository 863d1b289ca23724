"""An RTMP server and relay on Twisted."""

__version__ = "0.2.0"
