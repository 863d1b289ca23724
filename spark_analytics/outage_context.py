"""What went on during outages: who watched, what they lost, and where it is recorded.

There may be millions of plays and reports: they stay columns here, and each outage looks its sums up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.catalogue import Snapshot
from spark_analytics.concurrency import Numbers, microseconds
from spark_analytics.destination_days import joined_times
from spark_analytics.event_rows import Key, event_rows, streams_of
from spark_analytics.keyframe_offsets import keyframe_offsets
from spark_analytics.questions import quality
from spark_analytics.schemas import DAY
from spark_analytics.time_window import LONGEST, TimeWindow, following_days, midnight_of, shifted

Row = dict[str, Any]

_INSTANT, _DAY = timedelta(microseconds=1), timedelta(days=1)

#: Later than anything ends.
_NEVER = np.iinfo(np.int64).max

_STREAM = ["app", "stream"]
_RECORDING = ["file_id", "path", *_STREAM, "vanished_at", "status"]


def with_context(snapshot: Snapshot, outages: Sequence[Row]) -> list[Row]:
    """Outages, each with what went on meanwhile."""
    context = _Context(snapshot, outages)
    recorded = [context.recordings(outage) for outage in outages]
    firsts = [(files[0], outage["began"]) for files, outage in zip(recorded, outages, strict=True) if files]
    offsets = iter(keyframe_offsets(snapshot, firsts))
    return [
        {
            **outage,
            **context.viewers(outage),
            "recorded_seconds": _seconds_in(files, outage),
            "path": files[0]["path"] if files else None,
            "byte_offset": next(offsets) if files else None,
        }
        for outage, files in zip(outages, recorded, strict=True)
    ]


def _end(outage: Row) -> datetime:
    """When an outage ended, or up to when it is known; it lasts for an instant at least."""
    began: datetime = outage["began"]
    return began + max(timedelta(seconds=outage["seconds"]), _INSTANT)


class _Context:
    """Everything that went on during some outages."""

    def __init__(self, snapshot: Snapshot, outages: Sequence[Row]) -> None:
        near = _Near(snapshot, outages)
        self._plays = {key: _Sums.of(rows, "started_at", "ended_at") for key, rows in near.plays()}
        self._drops = {key: _Sums.of(rows, "began", "ended", "dropped") for key, rows in near.drops()}
        self._recordings = {key: _Recordings.of(rows) for key, rows in near.recordings()}

    def viewers(self, outage: Row) -> Row:
        """How many watched meanwhile, and what became of them."""
        key = outage["app"], outage["stream"]
        plays, drops = self._plays.get(key, _NOTHING), self._drops.get(key, _NOTHING)
        begin, end = microseconds(outage["began"]), microseconds(_end(outage))
        return {
            "viewers": plays.begun_before(end) - plays.ended_until(begin),
            "viewers_left": plays.ended_until(end) - plays.ended_until(begin),
            "viewers_dropped": drops.begun_before(end) - drops.ended_until(begin),
        }

    def recordings(self, outage: Row) -> list[Row]:
        """Those that show something of it, in the order of time; of copies, the best one first."""
        found = self._recordings.get((outage["app"], outage["stream"]))
        if found is None:
            return []
        files = found.during(microseconds(outage["began"]), microseconds(_end(outage)))
        files.sort(key=quality, reverse=True)
        return sorted(files, key=lambda row: row["started_at"])


class _Near:
    """Reads what overlaps with the time of some outages, of their streams."""

    def __init__(self, snapshot: Snapshot, outages: Sequence[Row]) -> None:
        self._snapshot = snapshot
        self._times = joined_times((row["began"], _end(row)) for row in outages)
        self._window = TimeWindow(self._times[0][0], self._times[-1][1])
        names = {name: pa.array({row[name] for row in outages}) for name in _STREAM}
        self._of_streams = pc.field("app").isin(names["app"]) & pc.field("stream").isin(names["stream"])

    def plays(self) -> Iterator[tuple[Key, pa.Table]]:
        return self._read("viewers", "started_at", "ended_at", _STREAM)

    def recordings(self) -> Iterator[tuple[Key, pa.Table]]:
        return self._read("recordings", "started_at", "ended_at", _RECORDING)

    def drops(self) -> Iterator[tuple[Key, pa.Table]]:
        """The reports of viewers who did not get everything. There are so many reports that those of days without an
        outage are not read; but for some that tell of more than a day, they are of the day of the outage, or the next.
        """
        days = {
            day.date()
            for begin, end in self._times
            for day in following_days(begin, shifted(midnight_of(end), 2 * _DAY))
        }
        on_days = pc.field(DAY).isin(pa.array(days)) | (pc.field("seconds") > _DAY.total_seconds())
        where = on_days & (pc.field("role") == "viewer") & (pc.field("dropped") > 0)
        return self._read("deliveries", "began", "ended", [*_STREAM, "dropped"], where)

    def _read(
        self, table: str, begin: str, end: str, columns: list[str], where: pc.Expression | None = None
    ) -> Iterator[tuple[Key, pa.Table]]:
        wanted = self._of_streams & self._window.where(begin, end)
        wanted = wanted if where is None else wanted & where
        # Some tables have rows on the day on which they began, and some on which they ended.
        days = self._window.days(before=LONGEST, after=LONGEST)
        return streams_of(event_rows(self._snapshot, table, [*columns, begin, end], wanted, days))


@attrs.frozen(eq=False)
class _Sums:
    """How much had begun, and how much had ended, at any moment: what overlaps with a time had begun before its end, and
    not ended when it began.

    Attributes:
        begins, ends: Moments, in their order.
        begun, ended: How much it is with the first so many of them.
    """

    begins: Numbers
    begun: Numbers
    ends: Numbers
    ended: Numbers

    @classmethod
    def of(cls, rows: pa.Table, begin: str, end: str, weight: str | None = None) -> _Sums:
        """Of rows, or of what they count."""
        begins, ends = _times(rows, begin, end)
        weights = np.ones(len(rows), np.int64) if weight is None else rows[weight].to_numpy()
        return cls(*_added_up(begins, weights), *_added_up(ends, weights))

    def begun_before(self, moment: int) -> int:
        """How much had begun."""
        return int(self.begun[np.searchsorted(self.begins, moment, "left")])

    def ended_until(self, moment: int) -> int:
        """How much had ended, what ended at this moment with it."""
        return int(self.ended[np.searchsorted(self.ends, moment, "right")])


def _times(rows: pa.Table, begin: str, end: str) -> tuple[Numbers, Numbers]:
    """When rows begin and end. What has no end goes on, and everything lasts for an instant at least, whatever clocks tell
    that were set back.
    """
    begins = pc.cast(rows[begin], pa.int64()).to_numpy()
    ends = pc.fill_null(pc.cast(rows[end], pa.int64()), _NEVER).to_numpy()
    return begins, np.maximum(begins + 1, ends)


def _added_up(moments: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    order = np.argsort(moments, kind="stable")
    return moments[order], np.concatenate([np.zeros(1, np.int64), np.cumsum(weights[order])])


_NONE = np.empty(0, np.int64)
_NOTHING = _Sums(*_added_up(_NONE, _NONE), *_added_up(_NONE, _NONE))


@attrs.frozen(eq=False)
class _Recordings:
    """The recordings of a stream."""

    rows: pa.Table
    begins: Numbers
    ends: Numbers

    @classmethod
    def of(cls, rows: pa.Table) -> _Recordings:
        return cls(rows, *_times(rows, "started_at", "ended_at"))

    def during(self, begin: int, end: int) -> list[Row]:
        """Those that overlap with a time."""
        which = np.flatnonzero((self.begins < end) & (self.ends > begin))
        return list(self.rows.take(which).to_pylist())


def _seconds_in(files: Sequence[Row], outage: Row) -> float:
    """How much of an outage is recorded."""
    seconds, reached, end = 0.0, outage["began"], _end(outage)
    for row in files:
        # The times of segments are not so exact that none of them overlap.
        since, until = max(row["started_at"], reached), min(row["ended_at"] or end, end)
        seconds += max(0.0, (until - since).total_seconds())
        reached = max(reached, until)
    return seconds
