"""One file that lines are appended to, for ever; somebody else may move it away."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from typing_extensions import override

from rtmprelay.event_log.disk import EventFile
from rtmprelay.flv.writer import OsFile


class AppendFile(OsFile):
    """A file under a fixed name, as the machinery of the event log wants it."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor)
        self._path = path
        self._appended = 0
        #: Set to have the file opened again.
        self.is_left = False

    @override
    def append(self, data: bytes | memoryview) -> int:
        taken = super().append(data)
        self._appended += taken
        return taken

    @override
    def truncate(self, size: int) -> None:
        """Cut off what was appended behind this size. The file may have been emptied meanwhile."""
        torn = self._appended - size
        os.ftruncate(self.descriptor, max(0, os.fstat(self.descriptor).st_size - torn))
        self._appended = size

    @override
    def sync(self) -> None:
        # A pipe has nothing to wait for.
        with suppress(OSError):
            super().sync()

    def is_deleted(self) -> bool:
        """Whether the name means another file now, or none: then the lines that come belong there."""
        if self.is_left:
            return True
        try:
            there = os.stat(self._path)
        except OSError:
            return True
        return not os.path.samestat(there, os.fstat(self.descriptor))

    def delete(self) -> None:
        """Never: what is in there was there before."""


def open_for_appending(path: Path) -> EventFile:
    """Open a file, or make it. A line that was torn by a crash is ended, so that the next one is whole.

    Raises:
        OSError: It cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        status = os.fstat(descriptor)
        is_file = stat.S_ISREG(status.st_mode) and status.st_size > 0
        if is_file and os.pread(descriptor, 1, status.st_size - 1) != b"\n":
            os.write(descriptor, b"\n")
    except OSError:
        os.close(descriptor)
        raise
    return AppendFile(descriptor, path)
