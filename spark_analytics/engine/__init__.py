"""What answers questions: DuckDB on this machine, Spark on a cluster. Both get the same SQL."""
