"""People who try to break it: mutated conversations, floods and lies, against a server in a process of its own."""
