"""Curves over time, with as many points as a plot can show."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

#: Points of a curve, and bars of a plot.
MOST_POINTS = 480
MOST_BARS = 62

_DAY = 86_400

#: Seconds of a bar where days are too long: the first with which there are not too many.
_SHORT_BARS = (60, 300, 900, 3600)

#: The same for the points of what is counted.
_SHORT_STEPS = (1, 5, 15)


@attrs.frozen
class Period:
    """The time that a plot shows, and how long one of so many steps is."""

    begin: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """How long it is."""
        return (self.end - self.begin).total_seconds()

    def step(self, shortest: int, most: int = MOST_POINTS) -> int:
        """Seconds between two points of a curve; a round number of the shortest ones."""
        count = max(1, -(-int(self.seconds) // (most * shortest)))
        return count * shortest

    def step_of_counts(self) -> int:
        """Seconds between two points of a curve that counts."""
        short = (step for step in _SHORT_STEPS if self.seconds <= MOST_POINTS * step)
        return next(short, self.step(60))

    def times(self, step: int) -> list[datetime]:
        """All steps that begin before it ends."""
        first = int(self.begin.timestamp()) // step * step
        return [
            datetime.fromtimestamp(second, UTC)
            for second in range(first, math.ceil(self.end.timestamp()), step)
        ]


@attrs.frozen
class Bars:
    """How many seconds were recorded in each of equal pieces of time.

    Attributes:
        step: Seconds of a bar.
        best: The piece with most; a day of it where a bar has several.
    """

    step: int = _DAY
    bars: list[tuple[datetime, float]] = attrs.field(factory=list)
    best: tuple[datetime, float] | None = None


def bars_of(period: Period, spans: Iterable[tuple[datetime, datetime]]) -> Bars:
    """Bars of days, or of less where the period is short. A span that goes on over the end of a piece belongs to both."""
    step = next((one for one in _SHORT_BARS if period.seconds <= MOST_BARS * one), _DAY)
    seconds: dict[int, float] = defaultdict(float)
    for begin, end in spans:
        at, last = begin.timestamp(), end.timestamp()
        while at < last:
            piece = int(at // step)
            until = min((piece + 1) * step, last)
            seconds[piece] += until - at
            at = until
    pieces = [(time, seconds[int(time.timestamp()) // step]) for time in period.times(step)]
    several = -(-len(pieces) // MOST_BARS)
    groups = [pieces[first : first + several] for first in range(0, len(pieces), several)]
    best = max(seconds.items(), key=lambda one: one[1], default=None)
    return Bars(
        step * several,
        [(group[0][0], sum(value for _, value in group)) for group in groups],
        None if best is None else (datetime.fromtimestamp(best[0] * step, UTC), best[1]),
    )


@attrs.frozen
class Curve:
    """Values over time, one for each of equal steps; None where there is nothing."""

    name: str
    period: Period
    times: list[datetime]
    values: list[float | None]
    low: list[float | None] = attrs.field(factory=list)
    high: list[float | None] = attrs.field(factory=list)


def curve_of(name: str, period: Period, times: pa.ChunkedArray, values: pa.ChunkedArray, step: int) -> Curve:
    """Average, lowest and highest of each step."""
    second = pc.floor(pc.divide(pc.cast(pc.cast(times, pa.int64()), pa.float64()), 1e6 * step))
    grouped = (
        pa.table({"step": pc.cast(second, pa.int64()), "value": pc.cast(values, pa.float64())})
        .group_by("step")
        .aggregate([("value", "mean"), ("value", "min"), ("value", "max")])
    )
    found = {row["step"]: row for row in grouped.to_pylist()}
    moments = period.times(step)
    rows = [found.get(int(moment.timestamp()) // step) for moment in moments]
    return Curve(
        name,
        period,
        moments,
        [row and row["value_mean"] for row in rows],
        [row and row["value_min"] for row in rows],
        [row and row["value_max"] for row in rows],
    )


def whole_seconds(seconds: pa.Table, recordings: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows of `seconds` without the last one of each file: that is hardly ever a whole second, and would look as if the
    bitrate fell.
    """
    files = {
        str(row["file_id"]): row["duration_ms"] // 1000
        for row in recordings
        # There is nothing else of a file that is shorter than two seconds.
        if row["duration_ms"] and row["duration_ms"] >= 2000
    }
    last = pa.table(
        {
            "file_id": pa.array(files.keys(), pa.string()),
            "second": pa.array(files.values(), seconds.schema.field("second").type),
        }
    )
    return seconds.join(last, ["file_id", "second"], join_type="left anti")
