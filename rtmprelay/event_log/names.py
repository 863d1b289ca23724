"""The names of event logs: `events_{YYYYMMDD_HHMMSS}[-{copy}].jsonl`, with `.gz` behind it once compressed.

The time is that of the first event, in UTC. Nothing else in the folder is ever touched.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

GZIP_SUFFIX = ".gz"
#: A compressed file that is not complete yet.
UNFINISHED_SUFFIX = ".gz.tmp"

_PATTERN = re.compile(r"events_\d{8}_\d{6}(?:-\d{1,9})?\.jsonl(?:\.gz)?", re.ASCII)

#: Files that begin in the same second. So many mean that something is wrong.
MOST_COPIES = 1000


def file_name(time: float, copy: int = 1) -> str:
    """What a file is called whose first event happened then."""
    begun = datetime.fromtimestamp(int(time), UTC).strftime("%Y%m%d_%H%M%S")
    return f"events_{begun}{'' if copy == 1 else f'-{copy}'}.jsonl"


def is_event_log(name: str) -> bool:
    """Whether a file is an event log, compressed or not."""
    return _PATTERN.fullmatch(name) is not None


def is_compressed(name: str) -> bool:
    """Whether an event log is compressed."""
    return name.endswith(GZIP_SUFFIX)


def compressed(path: Path) -> Path:
    """What a file is called once it is compressed."""
    return path.with_name(path.name + GZIP_SUFFIX)


def unfinished(path: Path) -> Path:
    """What it is called while it is being compressed."""
    return path.with_name(path.name + UNFINISHED_SUFFIX)


def day_of(time: float) -> int:
    """The day of a time, in UTC, as a number that grows."""
    return int(time // 86400)
