"""A relay's recordings without a thread and without a disk, or with both."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import attrs
from twisted.internet.task import Clock

from rtmprelay.event_bus import EventBus
from rtmprelay.events import Event
from rtmprelay.media import MediaFrame
from rtmprelay.recording.manager import RecordingManager
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.recording.status import RecordingStatus
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamRegistry
from tests.files.memory_disk import MemoryDisk, MemoryFile
from tests.flv.media import frames_in
from tests.helpers import EventList, audio_header, group, video_header
from tests.streams.helpers import FakePublisher

_E = TypeVar("_E", bound=Event)


HEADERS = [video_header(), audio_header()]


def groups(count: int, begin_ms: int = 0, size: int = 20) -> list[MediaFrame]:
    return [frame for number in range(count) for frame in group(begin_ms + 200 * number, size=size)]


def moved(frames: list[MediaFrame], timestamp_ms: int) -> list[MediaFrame]:
    return [attrs.evolve(frame, timestamp_ms=timestamp_ms) for frame in frames]


def without_startup(files: list[list[MediaFrame]]) -> list[MediaFrame]:
    return [frame for file in files for frame in file if frame.payload[:2] not in (b"\x17\x00", b"\xaf\x00")]


class RecordingHarness:
    """One recorded stream and its publisher; the disk works when `work` is called."""

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
            self.settings, self.registry, bus, self.clock, None, self._create_file, self.clock.seconds
        )
        self.manager.start()
        self.publisher = FakePublisher()
        self.stream: LiveStream | None = None

    def _create_file(self, folder: Path, key: str, wall_time: float, segment: int | None) -> MemoryFile:
        return self.disk.create(folder / f"{len(self.disk.files) + 1:02d}.flv")

    def frames(self) -> list[list[MediaFrame]]:
        """The frames of each file, without the metadata at its start."""
        return [
            [frame for frame in frames_in(bytes(file.data))[1:] if frame is not None]
            for file in self.disk.files.values()
        ]

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
