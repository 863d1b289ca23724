"""Files of the event log: complete lines, whatever the disk does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtmprelay.event_log.names import file_name, is_event_log
from rtmprelay.events import EventLogFailed, EventsLost
from tests.event_log.helpers import DAY, NOON, Desk, parse
from tests.files.memory_disk import EIO, ENOSPC


def test_events_go_to_one_file_which_is_synced_at_the_end() -> None:
    desk = Desk()
    desk.tell(3)
    desk.tell(2)
    (file,) = desk.disk.files.values()
    assert desk.disk.names == ["events_20261116_120000.jsonl"]
    assert desk.numbers() == [1, 2, 3, 4, 5]
    closed = [file.closed]
    desk.log.stop()
    closed.append(file.closed)
    assert closed == [False, True]
    assert file.synced == len(file.data)


def test_nothing_is_written_before_the_start_and_behind_the_end() -> None:
    desk = Desk()
    desk.log.stop()
    desk.tell(work=False)
    assert desk.disk.files == {}
    desk.log.start("another")
    desk.tell()
    assert [line["instance"] for line in desk.lines()] == ["another"]
    assert desk.numbers() == [1]


def test_a_new_file_begins_when_one_is_full() -> None:
    desk = Desk(max_file_size=1000)
    desk.tell(100)
    assert len(desk.disk.files) > 10
    assert all(0 < len(file.data) <= 1000 for file in desk.disk.files.values())
    assert all(file.closed and file.synced == len(file.data) for file in list(desk.disk.files.values())[:-1])
    assert desk.numbers() == list(range(1, 101))
    assert desk.disk.names[:3] == [
        "events_20261116_120000.jsonl",
        "events_20261116_120000-2.jsonl",
        "events_20261116_120000-3.jsonl",
    ]


def test_a_line_that_is_larger_than_a_file_has_one_for_itself() -> None:
    desk = Desk(max_file_size=50)
    desk.tell(3)
    assert [len(parse(bytes(file.data))) for file in desk.disk.files.values()] == [1, 1, 1]


def test_each_day_has_its_own_file() -> None:
    desk = Desk()
    desk.tell(2, work=False)
    desk.clock.advance(DAY / 2)
    desk.tell(1, work=False)
    # The clock is set back a little: no third file.
    desk.clock.rightNow -= 3600
    desk.tell(1)
    assert desk.disk.names == ["events_20261116_120000.jsonl", "events_20261117_000000.jsonl"]
    assert [len(parse(bytes(file.data))) for file in desk.disk.files.values()] == [2, 2]


def test_a_day_ends_without_an_event() -> None:
    desk = Desk()
    desk.tell()
    (file,) = desk.disk.files.values()
    desk.clock.advance(DAY / 2 - 1)
    desk.work()
    closed = [file.closed]
    desk.clock.advance(2)
    desk.work()
    closed.append(file.closed)
    assert closed == [False, True]
    desk.tell()
    assert len(desk.disk.files) == 2


def test_a_torn_line_is_removed_and_written_again() -> None:
    desk = Desk()
    desk.tell(5)
    desk.disk.size = desk.disk.size - desk.disk.room() + 200
    desk.tell(3)
    (first,) = desk.disk.files.values()
    assert first.data.endswith(b"\n")
    assert first.closed
    assert desk.numbers() == [1, 2, 3, 4, 5, 6]
    assert [event.error for event in desk.told.of(EventLogFailed)] == ["ENOSPC"]
    desk.disk.size = 10**9
    desk.clock.advance(1)
    desk.work()
    assert len(desk.disk.files) == 2
    # The failure itself is an event as well.
    assert desk.numbers() == list(range(1, 10))
    assert desk.lines()[-1]["event"] == "event_log_failed"


def test_a_torn_line_that_cannot_be_removed_is_the_last_of_its_file() -> None:
    desk = Desk()
    desk.tell(5)
    desk.disk.refuses_truncation = True
    desk.disk.size = desk.disk.size - desk.disk.room() + 200
    desk.tell(3)
    desk.disk.size = 10**9
    desk.clock.advance(1)
    desk.work()
    first, second = desk.disk.files.values()
    assert not first.data.endswith(b"\n")
    assert second.data.endswith(b"\n")
    assert desk.numbers() == list(range(1, 10))


def test_a_disk_that_takes_little_at_a_time() -> None:
    desk = Desk()
    desk.disk.max_write = 7
    desk.tell(20)
    assert desk.numbers() == list(range(1, 21))
    assert desk.told.of(EventLogFailed) == []


def test_a_broken_disk_is_told_once_and_tried_later_and_later() -> None:
    desk = Desk()
    desk.disk.error = EIO
    for _ in range(600):
        desk.tell()
        desk.clock.advance(0.5)
    assert [(event.error, event.reason) for event in desk.told.of(EventLogFailed)] == [
        ("EIO", "Input/output error")
    ]
    # 1, 2, 4, 8, 16, 30, 30 ... seconds in 300 s.
    assert 13 <= desk.disk.attempts <= 16
    desk.disk.error = None
    desk.clock.advance(30)
    desk.tell()
    assert desk.numbers() == list(range(1, 603))
    assert desk.told.of(EventsLost) == []


def test_an_outage_after_a_good_while_is_told_again() -> None:
    desk = Desk()
    for _ in range(2):
        desk.disk.error = EIO
        desk.tell()
        desk.disk.error = None
        desk.clock.advance(1)
        desk.tell()
        desk.clock.advance(11)
        desk.tell()
    assert len(desk.told.of(EventLogFailed)) == 2


def test_a_failed_file_without_a_line_is_removed() -> None:
    desk = Desk()
    desk.disk.size = 10
    for _ in range(20):
        desk.tell()
        desk.clock.advance(30)
    assert desk.disk.files == {}


def test_what_does_not_fit_is_counted_and_told_once_there_is_room() -> None:
    desk = Desk(queue_bytes=2000)
    desk.disk.error = ENOSPC
    desk.tell(100)
    lost = desk.lost
    assert 80 < lost < 100
    assert desk.told.of(EventsLost) == []
    desk.disk.error = None
    desk.clock.advance(1)
    desk.work()
    assert [event.count for event in desk.told.of(EventsLost)] == [lost]
    desk.work()
    assert desk.lines()[-1]["event"] == "events_lost"
    assert desk.lines()[-1]["count"] == lost
    # The event that tells of the failure found no room either: of all that have a number, so many are not there.
    numbers = desk.numbers()
    assert numbers[-1] - len(numbers) == lost
    desk.tell(5)
    assert len(desk.numbers()) == len(numbers) + 5


def test_losses_are_in_the_file_even_if_the_server_stops() -> None:
    desk = Desk(queue_bytes=2000)
    desk.tell(100, work=False)
    lost = desk.lost
    desk.log.stop()
    last = desk.lines()[-1]
    assert (last["event"], last["count"]) == ("events_lost", lost)
    assert last["number"] == 101


def test_the_last_lines_are_tried_even_while_a_disk_fails() -> None:
    desk = Desk()
    desk.disk.error = EIO
    desk.tell()
    desk.disk.error = None
    desk.log.stop()
    assert desk.numbers() == [1, 2]


def test_a_file_that_was_deleted_is_followed_by_a_new_one() -> None:
    desk = Desk()
    desk.tell(2)
    desk.disk.files.clear()
    desk.tell(1)
    assert desk.numbers() == [3]
    assert desk.told.of(EventLogFailed) == []


def test_a_server_to_which_nothing_happens_says_that_it_is_alive() -> None:
    desk = Desk(alive_interval=60)
    desk.tell()
    for _ in range(5):
        desk.clock.advance(60)
    # Within the first minute something happened.
    assert len(desk.told.events) == 1
    desk.work()
    assert [line["event"] for line in desk.lines()] == ["play_started"] + ["server_alive"] * 4
    desk.tell()
    desk.clock.advance(60)
    desk.log.stop()
    desk.clock.advance(600)
    assert [line["event"] for line in desk.lines()][-1] == "play_started"
    assert desk.numbers() == list(range(1, 7))


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 8),
            st.sampled_from(["ok", "full", "broken", "stuck"]),
            st.integers(0, 400),
            st.floats(0, 40_000),
        ),
        max_size=20,
    ),
    st.integers(100, 3000),
)
def test_whatever_the_disk_does_lines_are_whole_in_order_and_accounted_for(
    steps: list[tuple[int, str, int, float]], max_file_size: int
) -> None:
    desk = Desk(max_file_size=max_file_size, queue_bytes=1500)
    for count, disk, room, seconds in steps:
        desk.disk.error = EIO if disk == "broken" else None
        desk.disk.refuses_truncation = disk == "stuck"
        used = desk.disk.used()
        desk.disk.size = used + room if disk in ("full", "stuck") else 10**9
        desk.tell(count)
        desk.clock.advance(seconds)
    desk.disk.error, desk.disk.size = None, 10**9
    desk.clock.advance(60)
    desk.work()
    desk.log.stop()
    numbers = desk.numbers()
    assert numbers == sorted(set(numbers))
    lost = sum(line["count"] for line in desk.lines() if line["event"] == "events_lost")
    assert (numbers[-1] if numbers else 0) == len(numbers) + lost


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("events_20261116_120000.jsonl", True),
        ("events_20261116_120000-12.jsonl", True),
        ("events_20261116_120000.jsonl.gz", True),
        ("events_20261116_120000.jsonl.gz.tmp", False),
        ("events_20261116.jsonl", False),
        ("my_events_20261116_120000.jsonl", False),
        ("events_20261116_120000.jsonl.bak", False),
    ],
)
def test_names(name: str, is_one: bool) -> None:
    assert is_event_log(name) is is_one
    assert is_event_log(Path(file_name(NOON, 3)).name)
