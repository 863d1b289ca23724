"""Files on a real disk, as the event log needs them."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from rtmprelay.event_log.names import MOST_COPIES, compressed, file_name
from rtmprelay.flv.writer import OsFile


class EventFile(Protocol):
    """What is asked of a file. Tests put one in its place that fails as disks do."""

    def append(self, data: bytes | memoryview) -> int:
        """Write at the end; how many bytes the system took."""

    def truncate(self, size: int) -> None:
        """Cut off what is behind this size."""

    def sync(self) -> None:
        """Wait until the data is on the disk."""

    def close(self) -> None:
        """Let it go."""

    def is_deleted(self) -> bool:
        """Whether the file has no name any more, so that what is written is lost."""

    def delete(self) -> None:
        """Remove it: there is nothing in it."""


#: Makes a file for events from this time on.
OpenFile = Callable[[Path, float], "tuple[Path, EventFile]"]


class DiskFile(OsFile):
    """An event log on a disk. It is locked as long as it is open: then nobody compresses or deletes it."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor)
        self._path = path

    def is_deleted(self) -> bool:
        """Whether the file has no name any more."""
        return os.fstat(self.descriptor).st_nlink == 0

    def delete(self) -> None:
        """Remove it."""
        os.unlink(self._path)


def open_on_disk(folder: Path, time: float) -> tuple[Path, EventFile]:
    """Make a file under a name that was free.

    The folder itself is made again if it is gone, but not what is above it: a disk that is not mounted must not be
    mistaken for one that is.

    Raises:
        OSError: The file cannot be made.
    """
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
    for copy in range(1, MOST_COPIES + 1):
        path = folder / file_name(time, copy)
        if compressed(path).exists():
            # One of that name was finished already; the new one would take its place when it is compressed.
            continue
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try_to_lock(descriptor)
            return path, DiskFile(descriptor, path)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder / file_name(time)))


def try_to_lock(descriptor: int) -> bool:
    """Lock a file against other processes; False if one of them has it. A file system without locks has no others."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def name_of(error: OSError) -> str:
    """What people call an error, such as ENOSPC."""
    return errno.errorcode.get(error.errno or 0, type(error).__name__)
