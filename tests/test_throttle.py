"""Reports that come at most once in an interval."""

from __future__ import annotations

from twisted.internet.task import Clock

from rtmprelay.throttle import Throttle


def test_the_first_report_comes_at_once() -> None:
    assert Throttle(Clock()).count() == 1


def test_reports_within_the_interval_are_held_back_and_counted() -> None:
    clock = Clock()
    throttle = Throttle(clock, 10.0)
    counts = []
    for _ in range(25):
        counts.append(throttle.count())
        clock.advance(1)
    assert counts == [1, *[0] * 9, 10, *[0] * 9, 10, *[0] * 4]


def test_several_occurrences_are_counted_at_once() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    assert [throttle.count(3), throttle.count(4)] == [3, 0]
    clock.advance(1)
    assert throttle.count(5) == 9


def test_flush_gives_what_was_held_back_and_begins_a_new_interval() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    throttle.count()
    throttle.count(2)
    clock.advance(0.9)
    assert [throttle.flush(), throttle.flush()] == [2, 0]
    clock.advance(0.9)
    assert throttle.count() == 0


def test_flush_without_anything_held_back_does_not_delay_the_next_report() -> None:
    throttle = Throttle(Clock())
    assert [throttle.flush(), throttle.count()] == [0, 1]
