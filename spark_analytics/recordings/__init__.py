"""From recordings to tables: which files to read, who reads which part of them, and what their tags say."""
