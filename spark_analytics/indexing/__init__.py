"""From recordings to tables: which files to read, who reads which part of them, and what becomes of what was read."""
