"""Files of the event log: complete lines, whatever the disk does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtmprelay.event_log.names import file_name, is_event_log
from rtmprelay.events import EventLogFailed, EventsLost
from tests.event_log.helpers import DAY, NOON, EventLogHarness, parse
from tests.files.memory_disk import EIO, ENOSPC
from tests.rounds import rounds


def test_events_go_to_one_file_that_is_synced_at_the_end() -> None:
    harness = EventLogHarness()
    harness.publish_plays(3)
    harness.publish_plays(2)
    (file,) = harness.disk.files.values()
    assert harness.disk.names == ["events_20261116_120000.jsonl"]
    assert harness.numbers() == [1, 2, 3, 4, 5]
    closed = [file.closed]
    harness.log.stop()
    closed.append(file.closed)
    assert closed == [False, True]
    assert file.synced == len(file.data)


def test_nothing_is_written_before_the_start_and_after_the_end() -> None:
    harness = EventLogHarness()
    harness.log.stop()
    harness.publish_plays(work=False)
    assert harness.disk.files == {}
    harness.log.start("another")
    harness.publish_plays()
    assert [line["instance"] for line in harness.lines()] == ["another"]
    assert harness.numbers() == [1]


def test_a_new_file_begins_when_one_is_full() -> None:
    harness = EventLogHarness(max_file_size=1000)
    harness.publish_plays(100)
    assert len(harness.disk.files) > 10
    assert all(0 < len(file.data) <= 1000 for file in harness.disk.files.values())
    assert all(
        file.closed and file.synced == len(file.data) for file in list(harness.disk.files.values())[:-1]
    )
    assert harness.numbers() == list(range(1, 101))
    assert harness.disk.names[:3] == [
        "events_20261116_120000.jsonl",
        "events_20261116_120000-2.jsonl",
        "events_20261116_120000-3.jsonl",
    ]


def test_a_line_larger_than_the_file_limit_has_a_file_of_its_own() -> None:
    harness = EventLogHarness(max_file_size=50)
    harness.publish_plays(3)
    assert [len(parse(bytes(file.data))) for file in harness.disk.files.values()] == [1, 1, 1]


def test_each_day_has_its_own_file() -> None:
    harness = EventLogHarness()
    harness.publish_plays(2, work=False)
    harness.clock.advance(DAY / 2)
    harness.publish_plays(1, work=False)
    # The clock is set back a little: no third file.
    harness.clock.rightNow -= 3600
    harness.publish_plays(1)
    assert harness.disk.names == ["events_20261116_120000.jsonl", "events_20261117_000000.jsonl"]
    assert [len(parse(bytes(file.data))) for file in harness.disk.files.values()] == [2, 2]


def test_a_file_is_finished_at_midnight_without_an_event() -> None:
    harness = EventLogHarness()
    harness.publish_plays()
    (file,) = harness.disk.files.values()
    harness.clock.advance(DAY / 2 - 1)
    harness.work()
    closed = [file.closed]
    harness.clock.advance(2)
    harness.work()
    closed.append(file.closed)
    assert closed == [False, True]
    harness.publish_plays()
    assert len(harness.disk.files) == 2


def test_a_torn_line_is_removed_and_written_again() -> None:
    harness = EventLogHarness()
    harness.publish_plays(5)
    harness.disk.size = harness.disk.size - harness.disk.room() + 200
    harness.publish_plays(3)
    (first,) = harness.disk.files.values()
    assert first.data.endswith(b"\n")
    assert first.closed
    assert harness.numbers() == [1, 2, 3, 4, 5, 6]
    assert [event.error for event in harness.events.of(EventLogFailed)] == ["ENOSPC"]
    harness.disk.size = 10**9
    harness.clock.advance(1)
    harness.work()
    assert len(harness.disk.files) == 2
    # The failure itself is an event as well.
    assert harness.numbers() == list(range(1, 10))
    assert harness.lines()[-1]["event"] == "event_log_failed"


def test_a_torn_line_that_cannot_be_removed_is_the_last_of_its_file() -> None:
    harness = EventLogHarness()
    harness.publish_plays(5)
    harness.disk.refuses_truncation = True
    harness.disk.size = harness.disk.size - harness.disk.room() + 200
    harness.publish_plays(3)
    harness.disk.size = 10**9
    harness.clock.advance(1)
    harness.work()
    first, second = harness.disk.files.values()
    assert not first.data.endswith(b"\n")
    assert second.data.endswith(b"\n")
    assert harness.numbers() == list(range(1, 10))


def test_a_disk_that_takes_few_bytes_at_a_time_gets_every_line() -> None:
    harness = EventLogHarness()
    harness.disk.max_write = 7
    harness.publish_plays(20)
    assert harness.numbers() == list(range(1, 21))
    assert harness.events.of(EventLogFailed) == []


def test_a_broken_disk_is_reported_once_and_tried_later_and_later() -> None:
    harness = EventLogHarness()
    harness.disk.error = EIO
    for _ in range(600):
        harness.publish_plays()
        harness.clock.advance(0.5)
    assert [(event.error, event.reason) for event in harness.events.of(EventLogFailed)] == [
        ("EIO", "Input/output error")
    ]
    # 1, 2, 4, 8, 16, 30, 30 ... seconds in 300 s.
    assert 13 <= harness.disk.attempts <= 16
    harness.disk.error = None
    harness.clock.advance(30)
    harness.publish_plays()
    assert harness.numbers() == list(range(1, 603))
    assert harness.events.of(EventsLost) == []


def test_an_outage_after_ten_good_seconds_is_reported_again() -> None:
    harness = EventLogHarness()
    for _ in range(2):
        harness.disk.error = EIO
        harness.publish_plays()
        harness.disk.error = None
        harness.clock.advance(1)
        harness.publish_plays()
        harness.clock.advance(11)
        harness.publish_plays()
    assert len(harness.events.of(EventLogFailed)) == 2


def test_a_failed_file_without_a_line_is_removed() -> None:
    harness = EventLogHarness()
    harness.disk.size = 10
    for _ in range(20):
        harness.publish_plays()
        harness.clock.advance(30)
    assert harness.disk.files == {}


def test_events_beyond_the_queue_are_counted_and_reported_when_there_is_room() -> None:
    harness = EventLogHarness(queue_bytes=2000)
    harness.disk.error = ENOSPC
    harness.publish_plays(100)
    lost = harness.lost
    assert 80 < lost < 100
    assert harness.events.of(EventsLost) == []
    harness.disk.error = None
    harness.clock.advance(1)
    harness.work()
    assert [event.count for event in harness.events.of(EventsLost)] == [lost]
    harness.work()
    assert harness.lines()[-1]["event"] == "events_lost"
    assert harness.lines()[-1]["count"] == lost
    # The event that tells of the failure found no room either: of all that have a number, so many are not there.
    numbers = harness.numbers()
    assert numbers[-1] - len(numbers) == lost
    harness.publish_plays(5)
    assert len(harness.numbers()) == len(numbers) + 5


def test_losses_are_in_the_file_when_the_server_stops() -> None:
    harness = EventLogHarness(queue_bytes=2000)
    harness.publish_plays(100, work=False)
    lost = harness.lost
    harness.log.stop()
    last = harness.lines()[-1]
    assert (last["event"], last["count"]) == ("events_lost", lost)
    assert last["number"] == 101


def test_a_stop_tries_to_write_although_the_disk_failed() -> None:
    harness = EventLogHarness()
    harness.disk.error = EIO
    harness.publish_plays()
    harness.disk.error = None
    harness.log.stop()
    assert harness.numbers() == [1, 2]


def test_a_deleted_file_is_followed_by_a_new_one() -> None:
    harness = EventLogHarness()
    harness.publish_plays(2)
    harness.disk.files.clear()
    harness.publish_plays(1)
    assert harness.numbers() == [3]
    assert harness.events.of(EventLogFailed) == []


def test_an_idle_server_writes_that_it_is_alive() -> None:
    harness = EventLogHarness(alive_interval=60)
    harness.publish_plays()
    for _ in range(5):
        harness.clock.advance(60)
    # Within the first minute something happened.
    assert len(harness.events.events) == 1
    harness.work()
    assert [line["event"] for line in harness.lines()] == ["play_started"] + ["server_alive"] * 4
    harness.publish_plays()
    harness.clock.advance(60)
    harness.log.stop()
    harness.clock.advance(600)
    assert [line["event"] for line in harness.lines()][-1] == "play_started"
    assert harness.numbers() == list(range(1, 7))


@settings(max_examples=rounds(40, full=200))
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
def test_whatever_the_disk_does_lines_are_whole_in_order_and_counted(
    steps: list[tuple[int, str, int, float]], max_file_size: int
) -> None:
    harness = EventLogHarness(max_file_size=max_file_size, queue_bytes=1500)
    for count, disk, room, seconds in steps:
        harness.disk.error = EIO if disk == "broken" else None
        harness.disk.refuses_truncation = disk == "stuck"
        used = harness.disk.used()
        harness.disk.size = used + room if disk in ("full", "stuck") else 10**9
        harness.publish_plays(count)
        harness.clock.advance(seconds)
    harness.disk.error, harness.disk.size = None, 10**9
    harness.clock.advance(60)
    harness.work()
    harness.log.stop()
    numbers = harness.numbers()
    assert numbers == sorted(set(numbers))
    lost = sum(line["count"] for line in harness.lines() if line["event"] == "events_lost")
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
def test_only_finished_event_logs_are_recognized_by_name(name: str, is_one: bool) -> None:
    assert is_event_log(name) is is_one
    assert is_event_log(Path(file_name(NOON, 3)).name)
