"""The time that a question is about, and what is in it. All questions, and the report, count by this."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import attrs

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
