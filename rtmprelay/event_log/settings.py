"""The settings of the event log."""

from __future__ import annotations

from pathlib import Path

import attrs

from rtmprelay.files.line_files import LineSettings
from rtmprelay.quantities import MEBIBYTE

#: Bytes. A file for every few events would do harm.
SMALLEST_FILE = 64 * 1024


@attrs.frozen
class EventLogSettings(LineSettings):
    """Where events are written to, and what that may cost."""

    #: The folder; None for no event log.
    folder: Path | None = None
    #: Compress files that are finished.
    gzip: bool = False
    #: Delete finished files whose last event is older than so many seconds.
    keep: float | None = None
    #: Delete the oldest finished files when all together have more bytes than this; None for no bound. A flood of
    #: connections writes some 100 kB a second.
    max_total_size: int | None = 10 * 1024 * MEBIBYTE
    #: Seconds without an event after which the log says that the server is alive; 0 for never.
    alive_interval: float = 60.0
