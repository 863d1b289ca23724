"""How many watch at the same time, counted from the plays themselves: who comes is one more, who goes is one less.

The peaks of several servers or streams cannot be added for that: they need not have been at the same time.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_analytics.time_window import TimeWindow

#: Moments in microseconds since 1970, and other numbers. There may be millions of plays: they are no objects here.
Numbers: TypeAlias = NDArray[np.int64]

SECOND = 1_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@attrs.frozen(eq=False)
class Spells:
    """When each of some plays was, as far as it is in a time.

    Attributes:
        begins, ends: An end is the first moment that is not in it any more.
    """

    begins: Numbers
    ends: Numbers

    @property
    def seconds(self) -> float:
        """How long they are together."""
        return float((self.ends - self.begins).sum()) / SECOND

    def within(self, window: TimeWindow) -> Spells:
        """What of them is in a time; of those that are not, nothing is left."""
        begins, ends = self.begins, self.ends
        if window.since is not None:
            begins = np.maximum(begins, microseconds(window.since))
        if window.until is not None:
            ends = np.minimum(ends, microseconds(window.until))
        return Spells(begins, np.maximum(begins, ends))

    def latest(self, longest: timedelta) -> Spells:
        """The last part of those that are longer: they come from clocks that were set, and would have minutes without end."""
        return Spells(np.maximum(self.begins, self.ends - longest // _MICROSECOND), self.ends)

    def counted(self) -> Watching:
        """How many there are at the same time."""
        times = np.concatenate([self.begins, self.ends])
        steps = np.repeat(np.array([1, -1]), len(self.begins))
        order = np.argsort(times, kind="stable")
        times, viewers = times[order], np.cumsum(steps[order])
        begins, ends, viewers = times[:-1], times[1:], viewers[:-1]
        # Who goes at the very moment when another one comes is not counted with him: that lasts for no time.
        is_some = (ends > begins) & (viewers > 0)
        return Watching(begins[is_some], ends[is_some], viewers[is_some])


@attrs.frozen(eq=False)
class Watching:
    """Times in which somebody watched, one after the other; within one of them, nobody came or went.

    Attributes:
        viewers: How many there were in each.
    """

    begins: Numbers
    ends: Numbers
    viewers: Numbers

    def peak(self) -> tuple[int, datetime | None]:
        """The most viewers at the same time, and when there were so many for the first time."""
        if not len(self.viewers):
            return 0, None
        highest = int(np.argmax(self.viewers))
        return int(self.viewers[highest]), moment(int(self.begins[highest]))

    def steps(self, seconds: int) -> Steps:
        """The same for equal steps of time."""
        width = seconds * SECOND
        first, last = self.begins // width, (self.ends - 1) // width
        count = last - first + 1
        piece = np.repeat(np.arange(len(count)), count)
        number = first[piece] + np.arange(len(piece)) - np.repeat(np.cumsum(count) - count, count)
        begins = np.maximum(self.begins[piece], number * width)
        ends = np.minimum(self.ends[piece], (number + 1) * width)
        # The pieces are in the order of time, so that those of a step are side by side.
        steps, starts = np.unique(number, return_index=True)
        viewers = self.viewers[piece]
        return Steps(
            steps,
            np.maximum.reduceat(viewers, starts),
            np.add.reduceat(viewers * (ends - begins), starts) / SECOND,
        )


@attrs.frozen(eq=False)
class Steps:
    """Equal steps of time in which somebody watched.

    Attributes:
        numbers: Which ones, counted from 1970 on.
        peaks: The most viewers at the same time.
        watch_seconds: Of all viewers together.
    """

    numbers: Numbers
    peaks: Numbers
    watch_seconds: NDArray[np.float64]


def spells_of(plays: pa.Table) -> Spells:
    """When plays were. One that goes on is known up to the last event of its server."""
    begins = pc.cast(plays["started_at"], pa.int64()).to_numpy()
    seconds = pc.fill_null(plays["watch_seconds"], 0.0).to_numpy()
    return Spells(begins, begins + np.rint(np.maximum(seconds, 0) * SECOND).astype(np.int64))


def microseconds(time: datetime) -> int:
    """A moment as a number."""
    return (time - _EPOCH) // _MICROSECOND


def moment(number: int) -> datetime:
    """The moment of a number."""
    return _EPOCH + number * _MICROSECOND
