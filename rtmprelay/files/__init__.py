"""Reading secrets and certificates, and writing files in threads: for recordings, the event log and hooks."""
