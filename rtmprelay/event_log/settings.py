"""What an operator says of the event log."""

from __future__ import annotations

from pathlib import Path

import attrs

from rtmprelay.quantities import MEBIBYTE

#: A file for every few events would do harm.
SMALLEST_FILE = 64 * 1024


@attrs.frozen
class EventLogSettings:
    """Where events are written to, and what that may cost."""

    #: The folder; None for no event log.
    folder: Path | None = None
    #: Compress files that are finished.
    gzip: bool = False
    #: Begin a new file when one would have more bytes than this. A day always has its own.
    max_file_size: int = 64 * MEBIBYTE
    #: Delete finished files whose last event is older than so many seconds.
    keep: float | None = None
    #: Bytes of events that wait for the disk: some 50,000 events.
    queue_bytes: int = 16 * MEBIBYTE
    #: Seconds that events are gathered for one write. It is also what a crash of this process costs.
    flush_interval: float = 0.5
    #: Waiting bytes that are written at once.
    flush_bytes: int = MEBIBYTE
    #: Seconds until a disk that failed is tried again; doubled each time, up to the second value.
    retry_after: float = 1.0
    longest_retry: float = 30.0
    #: Seconds without a failure after which an outage counts as over.
    recovered_after: float = 10.0
    #: Seconds between two looks at the folder for what to compress or to delete.
    upkeep_interval: float = 600.0
    #: Seconds without an event after which the log says that the server is alive; 0 for never.
    alive_interval: float = 60.0
    #: Seconds that a stopping server waits for the disk.
    stop_timeout: float = 10.0
