"""HLS and low-latency HLS: one packager for each stream, whoever watches, and a session for each viewer."""
