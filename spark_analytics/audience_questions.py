"""Questions about viewers and destinations that Parquet alone can answer, without Spark. SQL gives the same answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from rtmprelay.flv.names import split_key
from spark_analytics.catalogue import Snapshot

_EARLIEST, _LATEST = date(1, 1, 1), date(9999, 12, 31)

#: Plays and outages belong to the day on which they began. One that lasts longer than this is not found by its end.
_LONGEST = timedelta(days=60)

Row = dict[str, Any]


@attrs.frozen
class Scope:
    """Which rows are asked for.

    Attributes:
        since, until: A time that overlaps with the row's; None for any.
        key: A stream, as `app/name`.
    """

    since: datetime | None = None
    until: datetime | None = None
    key: str | None = None

    def rows(self, snapshot: Snapshot, table: str, begin: str, end: str, columns: list[str]) -> list[Row]:
        """Rows of a table that overlap with the time, `begin` and `end` being the columns that say when they were."""
        where = None
        if self.key is not None:
            app, name = split_key(self.key)
            where = (pc.field("app") == app) & (pc.field("stream") == name)
        for condition in self._in_time(begin, end):
            where = condition if where is None else where & condition
        return list(snapshot.arrow(table, columns, where, self._days()).to_pylist())

    def _in_time(self, begin: str, end: str) -> Iterable[pc.Expression]:
        if self.since is not None:
            # What has no end lasts.
            yield pc.field(end).is_null() | (pc.field(end) >= _moment(self.since))
        if self.until is not None:
            yield pc.field(begin) < _moment(self.until)

    def _days(self) -> tuple[date, date]:
        first = (self.since - _LONGEST).date() if self.since is not None else _EARLIEST
        return first, self.until.date() if self.until is not None else _LATEST


def _moment(time: datetime) -> pa.Scalar:
    return pa.scalar(time, pa.timestamp("us", "UTC"))


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
    rows = scope.rows(snapshot, "viewers", "started_at", "ended_at", _PLAY)
    return sorted(rows, key=lambda row: (row["started_at"], row["connection"]))


def list_viewers(snapshot: Snapshot, scope: Scope) -> list[Row]:
    """A row for each stream: who watched it, and how that went."""
    plays: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for play in list_plays(snapshot, scope):
        plays[play["app"], play["stream"]].append(play)
    peaks = _peaks(list_audience(snapshot, scope))
    return [_of_stream(app, stream, plays[app, stream], peaks) for app, stream in sorted(plays)]


def _of_stream(app: str, stream: str, plays: list[Row], peaks: dict[tuple[str, str], Row]) -> Row:
    how = Counter(play["ended_how"] for play in plays)
    sent = sum(play["messages"] for play in plays)
    dropped = sum(play["dropped"] for play in plays)
    watched = sum(play["watch_seconds"] for play in plays)
    peak = peaks.get((app, stream))
    return {
        "app": app,
        "stream": stream,
        "plays": len(plays),
        "clients": len({(play["peer"] or play["connection"]).rpartition(":")[0] for play in plays}),
        "watching": how["watching"],
        "peak": peak["viewers"] if peak else 0,
        "peak_at": peak["minute"] if peak else None,
        "watch_hours": watched / 3600,
        "average_seconds": watched / len(plays),
        "gb": sum(play["bytes"] for play in plays) / 1e9,
        "dropped_percent": 100 * dropped / (sent + dropped) if sent + dropped else 0.0,
        "stalls": sum(play["stalls"] for play in plays),
        "too_slow": how["too slow"],
        "lost": how["lost"],
        "server_died": how["server died"],
    }


def _peaks(minutes: Iterable[Row]) -> dict[tuple[str, str], Row]:
    best: dict[tuple[str, str], Row] = {}
    for row in minutes:
        key = (row["app"], row["stream"])
        if key not in best or row["viewers"] > best[key]["viewers"]:
            best[key] = row
    return best


def list_audience(snapshot: Snapshot, scope: Scope) -> list[Row]:
    """Viewers minute by minute, those of all servers together; minutes without any are not there."""
    columns = ["app", "stream", "minute", "peak", "average", "joins", "leaves"]
    rows = scope.rows(snapshot, "audience", "minute", "minute", columns)
    table = pa.Table.from_pylist(rows) if rows else None
    if table is None:
        return []
    sums = [("peak", "sum"), ("average", "sum"), ("joins", "sum"), ("leaves", "sum")]
    grouped = table.group_by(["app", "stream", "minute"]).aggregate(sums)
    renamed = grouped.rename_columns(["app", "stream", "minute", "viewers", "average", "joins", "leaves"])
    order = [(name, "ascending") for name in ("minute", "app", "stream")]
    return list(renamed.sort_by(order).to_pylist())


# -- destinations --------------------------------------------------------------------------------------------

_ADDED = (
    "live_seconds",
    "connected_seconds",
    "outages",
    "reconnects",
    "outage_seconds",
    "lost_messages",
    "messages",
    "bytes",
    "dropped",
)


def list_destinations(snapshot: Snapshot, scope: Scope, by_day: bool = False) -> list[Row]:
    """A row for each destination, or for each of its days; the worst first."""
    days = (scope.since.date() if scope.since else _EARLIEST, scope.until.date() if scope.until else _LATEST)
    rows = snapshot.arrow("destinations", days=days).to_pylist()
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
    total = {name: sum(row[name] for row in rows) for name in _ADDED}
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
    first = min(row["began"] for row in found)
    last = max(_end(row) for row in found)
    around = attrs.evolve(scope, since=first, until=last + timedelta(microseconds=1))
    context = _Context(snapshot, around)
    rows = [{**row, **context.of(row)} for row in found]
    return sorted(rows, key=lambda row: (row["began"], row["destination"], row["app"], row["stream"]))


def _end(outage: Row) -> datetime:
    began: datetime = outage["began"]
    return began + timedelta(seconds=outage["seconds"])


class _Context:
    """Everything that went on during some outages."""

    def __init__(self, snapshot: Snapshot, scope: Scope) -> None:
        self._snapshot = snapshot
        self._plays = _by_stream(scope.rows(snapshot, "viewers", "started_at", "ended_at", _PLAY))
        columns = ["app", "stream", "role", "began", "ended", "dropped"]
        reports = scope.rows(snapshot, "deliveries", "began", "ended", columns)
        self._reports = _by_stream(row for row in reports if row["role"] == "viewer")
        columns = ["file_id", "path", "app", "stream", "started_at", "ended_at", "vanished_at"]
        self._recordings = _by_stream(scope.rows(snapshot, "recordings", "started_at", "ended_at", columns))

    def of(self, outage: Row) -> Row:
        """What belongs to one of them."""
        key = (outage["app"], outage["stream"])
        begin, end = outage["began"], _end(outage)
        now = datetime.now(UTC)
        plays = [
            play
            for play in self._plays[key]
            if play["started_at"] < end and (play["ended_at"] or now) > begin
        ]
        left = [play for play in plays if play["ended_at"] is not None and play["ended_at"] <= end]
        reports = [row for row in self._reports[key] if row["began"] < end and row["ended"] > begin]
        return {
            "viewers": len(plays),
            "viewers_left": len(left),
            "viewers_dropped": sum(row["dropped"] for row in reports),
            **self._recorded(key, begin, end),
        }

    def _recorded(self, key: tuple[str, str], begin: datetime, end: datetime) -> Row:
        files = [
            row
            for row in self._recordings[key]
            if row["started_at"] is not None and row["started_at"] < end and row["ended_at"] > begin
        ]
        files.sort(key=lambda row: row["started_at"])
        seconds, reached = 0.0, begin
        for row in files:
            # The times of segments are not so exact that none of them overlap.
            since, until = max(row["started_at"], reached), min(row["ended_at"], end)
            seconds += max(0.0, (until - since).total_seconds())
            reached = max(reached, until)
        first = files[0] if files else None
        return {
            "recorded_seconds": seconds,
            "path": first["path"] if first else None,
            "byte_offset": self._offset(first, begin) if first else None,
        }

    def _offset(self, recording: Row, at: datetime) -> int | None:
        """Where the last keyframe before a moment is; the first one, if the recording begins later than that."""
        of_file = pc.field("file_id") == recording["file_id"]
        days = recording["started_at"].date(), max(at, recording["started_at"]).date()
        rows = self._snapshot.arrow("keyframes", ["byte_offset", "wall"], of_file, days)
        before = rows.filter(pc.field("wall") <= _moment(at))["byte_offset"]
        found: int | None = (pc.max(before) if len(before) else pc.min(rows["byte_offset"])).as_py()
        return found


def _by_stream(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["app"], row["stream"]].append(row)
    return found
