"""FLV: what audio and video payloads are, and the container. No Twisted: Spark workers import this."""
