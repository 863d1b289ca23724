"""Timestamps over several publishers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.media import milliseconds_between
from rtmprelay.streams.timeline import Timeline


def test_first_publishers_timestamps_are_left_alone() -> None:
    timeline = Timeline()
    times = [5_000, 4_000, 2**32 - 1, 0, 7]
    assert timeline.offset == 0
    assert [timeline.place(time, True) for time in times] == times


def test_next_publisher_follows_after_the_real_gap_by_one_offset() -> None:
    timeline = Timeline()
    timeline.resume(1_000, 3.5)
    assert timeline.place(0, False) == 4_500
    assert timeline.place(80, True) == 4_500
    assert timeline.place(90, True) == 4_510
    assert timeline.place(70, True) == 4_490
    assert timeline.place(60, False) == 4_480


def test_publisher_that_returns_at_once_is_still_later() -> None:
    timeline = Timeline()
    timeline.resume(1_000, 0.0)
    assert timeline.place(0, True) == 1_001


def test_timestamps_of_several_returns_follow_each_other() -> None:
    timeline = Timeline()
    timeline.resume(100, 1.0)
    assert timeline.place(0, True) == 1_100
    assert timeline.place(50, True) == 1_150
    timeline.resume(1_150, 1.0)
    assert timeline.place(0, True) == 2_150


def test_publisher_that_sends_only_headers_decides_nothing() -> None:
    timeline = Timeline()
    timeline.resume(42, 1.0)
    assert timeline.place(7, False) == 1_042
    timeline.resume(42, 2.0)
    assert timeline.place(0, True) == 2_042


def test_after_a_restart_timestamps_are_left_alone() -> None:
    timeline = Timeline()
    timeline.resume(1_000, 1.0)
    timeline.restart()
    assert timeline.offset == 0
    assert timeline.place(3, True) == 3


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.floats(0.001, 1e6))
def test_return_never_goes_back_over_the_wrap(last: int, first: int, gap: float) -> None:
    timeline = Timeline()
    timeline.resume(last, gap)
    placed = timeline.place(first, True)
    later = timeline.place((first + 40) % 2**32, True)
    assert 0 <= placed < 2**32
    assert milliseconds_between(last, placed) == max(1, round(gap * 1000))
    assert milliseconds_between(placed, later) == 40
