"""What the pages and the README show: read, and run."""
