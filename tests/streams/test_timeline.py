"""Timestamps over several publishers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.media import milliseconds_between
from rtmprelay.streams.timeline import Timeline


def test_the_first_publisher_is_left_alone() -> None:
    timeline = Timeline()
    times = [5_000, 4_000, 2**32 - 1, 0, 7]
    assert [timeline.place(time, True, 0.0) for time in times] == times


def test_the_next_publisher_goes_on_after_the_real_gap_by_one_offset() -> None:
    timeline = Timeline()
    timeline.place(1_000, True, 10.0)
    timeline.resume(13.5)
    assert timeline.place(0, False, 13.6) == 4_500
    assert timeline.place(80, True, 13.7) == 4_500
    assert timeline.place(90, True, 13.7) == 4_510
    assert timeline.place(70, True, 13.7) == 4_490
    assert timeline.place(60, False, 13.7) == 4_480


def test_a_publisher_that_returns_at_once_still_moves_on() -> None:
    timeline = Timeline()
    timeline.place(1_000, True, 10.0)
    timeline.resume(10.0)
    assert timeline.place(0, True, 10.0) == 1_001


def test_several_returns_add_up() -> None:
    timeline = Timeline()
    timeline.place(100, True, 0.0)
    timeline.resume(1.0)
    timeline.place(0, True, 1.0)
    timeline.place(50, True, 1.05)
    timeline.resume(2.05)
    assert timeline.place(0, True, 3.0) == 2_150


def test_a_publisher_that_sent_nothing_changes_nothing() -> None:
    timeline = Timeline()
    timeline.resume(5.0)
    assert timeline.place(42, True, 5.0) == 42
    timeline.resume(6.0)
    timeline.resume(7.0)
    assert timeline.place(0, True, 8.0) == 2_042


def test_headers_alone_do_not_move_the_stream() -> None:
    timeline = Timeline()
    timeline.place(9_999, False, 0.0)
    assert timeline.newest is None


def test_after_a_restart_timestamps_stay_as_they_are() -> None:
    timeline = Timeline()
    timeline.place(1_000, True, 0.0)
    timeline.restart()
    assert timeline.newest is None
    assert timeline.place(3, True, 9.0) == 3


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.floats(0.001, 1e6))
def test_a_return_never_goes_back_over_the_wrap(last: int, first: int, gap: float) -> None:
    timeline = Timeline()
    timeline.place(last, True, 0.0)
    timeline.resume(gap)
    placed = timeline.place(first, True, gap)
    later = timeline.place((first + 40) % 2**32, True, gap)
    assert 0 <= placed < 2**32
    assert milliseconds_between(last, placed) == max(1, round(gap * 1000))
    assert milliseconds_between(placed, later) == 40
