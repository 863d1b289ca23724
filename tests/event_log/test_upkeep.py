"""Finished event logs on a real disk: compressed, deleted, and never touched while they are written."""

from __future__ import annotations

import fcntl
import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from rtmprelay.event_log.names import create_event_log
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.event_log.upkeep import Upkeep, compress
from rtmprelay.events import EventLogDeleted, EventLogFailed
from tests.event_log.helpers import DAY, NOON
from tests.helpers import EventList

CONTENT = b'{"event":"play_started"}\n' * 200_000


class UpkeepHarness:
    """The upkeep of a folder, with a clock that is moved by hand."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.clock = Clock()
        self.events = EventList()
        self.folder = folder
        self.upkeep = Upkeep(
            folder,
            EventLogSettings(folder=folder, **settings),
            lambda: NOON + self.clock.seconds(),
            self.clock.seconds,
            lambda event: self.events.event_happened(0.0, event),
        )

    def work(self, active: Path | None = None) -> int:
        """Until there is nothing more to do; how many steps that took."""
        steps = 1
        while self.upkeep.step(active):
            steps += 1
        return steps

    def make(self, name: str, age: float = 0.0, content: bytes = CONTENT) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        os.utime(path, (NOON - age, NOON - age))
        return path

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def harness(tmp_path: Path) -> UpkeepHarness:
    return UpkeepHarness(tmp_path, gzip=True, keep=7 * DAY)


def test_a_finished_file_is_compressed_in_steps(harness: UpkeepHarness) -> None:
    path = harness.make("events_20261116_120000.jsonl", 5)
    harness.upkeep.finished(path)
    assert harness.work() >= len(CONTENT) // 2**20
    assert harness.names == ["events_20261116_120000.jsonl.gz"]
    compressed = harness.folder / "events_20261116_120000.jsonl.gz"
    assert gzip.decompress(compressed.read_bytes()) == CONTENT
    assert compressed.stat().st_mtime == NOON - 5


def test_without_the_options_files_stay_as_they_are(tmp_path: Path) -> None:
    harness = UpkeepHarness(tmp_path)
    path = harness.make("events_20261116_120000.jsonl", 100 * DAY)
    harness.upkeep.finished(path)
    harness.work()
    assert harness.names == ["events_20261116_120000.jsonl"]


def test_at_any_moment_the_plain_or_the_compressed_file_is_complete(harness: UpkeepHarness) -> None:
    """What a kill leaves, at every step: the plain file is whole until the compressed one is."""
    path = harness.make("events_20261116_120000.jsonl")
    for _ in compress(path):
        assert path.read_bytes() == CONTENT
        assert "events_20261116_120000.jsonl.gz" not in harness.names
    assert harness.names == ["events_20261116_120000.jsonl.gz"]


def test_files_of_a_killed_server_are_compressed_later(harness: UpkeepHarness) -> None:
    harness.make("events_20261115_120000.jsonl", DAY)
    harness.make("events_20261115_120000.jsonl.gz.tmp", DAY, b"half of it")
    # Killed between the two last steps: the compressed file is whole, and the plain one goes.
    harness.make("events_20261115_130000.jsonl", DAY, b"old\n")
    harness.make("events_20261115_130000.jsonl.gz", DAY, gzip.compress(b"old\n"))
    harness.make("events_20261116_115959.jsonl", 1)
    harness.make("mine.jsonl", DAY)
    harness.work()
    assert harness.names == [
        "events_20261115_120000.jsonl.gz",
        "events_20261115_130000.jsonl.gz",
        "events_20261116_115959.jsonl",
        "mine.jsonl",
    ]
    assert gzip.decompress((harness.folder / "events_20261115_120000.jsonl.gz").read_bytes()) == CONTENT


def test_old_files_are_deleted_and_reported(harness: UpkeepHarness) -> None:
    harness.make("events_20261109_115900.jsonl.gz", 7 * DAY + 60, b"12345")
    harness.make("events_20261109_120100.jsonl.gz", 7 * DAY - 60)
    harness.make("notes_20261009.txt", 30 * DAY)
    harness.work()
    assert harness.names == ["events_20261109_120100.jsonl.gz", "notes_20261009.txt"]
    assert [(Path(event.path).name, event.bytes) for event in harness.events.of(EventLogDeleted)] == [
        ("events_20261109_115900.jsonl.gz", 5)
    ]
    # The next look is later.
    harness.clock.advance(300)
    harness.work()
    assert len(harness.names) == 2
    harness.clock.advance(300)
    harness.work()
    assert harness.names == ["notes_20261009.txt"]


def test_oldest_files_are_deleted_when_all_together_are_too_large(tmp_path: Path) -> None:
    harness = UpkeepHarness(tmp_path, max_total_size=300)
    for hour in range(5):
        harness.make(f"events_20261109_1{hour}0000.jsonl", (10 - hour) * 3600, bytes(100))
    active = harness.make("events_20261109_200000.jsonl", 0, bytes(100))
    harness.work(active)
    assert harness.names == [
        "events_20261109_130000.jsonl",
        "events_20261109_140000.jsonl",
        "events_20261109_200000.jsonl",
    ]
    assert {event.reason for event in harness.events.of(EventLogDeleted)} == {"too many bytes"}
    # A file that has just been finished is looked at at once.
    active.write_bytes(bytes(250))
    harness.upkeep.finished(active)
    harness.work()
    assert harness.names == ["events_20261109_200000.jsonl"]


def test_default_bound_of_the_event_log_is_ten_gibibytes() -> None:
    assert EventLogSettings().max_total_size == 10 * 1024**3


@pytest.fixture
def locked(harness: UpkeepHarness) -> Iterator[Path]:
    """A file that another server writes."""
    path = harness.make("events_20261001_120000.jsonl", 30 * DAY)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield path


def test_a_file_that_another_server_locks_is_left_alone(harness: UpkeepHarness, locked: Path) -> None:
    harness.upkeep.finished(locked)
    harness.work()
    assert harness.names == [locked.name]
    assert harness.events.events == []


def test_the_file_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    harness = UpkeepHarness(tmp_path, gzip=True, keep=DAY)
    file = create_event_log(tmp_path, NOON - 30 * DAY)
    path = file.path
    file.append(b"{}\n")
    os.utime(path, (NOON - 20 * DAY, NOON - 20 * DAY))
    harness.work(active=path)
    # Even if it was not said which one it is: it is locked.
    harness.clock.advance(1000)
    harness.work()
    assert harness.names == [path.name]
    file.close()
    harness.clock.advance(1000)
    harness.work()
    assert harness.names == []


def test_a_stop_while_compressing_leaves_the_plain_file(harness: UpkeepHarness) -> None:
    path = harness.make("events_20261116_120000.jsonl")
    harness.upkeep.finished(path)
    assert harness.upkeep.step(None)
    assert len(harness.names) == 2
    harness.upkeep.close()
    assert harness.names == [path.name]
    assert not harness.upkeep.step(None)


def test_a_failure_to_compress_is_reported_once_and_keeps_the_file(harness: UpkeepHarness) -> None:
    for hour in range(3):
        path = harness.make(f"events_20261116_{hour:02d}0000.jsonl", DAY / 2)
        # There is something in the way that no file can replace.
        path.with_name(path.name + ".gz.tmp").mkdir()
    harness.work()
    (failed,) = harness.events.of(EventLogFailed)
    assert failed.error == "EISDIR"
    assert failed.reason.startswith("it is not compressed: ")
    assert len([name for name in harness.names if name.endswith(".jsonl")]) == 3


def test_a_file_that_another_server_compressed_first_is_no_failure(harness: UpkeepHarness) -> None:
    """Two servers share the folder and find the same file. Real failures are still reported."""
    for hour in range(3):
        harness.make(f"events_20261116_{hour:02d}0000.jsonl", DAY / 2)
    harness.upkeep.step(None)
    other = UpkeepHarness(harness.folder, gzip=True)
    other.work()
    harness.work()
    assert len([name for name in harness.names if name.endswith(".gz")]) == 3
    path = harness.make("events_20261116_050000.jsonl", DAY / 2)
    path.with_name(path.name + ".gz.tmp").mkdir()
    harness.upkeep.finished(path)
    harness.work()
    assert [event.error for event in harness.events.of(EventLogFailed)] == ["EISDIR"]
    assert other.events.events == []


def test_a_look_at_the_folder_does_not_disturb_a_compression(harness: UpkeepHarness) -> None:
    harness.make("events_20261115_120000.jsonl", DAY)
    assert harness.upkeep.step(None)
    harness.clock.advance(3600)
    harness.work()
    assert harness.names == ["events_20261115_120000.jsonl.gz"]
    assert harness.events.events == []


def test_the_name_of_a_compressed_file_is_not_used_again(tmp_path: Path) -> None:
    first = create_event_log(tmp_path / "made", NOON)
    first.append(b"{}\n")
    first.close()
    list(compress(first.path))
    second = create_event_log(tmp_path / "made", NOON + 0.9)
    third = create_event_log(tmp_path / "made", NOON + 0.9)
    assert [file.path.name for file in (first, second, third)] == [
        "events_20261116_120000.jsonl",
        "events_20261116_120000-2.jsonl",
        "events_20261116_120000-3.jsonl",
    ]
    second.close()
    third.close()


def test_a_folder_is_created_but_not_its_parent(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        create_event_log(tmp_path / "not mounted" / "events", NOON)
