"""From the server's event logs to tables about viewers, publishers and destinations."""
