"""The event log: every event as a line of JSON, in files that are read later."""
