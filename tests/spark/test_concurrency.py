"""How many watch at the same time: the same as counting them at every moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_analytics.concurrency import Spells, spells_of
from spark_analytics.time_window import TimeWindow

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def spells(*plays: tuple[int, int]) -> Spells:
    columns = {
        "started_at": pa.array([at(begin) for begin, _ in plays], pa.timestamp("us", "UTC")),
        "watch_seconds": pa.array([float(end - begin) for begin, end in plays], pa.float64()),
    }
    return spells_of(pa.table(columns))


plays = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda ends: (min(ends), max(ends))))


@given(plays, st.integers(0, 40), st.integers(0, 40))
def test_the_same_as_counting_at_every_moment(times: list[tuple[int, int]], since: int, length: int) -> None:
    until = since + length
    inside = spells(*times).within(TimeWindow(at(since), at(until)))
    viewers = [sum(begin <= second < end for begin, end in times) for second in range(since, until)]
    watching = inside.counted()
    highest = max(viewers, default=0)
    assert watching.peak() == (highest, at(since + viewers.index(highest)) if highest else None)
    assert inside.seconds == sum(viewers)
    steps = watching.steps(5)
    first = int(NOON.timestamp()) // 5
    expected: dict[int, list[int]] = {}
    for second, count in enumerate(viewers, since):
        if count:
            expected.setdefault(first + second // 5, []).append(count)
    assert steps.numbers.tolist() == sorted(expected)
    assert steps.peaks.tolist() == [max(expected[number]) for number in sorted(expected)]
    assert steps.watch_seconds.tolist() == [sum(expected[number]) for number in sorted(expected)]


def test_nobody() -> None:
    watching = spells().counted()
    assert watching.peak() == (0, None)
    assert watching.steps(60).numbers.tolist() == []


def test_a_play_of_years_has_few_minutes() -> None:
    latest = spells((0, 10**8)).latest(timedelta(minutes=2))
    assert latest.seconds == pytest.approx(120)
    assert len(latest.counted().steps(60).numbers) == 3
