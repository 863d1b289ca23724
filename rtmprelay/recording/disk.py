"""Files on a real disk, as recordings need them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rtmprelay.flv.writer import OsFile, RawFile
from rtmprelay.recording.paths import open_new


class RecordingFile(RawFile, Protocol):
    """A file that knows whether it is still there."""

    def is_deleted(self) -> bool:
        """Whether the file has no name any more, so that what is written is lost."""

    def delete(self) -> None:
        """Remove it: there is nothing in it."""


class DiskFile(OsFile):
    """A recording on a disk."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor)
        self._path = path

    def is_deleted(self) -> bool:
        """Whether the file has no name any more."""
        return os.fstat(self.descriptor).st_nlink == 0

    def delete(self) -> None:
        """Remove it."""
        os.unlink(self._path)


def open_on_disk(folder: Path, key: str, wall_time: float, segment: int | None) -> tuple[Path, RecordingFile]:
    """Make a file for a stream."""
    path, descriptor = open_new(folder, key, wall_time, segment)
    return path, DiskFile(descriptor, path)


OpenFile = Callable[[Path, str, float, "int | None"], "tuple[Path, RecordingFile]"]


def name_of(error: OSError) -> str:
    """What people call an error, such as ENOSPC."""
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def attempt(step: Callable[[], None]) -> OSError | None:
    """Do what may fail without consequence; the error if it did."""
    try:
        step()
    except OSError as error:
        return error
    return None
