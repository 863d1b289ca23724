"""An event log without a thread and without a disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock

from rtmprelay.event_bus import EventBus
from rtmprelay.event_log.log import EventLog
from rtmprelay.event_log.names import file_name
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.events import AnyEvent, PlayStarted
from tests.files.memory_disk import MemoryDisk, MemoryFile
from tests.helpers import EventList

#: 2026-11-16 12:00:00 UTC.
NOON = 1794830400.0
DAY = 86400.0

INSTANCE = "20261116-120000-abcdef"


def parse(data: bytes) -> list[dict[str, Any]]:
    """The complete lines in a file; what follows the last line feed is torn."""
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


class EventLogHarness:
    """An event log in memory; the disk works when `work` is called."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.clock.advance(NOON)
        self.disk = MemoryDisk()
        self.bus = EventBus(self.clock.seconds)
        self.events = EventList()
        self.bus.add_sink(self.events)
        self.settings = EventLogSettings(folder=Path("memory"), **{"alive_interval": 0, **settings})
        self.log = EventLog(
            Path("memory"),
            self.settings,
            self.bus,
            self.clock,
            None,
            self._create_file,
            self.clock.seconds,
        )
        self.log.start(INSTANCE)

    def _create_file(self, folder: Path, time: float) -> MemoryFile:
        paths = (folder / file_name(time, copy) for copy in range(1, 1000))
        return self.disk.create(next(path for path in paths if path not in self.disk.files))

    def lines(self) -> list[dict[str, Any]]:
        """All complete lines of all files."""
        return [line for file in self.disk.files.values() for line in parse(bytes(file.data))]

    def publish_plays(self, count: int = 1, work: bool = True) -> None:
        for number in range(count):
            self.publish(PlayStarted(connection=f"c{number:06d}", stream="live/test"))
        if work:
            self.work()

    def publish(self, event: AnyEvent) -> None:
        self.bus.publish(event)

    def work(self) -> None:
        assert self.log.writer is not None
        self.log.writer.work()

    @property
    def lost(self) -> int:
        """Events that found no room, and are not reported yet."""
        assert self.log.writer is not None
        return self.log.writer.lost

    def numbers(self) -> list[int]:
        """The numbers of the events that are on the disk."""
        return [line["number"] for line in self.lines()]
