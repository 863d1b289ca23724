"""Files shared by recordings, the event log and hooks: secrets, disks, writer threads."""
