"""Questions about viewers and destinations that Parquet alone can answer, without Spark. SQL gives the same answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtmprelay.flv.names import split_key
from spark_analytics.catalogue import Snapshot
from spark_analytics.concurrency import SECOND, microseconds, moment, spells_of
from spark_analytics.destination_days import ADDED, destination_days
from spark_analytics.event_rows import Key, event_rows, streams_of
from spark_analytics.outage_context import with_context
from spark_analytics.questions import is_stream
from spark_analytics.time_window import ALWAYS, LONGEST, TimeWindow, shifted

Row = dict[str, Any]

_MINUTE = 60


@attrs.frozen
class Scope:
    """Which rows are asked for.

    Attributes:
        window: A time that overlaps with the row's.
        key: A stream, as `app/name`.
    """

    window: TimeWindow = ALWAYS
    key: str | None = None

    def rows(self, snapshot: Snapshot, table: str, begin: str, end: str, columns: list[str]) -> list[Row]:
        """Rows of a table that overlap with the time, `begin` and `end` being the columns that say when they were."""
        days = self.window.days(before=LONGEST)
        return list(event_rows(snapshot, table, columns, self._where(begin, end), days).to_pylist())

    def plays(self, snapshot: Snapshot, columns: list[str]) -> pa.Table:
        """The plays that overlap with the time."""
        days = self.window.days(before=LONGEST)
        return event_rows(snapshot, "viewers", columns, self._where("started_at", "ended_at"), days)

    def _where(self, begin: str, end: str) -> pc.Expression:
        where = self.window.where(begin, end)
        return where if self.key is None else where & is_stream(*split_key(self.key))


# -- viewers -------------------------------------------------------------------------------------------------

_PLAY = [
    "app",
    "stream",
    "started_at",
    "ended_at",
    "watch_seconds",
    "bytes",
    "messages",
    "dropped",
    "stalls",
    "ended_how",
    "peer",
    "client",
    "connection",
]


def list_plays(snapshot: Snapshot, scope: Scope) -> list[Row]:
    """Single plays, in the order in which they began."""
    order = [("started_at", "ascending"), ("connection", "ascending")]
    return list(scope.plays(snapshot, _PLAY).sort_by(order).to_pylist())


def list_viewers(snapshot: Snapshot, scope: Scope) -> list[Row]:
    """A row for each stream: who watched it, and how that went."""
    plays = scope.plays(snapshot, _PLAY)
    return [_of_stream(key, of_one, scope.window) for key, of_one in streams_of(plays)]


def _of_stream(key: Key, plays: pa.Table, window: TimeWindow) -> Row:
    how = Counter(plays["ended_how"].to_pylist())
    # What is not known, because a server died, counts as nothing.
    total = {name: pc.sum(plays[name]).as_py() or 0 for name in ("messages", "dropped", "bytes", "stalls")}
    sent, dropped = total["messages"], total["dropped"]
    spells = spells_of(plays).within(window)
    peak, peak_at = spells.counted().peak()
    addresses = pc.coalesce(plays["peer"], plays["connection"]).to_pylist()
    return {
        "app": key[0],
        "stream": key[1],
        "plays": len(plays),
        "clients": len({_without_port(address) for address in addresses}),
        "watching": how["watching"],
        "peak": peak,
        "peak_at": peak_at,
        "watch_hours": spells.seconds / 3600,
        "average_seconds": spells.seconds / len(plays),
        "gb": total["bytes"] / 1e9,
        "dropped_percent": 100 * dropped / (sent + dropped) if sent + dropped else 0.0,
        "stalls": total["stalls"],
        "too_slow": how["too slow"],
        "lost": how["lost"],
        "server_died": how["server died"],
    }


def _without_port(address: str) -> str:
    """Where a viewer comes from; of some nothing is known but the connection."""
    host, _, port = address.rpartition(":")
    has_port = host and port.isdecimal() and (":" not in host or host.endswith("]"))
    return host if has_port else address


def list_audience(snapshot: Snapshot, scope: Scope) -> list[Row]:
    """Viewers minute by minute, those of all servers together; minutes without any are not there."""
    plays = scope.plays(snapshot, ["app", "stream", "started_at", "ended_at", "watch_seconds"])
    rows = [row for key, of_one in streams_of(plays) for row in _minutes(key, of_one, scope.window)]
    return sorted(rows, key=lambda row: (row["minute"], row["app"], row["stream"]))


def _minutes(key: Key, plays: pa.Table, window: TimeWindow) -> Iterator[Row]:
    steps = spells_of(plays).latest(LONGEST).within(window).counted().steps(_MINUTE)
    peaks = dict(zip(steps.numbers.tolist(), steps.peaks.tolist(), strict=True))
    watched = dict(zip(steps.numbers.tolist(), steps.watch_seconds.tolist(), strict=True))
    joins, leaves = (_in_minutes(plays[name], window) for name in ("started_at", "ended_at"))
    for number in sorted({*peaks, *joins, *leaves}):
        minute = moment(number * _MINUTE * SECOND)
        seconds = window.seconds_of(minute, shifted(minute, timedelta(seconds=_MINUTE)))
        yield {
            "app": key[0],
            "stream": key[1],
            "minute": minute,
            "viewers": peaks.get(number, 0),
            # Of the first and the last minute, not all may be in the time.
            "average": watched.get(number, 0.0) / seconds,
            "joins": joins[number],
            "leaves": leaves[number],
        }


def _in_minutes(times: pa.ChunkedArray, window: TimeWindow) -> Counter[int]:
    """How many of some times are in each minute; those that are not in the window do not count."""
    known = pc.cast(times.drop_null(), pa.int64()).to_numpy()
    since = -np.inf if window.since is None else microseconds(window.since)
    until = np.inf if window.until is None else microseconds(window.until)
    inside = known[(known >= since) & (known < until)]
    minutes, counts = np.unique(inside // (_MINUTE * SECOND), return_counts=True)
    return Counter(dict(zip(minutes.tolist(), counts.tolist(), strict=True)))


# -- destinations --------------------------------------------------------------------------------------------


def list_destinations(snapshot: Snapshot, scope: Scope, by_day: bool = False) -> list[Row]:
    """A row for each destination, or for each of its days; the worst first."""
    rows = destination_days(snapshot, scope.window)
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[(row["destination"], row["day"]) if by_day else (row["destination"],)].append(row)
    found = [_of_destination(of_one, by_day) for of_one in groups.values()]
    errors = _last_errors(snapshot, scope)
    for row in found:
        row["last_error"] = errors.get(row["destination"])
    return sorted(
        found, key=lambda row: (_worst(row["uptime_percent"]), row["destination"], row.get("day", ""))
    )


def _worst(percent: float | None) -> float:
    return 101.0 if percent is None else percent


def _of_destination(rows: list[Row], by_day: bool) -> Row:
    total = {name: sum(row[name] for row in rows) for name in ADDED}
    reasons: Counter[str] = Counter()
    for row in rows:
        reasons.update(dict(row["dropped_by_reason"] or ()))
    live = total["live_seconds"]
    longest = [row["longest_outage_seconds"] for row in rows if row["longest_outage_seconds"] is not None]
    recovery = [row["recovery_p95_seconds"] for row in rows if row["recovery_p95_seconds"] is not None]
    return {
        "destination": rows[0]["destination"],
        **({"day": rows[0]["day"]} if by_day else {}),
        "uptime_percent": 100 * total["connected_seconds"] / live if live else None,
        "live_hours": live / 3600,
        "outages": total["outages"],
        "outage_seconds": total["outage_seconds"],
        "longest_seconds": max(longest, default=None),
        # Of the worst day: exact ones are in `outages`.
        "recovery_p95_seconds": max(recovery, default=None),
        "reconnects": total["reconnects"],
        "gb": total["bytes"] / 1e9,
        "lost_messages": total["lost_messages"],
        "dropped": total["dropped"],
        "dropped_by_reason": dict(sorted(reasons.items())),
    }


def _last_errors(snapshot: Snapshot, scope: Scope) -> dict[str, str]:
    columns = ["destination", "began", "ended", "last_error"]
    rows = attrs.evolve(scope, key=None).rows(snapshot, "outages", "began", "ended", columns)
    rows.sort(key=lambda row: row["began"])
    return {row["destination"]: row["last_error"] for row in rows if row["last_error"]}


# -- outages -------------------------------------------------------------------------------------------------

_OUTAGE = [
    "destination",
    "app",
    "stream",
    "began",
    "ended",
    "seconds",
    "error",
    "error_class",
    "failures",
    "lost_messages",
    "ended_how",
]


def list_outages(snapshot: Snapshot, scope: Scope, destination: str | None = None) -> list[Row]:
    """Outages with what was lost: by the destination, and by those who watched here meanwhile; and where it is recorded."""
    found = scope.rows(snapshot, "outages", "began", "ended", _OUTAGE)
    found = [row for row in found if destination is None or row["destination"] == destination]
    if not found:
        return []
    rows = with_context(snapshot, found)
    return sorted(rows, key=lambda row: (row["began"], row["destination"], row["app"], row["stream"]))
