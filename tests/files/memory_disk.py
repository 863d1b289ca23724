"""A disk in memory that can be full, broken, slow to take data, or gone."""

from __future__ import annotations

import errno
import os
from pathlib import Path

ENOSPC, EIO, ENOENT = errno.ENOSPC, errno.EIO, errno.ENOENT


class MemoryFile:
    """A file on a `MemoryDisk`."""

    def __init__(self, disk: MemoryDisk, path: Path) -> None:
        self.path = path
        self.data = bytearray()
        #: How many bytes were there at the last `sync`.
        self.synced = 0
        self.closed = False
        self._disk = disk

    def append(self, data: bytes | memoryview) -> int:
        assert not self.closed
        self._disk.check(self.path)
        room = self._disk.room()
        if room <= 0:
            raise OSError(ENOSPC, os.strerror(ENOSPC), str(self.path))
        taken = bytes(data[: min(room, self._disk.max_write)])
        self.data += taken
        return len(taken)

    def write_at(self, data: bytes, offset: int) -> None:
        assert offset + len(data) <= len(self.data), "in place means in place"
        self.data[offset : offset + len(data)] = data

    def truncate(self, size: int) -> None:
        if self._disk.refuses_truncation:
            raise OSError(EIO, os.strerror(EIO), str(self.path))
        del self.data[size:]

    def sync(self) -> None:
        self.synced = len(self.data)

    def close(self) -> None:
        self.closed = True

    def is_deleted(self) -> bool:
        return self._disk.files.get(self.path) is not self

    def delete(self) -> None:
        del self._disk.files[self.path]


class MemoryDisk:
    """Files by path, in the order in which they were created."""

    def __init__(self) -> None:
        self.files: dict[Path, MemoryFile] = {}
        #: Bytes that fit on it.
        self.size = 10**9
        #: Bytes that one write takes.
        self.max_write = 10**9
        #: The errno that every attempt to create a file or to write raises.
        self.error: int | None = None
        self.refuses_truncation = False
        #: How often somebody tried to create a file.
        self.attempts = 0

    def create(self, path: Path) -> MemoryFile:
        self.attempts += 1
        self.check(path)
        file = self.files[path] = MemoryFile(self, path)
        return file

    def check(self, path: Path) -> None:
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error), str(path))

    def used(self) -> int:
        return sum(len(file.data) for file in self.files.values())

    def room(self) -> int:
        return self.size - self.used()

    @property
    def names(self) -> list[str]:
        return [path.name for path in self.files]
