"""An event log without a thread and without a disk."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock

from rtmprelay.event_bus import EventBus
from rtmprelay.event_log.disk import EventFile
from rtmprelay.event_log.log import EventLog
from rtmprelay.event_log.names import file_name
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.events import AnyEvent, PlayStarted
from tests.helpers import EventList

ENOSPC, EIO = errno.ENOSPC, errno.EIO

#: 2026-11-16 12:00:00 UTC.
NOON = 1794830400.0
DAY = 86400.0

INSTANCE = "20261116-120000-abcdef"


class MemoryEventFile:
    """A file on a disk in memory."""

    def __init__(self, disk: MemoryDisk, path: Path) -> None:
        self.data = bytearray()
        self.synced = 0
        self.closed = False
        self._disk = disk
        self._path = path

    def append(self, data: bytes | memoryview) -> int:
        assert not self.closed
        self._disk.check(self._path)
        room = self._disk.room()
        if not room:
            raise OSError(ENOSPC, os.strerror(ENOSPC), str(self._path))
        taken = bytes(data[: min(room, self._disk.most_at_once)])
        self.data += taken
        return len(taken)

    def truncate(self, size: int) -> None:
        if self._disk.refuses_truncation:
            raise OSError(EIO, os.strerror(EIO), str(self._path))
        del self.data[size:]

    def sync(self) -> None:
        self.synced = len(self.data)

    def close(self) -> None:
        self.closed = True

    def is_deleted(self) -> bool:
        return self._disk.files.get(self._path) is not self

    def delete(self) -> None:
        del self._disk.files[self._path]


class MemoryDisk:
    """A disk that can be full, broken or gone."""

    def __init__(self) -> None:
        self.files: dict[Path, MemoryEventFile] = {}
        self.size = 10**9
        self.most_at_once = 10**9
        self.error: int | None = None
        self.refuses_truncation = False
        self.attempts = 0

    def open_file(self, folder: Path, time: float) -> tuple[Path, EventFile]:
        self.attempts += 1
        copies = (folder / file_name(time, copy) for copy in range(1, 1000))
        path = next(path for path in copies if path not in self.files)
        self.check(path)
        file = self.files[path] = MemoryEventFile(self, path)
        return path, file

    def check(self, path: Path) -> None:
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error), str(path))

    def room(self) -> int:
        return self.size - sum(len(file.data) for file in self.files.values())

    @property
    def names(self) -> list[str]:
        return [path.name for path in self.files]

    def lines(self) -> list[dict[str, Any]]:
        """All complete lines of all files."""
        return [line for file in self.files.values() for line in parse(bytes(file.data))]


def parse(data: bytes) -> list[dict[str, Any]]:
    """The complete lines in a file; what is behind the last line feed is torn."""
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


class Desk:
    """An event log in memory; the disk works when it is told to."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.clock.advance(NOON)
        self.disk = MemoryDisk()
        self.bus = EventBus(self.clock.seconds)
        self.told = EventList()
        self.bus.add_sink(self.told)
        self.settings = EventLogSettings(folder=Path("memory"), **{"alive_interval": 0, **settings})
        self.log = EventLog(
            Path("memory"),
            self.settings,
            self.bus,
            self.clock,
            None,
            self.disk.open_file,
            self.clock.seconds,
        )
        self.log.start(INSTANCE)

    def tell(self, count: int = 1, work: bool = True) -> None:
        for number in range(count):
            self.publish(PlayStarted(connection=f"c{number:06d}", stream="live/test"))
        if work:
            self.work()

    def publish(self, event: AnyEvent) -> None:
        self.bus.publish(event)

    def work(self) -> None:
        assert self.log.writer is not None
        self.log.writer.work()
        self.log._look_for_losses()

    def numbers(self) -> list[int]:
        """The numbers of the events that are on the disk."""
        return [line["number"] for line in self.disk.lines()]
