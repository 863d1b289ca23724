"""The files of event logs: `events_{YYYYMMDD_HHMMSS}[-{copy}].jsonl`, with `.gz` at the end once it is compressed.

The time is that of the first event, in UTC. Nothing else in the folder is ever touched.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from rtmprelay.files.disk import MAX_COPIES, OsFile, create_file, try_to_lock

_GZIP_SUFFIX = ".gz"
#: A compressed file that is not complete yet.
_UNFINISHED_SUFFIX = ".gz.tmp"

_PATTERN = re.compile(r"events_\d{8}_\d{6}(?:-\d{1,9})?\.jsonl(?:\.gz)?", re.ASCII)


def create_event_log(folder: Path, time: float) -> OsFile:
    """Create the next file in a folder. It is locked while it is open, so that nobody compresses or deletes it.

    Raises:
        OSError: The file cannot be created.
    """
    names = [file_name(time, copy) for copy in range(1, MAX_COPIES + 1)]
    # Compressing the new file would replace one that was compressed under the same name.
    file = create_file(folder, (name for name in names if not compressed(folder / name).exists()))
    try_to_lock(file.descriptor)
    return file


def file_name(time: float, copy: int = 1) -> str:
    """The name of a file whose first event happened then."""
    started = datetime.fromtimestamp(int(time), UTC).strftime("%Y%m%d_%H%M%S")
    return f"events_{started}{'' if copy == 1 else f'-{copy}'}.jsonl"


def is_event_log(name: str) -> bool:
    """Whether a file is an event log, compressed or not."""
    return _PATTERN.fullmatch(name) is not None


def is_compressed(name: str) -> bool:
    return name.endswith(_GZIP_SUFFIX)


def compressed(path: Path) -> Path:
    """The path of a file once it is compressed."""
    return path.with_name(path.name + _GZIP_SUFFIX)


def unfinished(path: Path) -> Path:
    """The path of a file while it is being compressed."""
    return path.with_name(path.name + _UNFINISHED_SUFFIX)
