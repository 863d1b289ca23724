"""A relay's recordings without a thread and without a disk, or with both."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, TypeVar

from twisted.internet.task import Clock

from rtmprelay.event_bus import EventBus
from rtmprelay.events import Event
from rtmprelay.flv.container import encode_tag, file_header
from rtmprelay.media import MediaFrame
from rtmprelay.recording.disk import RecordingFile
from rtmprelay.recording.manager import RecordingManager
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.recording.status import RecordingStatus
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamRegistry
from tests.flv.media import MemoryFile, frames_in
from tests.helpers import EventList
from tests.streams.helpers import FakePublisher

_E = TypeVar("_E", bound=Event)


class MemoryRecording(MemoryFile):
    """A file on a disk in memory."""

    def __init__(self, disk: MemoryDisk, path: Path) -> None:
        super().__init__()
        self._disk = disk
        self._path = path

    def append(self, data: bytes | memoryview) -> int:
        self._disk.check(self._path)
        self.room = self._disk.room_for(self)
        return super().append(data)

    def is_deleted(self) -> bool:
        return self._disk.files.get(self._path) is not self

    def delete(self) -> None:
        del self._disk.files[self._path]


class MemoryDisk:
    """A disk that can be full, broken or gone."""

    def __init__(self) -> None:
        self.files: dict[Path, MemoryRecording] = {}
        self.size: int | None = None
        self.error: int | None = None
        self.opened = 0

    def open_file(
        self, folder: Path, key: str, wall_time: float, segment: int | None
    ) -> tuple[Path, RecordingFile]:
        self.opened += 1
        path = folder / f"{len(self.files) + 1:02d}.flv"
        self.check(path)
        file = self.files[path] = MemoryRecording(self, path)
        return path, file

    def check(self, path: Path) -> None:
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error), str(path))

    def room_for(self, file: MemoryRecording) -> int | None:
        if self.size is None:
            return None
        return self.size - sum(len(other.data) for other in self.files.values()) + len(file.data)

    def frames(self) -> list[list[MediaFrame]]:
        """The frames of each file, without the metadata at its start."""
        return [
            [frame for frame in frames_in(bytes(file.data))[1:] if frame is not None]
            for file in self.files.values()
        ]


class Studio:
    """One recorded stream and its publisher; the disk works when it is told to."""

    def __init__(self, key: str = "live/test", **settings: Any) -> None:
        self.clock = Clock()
        self.disk = MemoryDisk()
        self.registry = StreamRegistry()
        self.events = EventList()
        bus = EventBus()
        bus.add_sink(self.events)
        values = {"record_all": True, "folder": Path("memory"), **settings}
        self.settings = RecordingSettings(**values)
        self.key = key
        self.manager = RecordingManager(
            self.settings, self.registry, bus, self.clock, None, self.disk.open_file, self.clock.seconds
        )
        # The folder is a name only.
        self.manager._running = True
        self.publisher = FakePublisher()
        self.stream: LiveStream | None = None

    def publish(self) -> None:
        self.publisher = FakePublisher()
        self.stream = self.registry.publish(self.key, self.publisher, self.clock.seconds())

    def send(self, *frames: MediaFrame, work: bool = True) -> None:
        assert self.stream is not None
        self.stream.publish_frames(frames, self.clock.seconds())
        if work:
            self.work()

    def work(self) -> None:
        self.manager.writer.work()
        for status in self.manager.statuses():
            assert (
                status.messages_in
                == status.messages_written + status.messages_dropped + status.messages_queued
            )
            assert status.messages_dropped == sum(status.dropped_by_reason.values())

    def end(self, clean: bool = True) -> None:
        assert self.stream is not None
        self.registry.unpublish(self.stream, self.publisher, clean)
        self.work()

    @property
    def status(self) -> RecordingStatus:
        (status,) = self.manager.statuses()
        return status

    def of(self, kind: type[_E]) -> list[_E]:
        return self.events.of(kind)


def as_file(frames: list[MediaFrame]) -> bytes:
    """Header and tags."""
    return file_header() + b"".join(map(encode_tag, frames))


ENOSPC, EIO, ENOENT, EACCES = errno.ENOSPC, errno.EIO, errno.ENOENT, errno.EACCES
