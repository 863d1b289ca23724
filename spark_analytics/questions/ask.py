"""Gives a question to an engine: the file of SQL, and the streams and the time that it is about.

All questions, and the report, count by this time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs

from rtmprelay.flv.names import split_key
from spark_analytics.store.versions import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc


#: Plays and outages belong to the day on which they began, deliveries to the one on which they ended. What lasts longer
#: than this is not found by its other end.
LONGEST = timedelta(days=60)

#: Longer than anything lasts.
EVER = timedelta(days=10_000_000)

_INSTANT = timedelta(microseconds=1)

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@attrs.frozen
class TimeWindow:
    """From a moment on, up to another one that is not in it any more.

    Attributes:
        since, until: None for as long as there is anything.
    """

    since: datetime | None = None
    until: datetime | None = None

    def days(self, before: timedelta = timedelta(), after: timedelta = timedelta()) -> tuple[date, date]:
        """The first and the last day of which something is in it.

        Args:
            before, after: So much before and after it is of interest too.
        """
        first = date.min if self.since is None else shifted(self.since, -before).date()
        # Midnight, where it ends, belongs to the day before.
        last = date.max if self.until is None else shifted(self.until, after - _INSTANT).date()
        return first, last

    def whole_days(self) -> tuple[TimeWindow | None, list[TimeWindow]]:
        """The whole days in it, and what is left of others, at most one before and one after them."""
        first = None if self.since is None else _midnight_at_or_behind(self.since)
        last = None if self.until is None else midnight_of(self.until)
        if first is not None and last is not None and first > last:
            return None, [self]
        parts = [TimeWindow(self.since, first), TimeWindow(last, self.until)]
        whole = TimeWindow(first, last)
        is_some = first is None or last is None or first < last
        return whole if is_some else None, [part for part in parts if part.since != part.until]

    def overlaps(self, begin: datetime, end: datetime | None = None) -> bool:
        """Whether something is in it, at least in part. What has no end lasts."""
        if self.until is not None and begin >= self.until:
            return False
        return self.since is None or begin >= self.since or end is None or end > self.since

    def seconds_of(self, begin: datetime, end: datetime) -> float:
        """How much of a time is in it."""
        begin, end = self.clipped(begin, end)
        return max(0.0, (end - begin).total_seconds())

    def clipped(self, begin: datetime, end: datetime) -> tuple[datetime, datetime]:
        """The part of a time that is in it; it ends before it begins if there is none."""
        since = begin if self.since is None else max(begin, self.since)
        return since, end if self.until is None else min(end, self.until)

    def where(self, begin: str, end: str | None = None) -> pc.Expression:
        """The condition that a row is in it at least in part, with the columns that say when it began and ended.

        Args:
            end: None if the row is about a moment.
        """
        import pyarrow.compute as pc

        condition = pc.scalar(True)
        if self.since is not None:
            since = timestamp(self.since)
            begins_here = pc.field(begin) >= since
            goes_on_here = pc.field(end).is_null() | (pc.field(end) > since) if end is not None else None
            condition = begins_here if goes_on_here is None else begins_here | goes_on_here
        if self.until is not None:
            condition = condition & (pc.field(begin) < timestamp(self.until))
        return condition


#: All the time of which something is known.
ALWAYS = TimeWindow()


def timestamp(time: datetime) -> pa.Scalar:
    """A moment as the tables have it."""
    import pyarrow as pa

    return pa.scalar(time, pa.timestamp("us", "UTC"))


def shifted(time: datetime, by: timedelta) -> datetime:
    """A moment earlier or later; the first or the last one of all if it would be beyond that."""
    try:
        return time + by
    except OverflowError:
        return _LAST if by > timedelta() else _FIRST


def midnight_of(time: datetime) -> datetime:
    """Where the day of a moment begins."""
    return time.replace(hour=0, minute=0, second=0, microsecond=0)


def _midnight_at_or_behind(time: datetime) -> datetime:
    midnight = midnight_of(time)
    return midnight if midnight == time else shifted(midnight, timedelta(days=1))


Row = dict[str, Any]

#: Stands for no end, in microseconds since 1970: far after the year 9999, and sums of it are still whole numbers.
FAR_US = 1 << 61

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Engine(Protocol):
    """What answers SQL."""

    snapshot: Snapshot

    def ask(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """Answer a question; `:name` in it is a parameter."""

    def close(self) -> None:
        """Let go of what it has opened."""


#: Whom to ask: a version of a catalogue, which DuckDB reads then, or an engine.
Source: TypeAlias = Snapshot | Engine


@cache
def question(name: str) -> str:
    """The SQL of a question, without its comments: they say what it answers, and may name parameters too."""
    text = (files("spark_analytics.questions") / f"{name}.sql").read_text(encoding="utf-8")
    return re.sub(r"^\s*--.*\n", "", text, flags=re.MULTILINE)


def answer(source: Source, name: str, **parameters: Any) -> pa.Table:
    """Answer a question."""
    if not isinstance(source, Snapshot):
        return source.ask(question(name), parameters)
    from spark_analytics.engine.duck import DuckEngine

    engine = DuckEngine(source)
    try:
        return engine.ask(question(name), parameters)
    finally:
        engine.close()


def snapshot_of(source: Source) -> Snapshot:
    """The version of the catalogue that is asked about."""
    return source if isinstance(source, Snapshot) else source.snapshot


@attrs.frozen
class Scope:
    """Which rows are wanted.

    Attributes:
        window: A time that overlaps with the row's.
        key: A stream, as `app/name`.
    """

    window: TimeWindow = ALWAYS
    key: str | None = None

    def parameters(self, longest: timedelta = LONGEST) -> dict[str, Any]:
        """The parameters that all questions name alike.

        Args:
            longest: Rows belong to the day on which they began: so much earlier may those be that last into the time.
        """
        window = self.window
        app, stream = ("", "") if self.key is None else split_key(self.key)
        first_day, last_day = window.days(before=longest)
        return {
            "since": window.since,
            "until": window.until,
            "since_us": -FAR_US if window.since is None else microseconds(window.since),
            "until_us": FAR_US if window.until is None else microseconds(window.until),
            "first_day": first_day,
            "last_day": last_day,
            "all_streams": self.key is None,
            "app": app,
            "stream": stream,
        }


def microseconds(time: datetime) -> int:
    """A moment as the questions count: since 1970."""
    return (time - _EPOCH) // _MICROSECOND
