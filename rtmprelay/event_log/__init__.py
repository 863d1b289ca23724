"""The event log: all that happens, as lines of JSON in files, for those who ask later."""
