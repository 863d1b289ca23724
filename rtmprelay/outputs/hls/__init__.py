"""HLS and low-latency HLS: one packager for each stream, however many watch, and a session for each viewer."""
