"""Several relays as one: who owns which stream, and where the others fetch it."""
