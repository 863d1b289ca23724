"""Finished event logs on a real disk: compressed, deleted, and never touched while somebody writes."""

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


class Caretaker:
    """The upkeep of a folder, with a clock that is moved by hand."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.clock = Clock()
        self.told = EventList()
        self.folder = folder
        self.upkeep = Upkeep(
            folder,
            EventLogSettings(folder=folder, **settings),
            lambda: NOON + self.clock.seconds(),
            self.clock.seconds,
            lambda event: self.told.event_happened(0.0, event),
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
def caretaker(tmp_path: Path) -> Caretaker:
    return Caretaker(tmp_path, gzip=True, keep=7 * DAY)


def test_a_finished_file_is_compressed_in_steps(caretaker: Caretaker) -> None:
    path = caretaker.make("events_20261116_120000.jsonl", 5)
    caretaker.upkeep.finished(path)
    assert caretaker.work() >= len(CONTENT) // 2**20
    assert caretaker.names == ["events_20261116_120000.jsonl.gz"]
    compressed = caretaker.folder / "events_20261116_120000.jsonl.gz"
    assert gzip.decompress(compressed.read_bytes()) == CONTENT
    assert compressed.stat().st_mtime == NOON - 5


def test_without_the_option_files_stay_as_they_are(tmp_path: Path) -> None:
    caretaker = Caretaker(tmp_path)
    path = caretaker.make("events_20261116_120000.jsonl", 100 * DAY)
    caretaker.upkeep.finished(path)
    caretaker.work()
    assert caretaker.names == ["events_20261116_120000.jsonl"]


def test_at_any_moment_one_of_both_is_complete(caretaker: Caretaker) -> None:
    """What a kill leaves, at every step: the plain file is whole until the compressed one is."""
    path = caretaker.make("events_20261116_120000.jsonl")
    for _ in compress(path):
        assert path.read_bytes() == CONTENT
        assert "events_20261116_120000.jsonl.gz" not in caretaker.names
    assert caretaker.names == ["events_20261116_120000.jsonl.gz"]


def test_what_a_killed_server_left_is_compressed_later(caretaker: Caretaker) -> None:
    caretaker.make("events_20261115_120000.jsonl", DAY)
    caretaker.make("events_20261115_120000.jsonl.gz.tmp", DAY, b"half of it")
    # Killed between the two last steps: the compressed file is whole, and the plain one goes.
    caretaker.make("events_20261115_130000.jsonl", DAY, b"old\n")
    caretaker.make("events_20261115_130000.jsonl.gz", DAY, gzip.compress(b"old\n"))
    caretaker.make("events_20261116_115959.jsonl", 1)
    caretaker.make("mine.jsonl", DAY)
    caretaker.work()
    assert caretaker.names == [
        "events_20261115_120000.jsonl.gz",
        "events_20261115_130000.jsonl.gz",
        "events_20261116_115959.jsonl",
        "mine.jsonl",
    ]
    assert gzip.decompress((caretaker.folder / "events_20261115_120000.jsonl.gz").read_bytes()) == CONTENT


def test_old_files_are_deleted_and_told_of(caretaker: Caretaker) -> None:
    caretaker.make("events_20261109_115900.jsonl.gz", 7 * DAY + 60, b"12345")
    caretaker.make("events_20261109_120100.jsonl.gz", 7 * DAY - 60)
    caretaker.make("notes_20261009.txt", 30 * DAY)
    caretaker.work()
    assert caretaker.names == ["events_20261109_120100.jsonl.gz", "notes_20261009.txt"]
    assert [(Path(event.path).name, event.bytes) for event in caretaker.told.of(EventLogDeleted)] == [
        ("events_20261109_115900.jsonl.gz", 5)
    ]
    # The next look is later.
    caretaker.clock.advance(300)
    caretaker.work()
    assert len(caretaker.names) == 2
    caretaker.clock.advance(300)
    caretaker.work()
    assert caretaker.names == ["notes_20261009.txt"]


@pytest.fixture
def locked(caretaker: Caretaker) -> Iterator[Path]:
    """A file that another server writes."""
    path = caretaker.make("events_20261001_120000.jsonl", 30 * DAY)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield path


def test_files_of_another_server_are_left_alone(caretaker: Caretaker, locked: Path) -> None:
    caretaker.upkeep.finished(locked)
    caretaker.work()
    assert caretaker.names == [locked.name]
    assert caretaker.told.events == []


def test_the_file_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    caretaker = Caretaker(tmp_path, gzip=True, keep=DAY)
    file = create_event_log(tmp_path, NOON - 30 * DAY)
    path = file.path
    file.append(b"{}\n")
    os.utime(path, (NOON - 20 * DAY, NOON - 20 * DAY))
    caretaker.work(active=path)
    # Even if it was not said which one it is: it is locked.
    caretaker.clock.advance(1000)
    caretaker.work()
    assert caretaker.names == [path.name]
    file.close()
    caretaker.clock.advance(1000)
    caretaker.work()
    assert caretaker.names == []


def test_a_stop_in_the_middle_leaves_the_plain_file(caretaker: Caretaker) -> None:
    path = caretaker.make("events_20261116_120000.jsonl")
    caretaker.upkeep.finished(path)
    assert caretaker.upkeep.step(None)
    assert len(caretaker.names) == 2
    caretaker.upkeep.close()
    assert caretaker.names == [path.name]
    assert not caretaker.upkeep.step(None)


def test_a_failure_is_told_once_and_harms_nothing(caretaker: Caretaker) -> None:
    for hour in range(3):
        path = caretaker.make(f"events_20261116_{hour:02d}0000.jsonl", DAY / 2)
        # There is something in the way that no file can replace.
        path.with_name(path.name + ".gz.tmp").mkdir()
    caretaker.work()
    (failed,) = caretaker.told.of(EventLogFailed)
    assert failed.error == "EISDIR"
    assert failed.reason.startswith("it is not compressed: ")
    assert len([name for name in caretaker.names if name.endswith(".jsonl")]) == 3


def test_a_file_that_another_server_was_faster_with_is_no_failure(caretaker: Caretaker) -> None:
    """Two servers share the folder, and both have found what a third one left. A real failure is told then as ever."""
    for hour in range(3):
        caretaker.make(f"events_20261116_{hour:02d}0000.jsonl", DAY / 2)
    caretaker.upkeep.step(None)
    other = Caretaker(caretaker.folder, gzip=True)
    other.work()
    caretaker.work()
    assert len([name for name in caretaker.names if name.endswith(".gz")]) == 3
    path = caretaker.make("events_20261116_050000.jsonl", DAY / 2)
    path.with_name(path.name + ".gz.tmp").mkdir()
    caretaker.upkeep.finished(path)
    caretaker.work()
    assert [event.error for event in caretaker.told.of(EventLogFailed)] == ["EISDIR"]
    assert other.told.events == []


def test_a_look_while_a_file_is_being_compressed(caretaker: Caretaker) -> None:
    caretaker.make("events_20261115_120000.jsonl", DAY)
    assert caretaker.upkeep.step(None)
    caretaker.clock.advance(3600)
    caretaker.work()
    assert caretaker.names == ["events_20261115_120000.jsonl.gz"]
    assert caretaker.told.events == []


def test_a_name_that_was_taken_gets_a_number_even_if_the_other_is_compressed(tmp_path: Path) -> None:
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


def test_a_folder_is_made_but_not_what_is_above_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        create_event_log(tmp_path / "not mounted" / "events", NOON)
