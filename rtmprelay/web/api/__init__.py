"""The HTTP API: JSON documents about the relay, and requests that change it."""
