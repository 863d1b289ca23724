"""Questions about viewers and destinations."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from spark_analytics.questions.asking import Row, Scope, Source, answer, microseconds
from spark_analytics.questions.time_window import LONGEST, TimeWindow

_MICROSECOND = timedelta(microseconds=1)
_MINUTE_US = 60_000_000


def list_plays(source: Source, scope: Scope) -> list[Row]:
    """Single plays, in the order in which they began."""
    return list(answer(source, "plays", **scope.parameters()).to_pylist())


def list_viewers(source: Source, scope: Scope, together: bool = False) -> list[Row]:
    """A row for each stream, or one for all together: who watched it, and how that went."""
    return list(answer(source, "viewers", **scope.parameters(), together=together).to_pylist())


def list_audience(
    source: Source, scope: Scope, step_us: int = _MINUTE_US, together: bool = False
) -> list[Row]:
    """How many watched, minute by minute; steps in which nothing happened are left out.

    Args:
        step_us: Another step than a minute.
        together: Whether the viewers of all streams are counted as one audience.
    """
    parameters = {
        **scope.parameters(),
        "longest_us": LONGEST // _MICROSECOND,
        "step_us": step_us,
        "together": together,
    }
    return list(answer(source, "audience", **parameters).to_pylist())


def list_destinations(source: Source, scope: Scope, by_day: bool = False) -> list[Row]:
    """A row for each destination, or for each of its days; the worst first."""
    rows = answer(
        source, "destinations", **scope.parameters(), **_days(scope.window), by_day=by_day
    ).to_pylist()
    for row in rows:
        row["dropped_by_reason"] = dict(row["dropped_by_reason"] or ())
        if not by_day:
            del row["day"]
    return list(rows)


def _days(window: TimeWindow) -> dict[str, Any]:
    """The whole days of a time, which are counted already, and the parts of others, at most two."""
    whole, parts = window.whole_days()
    first, last = (whole or window).days()
    values: dict[str, Any] = {
        "has_whole_days": whole is not None,
        "first_whole_day": first,
        "last_whole_day": last,
    }
    for name, part in zip("ab", [*parts, None, None], strict=False):
        has_ends = part is not None and part.since is not None and part.until is not None
        values[f"{name}_since_us"] = microseconds(_end(part, "since")) if has_ends else None
        values[f"{name}_until_us"] = microseconds(_end(part, "until")) if has_ends else None
        values[f"{name}_day"] = _end(part, "since").date() if has_ends else None
    return values


def _end(part: TimeWindow | None, name: str) -> datetime:
    time: datetime = getattr(part, name)
    return time


def list_outages(source: Source, scope: Scope, destination: str | None = None) -> list[Row]:
    """Outages with what was lost: by the destination, and by those who watched here meanwhile; and where it is recorded."""
    parameters = {**scope.parameters(), "destination": destination}
    (near,) = answer(source, "outage_days", **parameters).to_pylist()
    if near["began"] is None:
        return []
    first, last = TimeWindow(near["began"], near["ended"]).days(before=LONGEST, after=LONGEST)
    rows = answer(source, "outages", **parameters, first_near_day=first, last_near_day=last)
    return list(rows.to_pylist())
