"""Questions about a catalogue. Each is a file of SQL that says what it answers; DuckDB and Spark give the same answers."""
