"""Files for recordings: inside the folder, never one that exists."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import attrs

from rtmprelay.flv.names import RecordingName, split_key

#: Files of the same stream in the same second. So many mean that something is wrong.
_MOST_COPIES = 1000


def open_new(folder: Path, key: str, wall_time: float, segment: int | None) -> tuple[Path, int]:
    """Make a file for a stream, under a name that was free; the path and the descriptor.

    The folder itself is made again if it is gone, but not what is above it: a disk that is not mounted must not be
    mistaken for one that is.

    Raises:
        OSError: The file cannot be made.
    """
    app, name = split_key(key)
    started = datetime.fromtimestamp(int(wall_time), UTC)
    wanted = RecordingName(app, name, started, segment)
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
    for copy in range(1, _MOST_COPIES + 1):
        path = folder / attrs.evolve(wanted, copy=copy).file_name
        try:
            return path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            if copy == _MOST_COPIES:
                raise
    raise AssertionError("the loop ends by a return or an error")
