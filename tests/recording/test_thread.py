"""Recordings with their thread, on a real disk and on one that hangs."""

from __future__ import annotations

import shutil
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.application.service import Service
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.config.relay import RelayConfig
from rtmprelay.event_bus import EventBus
from rtmprelay.events import (
    RecordingDeleted,
    RecordingFailed,
    RecordingFinished,
    RecordingStarted,
    ServerStopped,
)
from rtmprelay.files.disk import OsFile
from rtmprelay.flv.repair import inspect
from rtmprelay.interfaces import IEventSink
from rtmprelay.recording.flv_files import create_recording
from rtmprelay.recording.manager import RecordingManager
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.service import RelayService
from rtmprelay.streams.registry import StreamRegistry
from tests.files.hanging_file import HangingFile
from tests.helpers import (
    EventList,
    group,
    real_reactor_fixture,
    real_reactor_test,
    start_frames,
    the_reactor,
    until,
)
from tests.streams.helpers import FakePublisher, KeepingSubscriber


class ThreadedRecordings:
    """A manager with its thread, and what happened."""

    def __init__(self, manager: RecordingManager, registry: StreamRegistry, events: EventList) -> None:
        self.manager = manager
        self.registry = registry
        self.events = events
        self.publisher = FakePublisher()

    def publish(self, key: str = "live/test") -> Any:
        return self.registry.publish(key, self.publisher, 0.0)

    def unpublish(self, key: str = "live/test") -> None:
        self.registry.unpublish(self.registry.live(key), self.publisher, True)


Make = Callable[..., ThreadedRecordings]


@real_reactor_fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Make managers that are stopped after the test."""
    started: list[ThreadedRecordings] = []

    def make_one(create_file: Any = create_recording, **settings: Any) -> ThreadedRecordings:
        values = {"record_all": True, "folder": tmp_path / "taken", "flush_interval": 0.01, **settings}
        registry, events, bus = StreamRegistry(), EventList(), EventBus()
        bus.add_sink(events)
        reactor = the_reactor()
        manager = RecordingManager(
            RecordingSettings(**values), registry, bus, reactor, reactor.callFromThread, create_file
        )
        manager.start()
        started.append(ThreadedRecordings(manager, registry, events))
        return started[-1]

    yield make_one
    for harness in started:
        await harness.manager.stop()


@real_reactor_test
async def test_frames_are_on_the_disk_soon_after_they_came(make: Make, tmp_path: Path) -> None:
    harness = make()
    stream = harness.publish()
    stream.publish_frames([*start_frames(), *group(0)], 0.0)
    await until(lambda: harness.events.of(RecordingStarted), "the start")
    (path,) = (tmp_path / "taken").iterdir()
    assert inspect(path).tags == 3 + 10
    harness.unpublish()
    await until(lambda: harness.events.of(RecordingFinished), "the end")
    assert inspect(path).is_fine


@real_reactor_test
async def test_a_disk_that_hangs_costs_recorded_frames_only(make: Make, tmp_path: Path) -> None:
    """Players get every frame. Recording continues in a new file."""
    gate = threading.Event()

    def create_hanging(folder: Path, key: str, time: float, segment: int | None) -> HangingFile:
        return HangingFile(create_recording(folder, key, time, segment), gate)

    harness = make(create_hanging, queue_bytes=20_000, flush_bytes=1000)
    player = KeepingSubscriber()
    stream = harness.publish()
    stream.subscribe(player)
    try:
        stream.publish_frames(start_frames(), 0.0)
        for number in range(100):
            stream.publish_frames(group(200 * number, size=500), 0.0)
        assert len(player.frames) == 3 + 1000
        (status,) = harness.manager.statuses()
        assert status.bytes_queued <= 20_000
        assert status.dropped_by_reason["queue_full"] > 900
    finally:
        gate.set()
    await until(lambda: harness.manager.statuses()[0].bytes_queued == 0, "the queue to be empty")
    stream.publish_frames(group(30_000), 0.0)
    await until(lambda: len(harness.events.of(RecordingStarted)) == 2, "the second file")
    assert [event.error for event in harness.events.of(RecordingFailed)] == ["queue_full"]
    harness.unpublish()
    await until(lambda: len(harness.events.of(RecordingFinished)) == 2, "the end")
    paths = [Path(event.path) for event in harness.events.of(RecordingFinished)]
    assert all(inspect(path).is_fine for path in paths)
    assert inspect(paths[1]).tags == 3 + 10


@real_reactor_test
async def test_a_deleted_folder_is_created_again(make: Make, tmp_path: Path) -> None:
    harness = make(retry_after=0.05)
    stream = harness.publish()
    stream.publish_frames([*start_frames(), *group(0)], 0.0)
    await until(lambda: harness.events.of(RecordingStarted), "the start")
    shutil.rmtree(tmp_path / "taken")
    number = 1

    def again() -> bool:
        nonlocal number
        stream.publish_frames(group(200 * number), 0.0)
        number += 1
        return len(harness.events.of(RecordingStarted)) > 1

    await until(again, "the second file")
    assert [event.error for event in harness.events.of(RecordingFailed)] == ["ENOENT"]
    harness.unpublish()
    await until(lambda: len(harness.events.of(RecordingFinished)) > 1, "the end")
    (path,) = (tmp_path / "taken").iterdir()
    assert inspect(path).is_fine


@real_reactor_test
async def test_the_oldest_recordings_are_deleted_when_a_recording_ends(make: Make, tmp_path: Path) -> None:
    harness = make(max_total_size=200_000, metadata_space=100_000)
    for count in range(1, 5):
        harness.publish().publish_frames([*start_frames(), *group(0)], 0.0)
        harness.unpublish()
        await until(lambda count=count: len(harness.events.of(RecordingFinished)) == count, "the end")  # type: ignore[misc]
    await until(lambda: len(harness.events.of(RecordingDeleted)) == 3, "the deletions")
    assert [event.path for event in harness.events.of(RecordingDeleted)] == [
        event.path for event in harness.events.of(RecordingFinished)[:3]
    ]
    assert len(list((tmp_path / "taken").iterdir())) == 1


@real_reactor_test
async def test_a_stopped_manager_can_be_started_again(make: Make) -> None:
    harness = make()
    for count in range(1, 31):
        harness.publish().publish_frames(group(0), 0.0)
        await harness.manager.stop()
        assert len(harness.events.of(RecordingFinished)) == count
        harness.unpublish()
        harness.manager.start()


@real_reactor_test
async def test_a_hung_disk_does_not_keep_a_relay_from_stopping_its_hooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    append = OsFile.append

    def hang(file: OsFile, data: bytes | memoryview) -> int:
        gate.wait(20)
        return append(file, data)

    monkeypatch.setattr(OsFile, "append", hang)
    settings = RecordingSettings(record_all=True, folder=tmp_path, flush_interval=0.01, stop_timeout=0.1)
    hook = StoppableEventList()
    service = RelayService(RelayConfig(listen=(), recording=settings, hooks=(hook,)))
    service.startService()
    try:
        for key in ("live/one", "live/two"):
            stream = service.registry.publish(key, FakePublisher(), 0.0)
            stream.publish_frames([*start_frames(), *group(0)], 0.0)
        await service.stopService()
        assert isinstance(hook.events[-1], ServerStopped)
        assert hook.stopped
    finally:
        gate.set()
    await until(lambda: len(hook.of(RecordingFinished)) == 2, "the files")


@implementer(IEventSink)
class StoppableEventList(EventList, Service):
    """A hook that knows whether it was stopped."""

    stopped = False

    @override
    def stopService(self) -> None:
        super().stopService()  # type: ignore[no-untyped-call]
        self.stopped = True


def recording_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "rtmprelay-recording"}


@real_reactor_test
async def test_a_service_that_records_nothing_has_no_thread_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = recording_threads()
    service = RelayService(RelayConfig(listen=()))
    service.startService()
    assert service.recordings.statuses() == []
    assert recording_threads() <= before
    await service.stopService()
    assert list(tmp_path.iterdir()) == []
