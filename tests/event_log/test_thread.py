"""The event log with its thread: on a real disk, on one that hangs, and inside a service."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.interfaces import IReactorTime

from rtmprelay.config.relay import RelayConfig
from rtmprelay.event_bus import EventBus
from rtmprelay.event_log.log import EventLog
from rtmprelay.event_log.names import create_event_log
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.events import EventsLost, PlayStarted
from rtmprelay.files.disk import OsFile
from rtmprelay.service import RelayService
from tests.access.log_keeping import kept_log
from tests.event_log.helpers import INSTANCE, parse
from tests.files.hanging_file import HangingFile
from tests.helpers import (
    EventList,
    connect_client,
    group,
    real_reactor_fixture,
    real_reactor_test,
    start_frames,
    the_reactor,
    until,
)

EVENT = PlayStarted(connection="c000001", stream="live/test")


class ThreadedEventLog:
    """An event log with its thread."""

    def __init__(self, folder: Path, settings: dict[str, Any], create_file: Any = create_event_log) -> None:
        self.folder = folder
        self.bus = EventBus()
        self.events = EventList()
        self.bus.add_sink(self.events)
        reactor = the_reactor()
        self.log = EventLog(
            folder,
            EventLogSettings(folder=folder, **settings),
            self.bus,
            reactor,
            reactor.callFromThread,
            create_file,
        )
        self.log.start(INSTANCE)

    def lines(self) -> list[dict[str, Any]]:
        return lines_in(self.folder)


def lines_in(folder: Path) -> list[dict[str, Any]]:
    found = [line for path in folder.glob("*.jsonl") for line in parse(path.read_bytes())]
    return sorted(found, key=lambda line: int(line["number"]))


Make = Callable[..., ThreadedEventLog]


@real_reactor_fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Make event logs that are stopped after the test."""
    started: list[ThreadedEventLog] = []

    def make_one(create_file: Any = create_event_log, **settings: Any) -> ThreadedEventLog:
        started.append(
            ThreadedEventLog(tmp_path / "events", {"flush_interval": 0.01, **settings}, create_file)
        )
        return started[-1]

    yield make_one
    for harness in started:
        await harness.log.stop()


@real_reactor_test
async def test_events_are_on_the_disk_soon_after_they_happened(make: Make) -> None:
    harness = make()
    for count in range(1, 30):
        harness.bus.publish(EVENT)
        # Each time the thread was idle before.
        await until(lambda count=count: len(harness.lines()) == count, "the line")  # type: ignore[misc]


@real_reactor_test
async def test_many_bytes_are_written_at_once(make: Make) -> None:
    harness = make(flush_interval=1000.0, flush_bytes=10_000)
    for _ in range(1000):
        harness.bus.publish(EVENT)
    await until(lambda: len(harness.lines()) > 900, "most lines")
    await harness.log.stop()
    assert [line["number"] for line in harness.lines()] == list(range(1, 1001))


def hanging_disk(gate: threading.Event) -> Callable[[Path, float], HangingFile]:
    return lambda folder, time: HangingFile(create_event_log(folder, time), gate)


@real_reactor_test
async def test_nobody_waits_for_a_disk_that_hangs(make: Make) -> None:
    gate = threading.Event()
    harness = make(hanging_disk(gate), queue_bytes=100_000)
    try:
        began = IReactorTime(the_reactor()).seconds()
        for _ in range(2000):
            harness.bus.publish(EVENT)
        assert IReactorTime(the_reactor()).seconds() - began < 5
        assert harness.log.writer is not None
        lost = harness.log.writer.lost
        assert 0 < lost < 2000
    finally:
        gate.set()
    await until(lambda: harness.events.of(EventsLost), "the account of what was lost")
    assert [event.count for event in harness.events.of(EventsLost)] == [lost]
    await until(lambda: harness.lines()[-1]["event"] == "events_lost", "its line")
    assert len(harness.lines()) == 2000 - lost + 1
    assert harness.lines()[-1]["number"] == 2001


@real_reactor_test
async def test_a_stop_waits_for_a_hanging_disk_until_its_timeout(make: Make) -> None:
    gate = threading.Event()
    harness = make(hanging_disk(gate), stop_timeout=0.1)
    harness.bus.publish(EVENT)
    with kept_log() as log:
        await harness.log.stop()
    assert log.lines == [f"{harness.folder} was not completed within 0.1 s: its disk does not answer"]
    assert harness.lines() == []
    gate.set()
    await until(lambda: harness.lines(), "the line")


@real_reactor_test
async def test_a_bug_in_the_thread_is_logged_and_harms_nobody(make: Make) -> None:
    def broken(folder: Path, time: float) -> OsFile:
        raise ZeroDivisionError

    with kept_log() as log:
        harness = make(broken)
        harness.bus.publish(EVENT)
        await until(lambda: log.lines, "the end of the thread")
        harness.bus.publish(EVENT)
        await harness.log.stop()
    assert log.lines == [f"A bug: no more events are written to {harness.folder}"]
    assert harness.lines() == []


def event_log_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "rtmprelay-event-log"}


@real_reactor_test
async def test_a_service_writes_all_its_events(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "events"
    service = RelayService(
        RelayConfig(
            listen=("tcp:0:interface=127.0.0.1",), event_log=EventLogSettings(folder=folder, gzip=True)
        )
    )
    events = EventList()
    service.events.add_sink(events)
    for run in (1, 2):
        service.startService()
        port = getattr(service.addresses[0], "port", 0)
        publisher = await connect_client(f"tcp:127.0.0.1:{port}")
        await publisher.publish("test?token=hush-hush")
        publisher.send(*start_frames(), *group(0))
        viewer = await connect_client(f"tcp:127.0.0.1:{port}")
        await viewer.play("test?token=hush-hush")
        await viewer.close()
        await service.stopService()
        await publisher.close()
        assert len(list(folder.iterdir())) == run
    lines = [
        line
        for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for line in parse(path.read_bytes())
    ]
    assert [line["event"] for line in lines] == [event.name for event in events.events]
    first, second = (lines[: len(lines) // 2], lines[len(lines) // 2 :])
    for run_lines in (first, second):
        assert run_lines[0]["event"] == "server_started"
        assert run_lines[-1]["event"] == "server_stopped"
        assert len({line["instance"] for line in run_lines}) == 1
        assert [line["number"] for line in run_lines] == list(range(1, len(run_lines) + 1))
    assert first[0]["instance"] != second[0]["instance"]
    assert "hush" not in json.dumps(lines)
    (stopped,) = (line for line in first if line["event"] == "play_stopped")
    assert stopped["stream"] == "live/test"
    assert stopped["reason"]
    await until(lambda: not event_log_threads(), "the end of the thread")


@real_reactor_test
async def test_a_service_without_an_event_log_has_no_thread_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = event_log_threads()
    service = RelayService(RelayConfig(listen=()))
    service.startService()
    assert event_log_threads() <= before
    await service.stopService()
    assert list(tmp_path.iterdir()) == []


@real_reactor_test
async def test_a_folder_that_cannot_be_created_is_reported_and_harms_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    settings = EventLogSettings(folder=tmp_path / "file" / "events")
    service = RelayService(RelayConfig(listen=(), event_log=settings))
    events = EventList()
    service.events.add_sink(events)
    service.startService()
    await until(lambda: len(events.events) > 1, "the failure")
    assert events.events[1].name == "event_log_failed"
    await service.stopService()
