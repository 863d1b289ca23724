"""Which files are one broadcast."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.recordings.plan import GROWING, Row
from spark_analytics.recordings.rules import SESSION_HOLE
from spark_analytics.store.change import Change
from spark_analytics.store.part_files import read_files
from spark_analytics.store.schema import DAY, RECORDINGS, SESSIONS

#: Holes between files that are shorter cannot be told from the inaccuracy of their times.
_LEAST_HOLE = timedelta(seconds=1)

_MOST_HOLE = timedelta(seconds=SESSION_HOLE)

#: Before and after all recordings.
_LONG_AGO, _FAR = datetime(1000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)

#: Files whose times say nothing.
_WITHOUT_TIMES = ("unreadable", "empty", "not_flv", "header_only")

_COLUMNS = [
    "app",
    "stream",
    "started_at",
    "ended_at",
    "path",
    "status",
    "vanished_at",
    "duration_ms",
    "size",
    "lost_bytes",
]

_IN_ORDER = itemgetter("app", "stream", "started_at", "path")


@attrs.define(eq=False)
class _Session:
    """Files that follow each other closely."""

    files: list[Row]
    until: datetime
    missing: timedelta = timedelta()

    def take(self, file: Row) -> bool:
        """Add the next file, if it belongs to it."""
        hole = file["started_at"] - self.until
        if hole > _MOST_HOLE:
            return False
        if hole > _LEAST_HOLE:
            self.missing += hole
        self.files.append(file)
        self.until = max(self.until, file["ended_at"])
        return True

    def row(self) -> dict[str, Any]:
        """As the table has it."""
        first = self.files[0]
        sums = {
            name: sum(file[name] for file in self.files) for name in ("duration_ms", "size", "lost_bytes")
        }
        return {
            "app": first["app"],
            "stream": first["stream"],
            "started_at": first["started_at"],
            "ended_at": self.until,
            "files": len(self.files),
            "vanished": sum(file["vanished_at"] is not None for file in self.files),
            "paths": [file["path"] for file in self.files],
            "recorded_ms": sums["duration_ms"],
            "missing_ms": round(self.missing / timedelta(milliseconds=1)),
            "size": sums["size"],
            "lost_bytes": sums["lost_bytes"],
            DAY: first["started_at"].date(),
        }


def update_sessions(change: Change, touched: Iterable[Row]) -> None:
    """Make those sessions anew that recordings belong to, or belonged to.

    Args:
        touched: `app`, `stream`, `started_at` and `ended_at` of what is new, has changed or gone, as it was and is now.
    """
    spans = _spans(touched)
    if not spans:
        return
    before, lots = _sessions_in(change, spans)
    for row in before:
        spans[row["app"], row["stream"]].append((row["started_at"], row["ended_at"]))
    recordings = _recordings_in(change, spans)
    growing = {
        row["path"] for row in recordings.select(["path", "status"]).to_pylist() if row["status"] == GROWING
    }
    sessions = sessions_table(recordings)
    is_open = pa.array([not growing.isdisjoint(paths) for paths in sessions["paths"].to_pylist()], pa.bool_())
    lots[True].append(sessions.filter(is_open))
    lots[False].append(sessions.filter(pc.invert(is_open)))
    for kind, tables in lots.items():
        together = pa.concat_tables(tables)
        if together.num_rows:
            change.add(SESSIONS.name, together, kind)


#: Times by the stream.
_Spans = dict[tuple[str, str], list[tuple[datetime, datetime]]]


def _spans(touched: Iterable[Row]) -> _Spans:
    """The times of recordings; times that are close enough for one session are one."""
    times: _Spans = defaultdict(list)
    for row in touched:
        if row["started_at"] is not None and row["ended_at"] is not None:
            times[row["app"], row["stream"]].append((row["started_at"], row["ended_at"]))
    return defaultdict(list, {stream: _joined(of_stream) for stream, of_stream in times.items()})


def _joined(times: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    joined: list[tuple[datetime, datetime]] = []
    for begin, end in sorted(times):
        if joined and begin - joined[-1][1] <= _MOST_HOLE:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def _sessions_in(change: Change, spans: _Spans) -> tuple[list[Row], dict[bool, list[pa.Table]]]:
    """The sessions that touch these times, and what else is in their files, which are dropped."""
    first, last = _ends(spans)
    ranges = {"started_at": (_LONG_AGO, last + _MOST_HOLE), "ended_at": (first - _MOST_HOLE, _FAR)}
    found: list[Row] = []
    kept: dict[bool, list[pa.Table]] = {True: [], False: []}
    for file in change.base.files(SESSIONS.name, ranges=ranges):
        rows = change.base.arrow(SESSIONS.name, files=[file])
        keys = rows.select(["app", "stream", "started_at", "ended_at"]).to_pylist()
        is_touched = [_touches(spans.get((row["app"], row["stream"]), ()), row) for row in keys]
        if any(is_touched):
            found += [row for row, touches in zip(keys, is_touched, strict=True) if touches]
            change.drop(SESSIONS.name, [file])
            kept[file.is_open].append(rows.filter(pc.invert(pa.array(is_touched))))
    return found, kept


def _touches(times: Iterable[tuple[datetime, datetime]], row: Row) -> bool:
    return any(
        begin - _MOST_HOLE <= row["ended_at"] and row["started_at"] <= end + _MOST_HOLE
        for begin, end in times
    )


def _recordings_in(change: Change, spans: _Spans) -> pa.Table:
    """The recordings that begin in these times, as they are now."""
    first, last = _ends(spans)
    files = [file for file in change.files(RECORDINGS.name) if first.date() <= file.day <= last.date()]
    is_one = pc.field("stream").isin(sorted({stream for _, stream in spans}))
    is_one &= (pc.field("started_at") >= first) & (pc.field("started_at") <= last)
    rows = read_files(change.base.folder(RECORDINGS.name), RECORDINGS, files, _COLUMNS, is_one)
    inside = [
        any(begin <= row["started_at"] <= end for begin, end in spans.get((row["app"], row["stream"]), ()))
        for row in rows.select(["app", "stream", "started_at"]).to_pylist()
    ]
    return rows.filter(pa.array(inside, pa.bool_()))


def _ends(spans: _Spans) -> tuple[datetime, datetime]:
    times = [span for of_stream in spans.values() for span in of_stream]
    return min(begin for begin, _ in times), max(end for _, end in times)


def sessions_table(recordings: pa.Table) -> pa.Table:
    """Rows of `sessions` from those of `recordings`."""
    files = [row for row in recordings.select(_COLUMNS).to_pylist() if row["status"] not in _WITHOUT_TIMES]
    files.sort(key=_IN_ORDER)
    sessions = [
        session.row()
        for _, of_stream in groupby(files, itemgetter("app", "stream"))
        for session in _sessions(of_stream)
    ]
    return pa.Table.from_pylist(sessions, schema=SESSIONS.arrow_schema())


def _sessions(files: Iterable[Row]) -> list[_Session]:
    """Those of one stream, whose files are in order."""
    sessions: list[_Session] = []
    for file in files:
        if not sessions or not sessions[-1].take(file):
            sessions.append(_Session([file], file["ended_at"]))
    return sessions
