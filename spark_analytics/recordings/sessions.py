"""Which files are one broadcast."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.recordings.moves import INACCURACY, MOST_AROUND_A_MOVE, Moves, moves_between, new_moves
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

    def take(self, file: Row, moved_at: datetime | None) -> bool:
        """Add the next file, if it belongs to it.

        Args:
            moved_at: When the stream moved to the node that wrote the file, if it did.
        """
        hole = file["started_at"] - self.until
        if hole > _MOST_HOLE and (moved_at is None or not self._led_to(moved_at, file)):
            return False
        if hole > _LEAST_HOLE:
            self.missing += hole
        self.files.append(file)
        self.until = max(self.until, file["ended_at"])
        return True

    def _led_to(self, moved_at: datetime, file: Row) -> bool:
        most = MOST_AROUND_A_MOVE
        return moved_at - self.until <= most and file["started_at"] - moved_at <= most

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
    moves = _moves_near(change, spans)
    before, lots = _sessions_in(change, spans)
    for row in before:
        spans[row["app"], row["stream"]].append((row["started_at"], row["ended_at"]))
    recordings = _recordings_in(change, spans)
    growing = {
        row["path"] for row in recordings.select(["path", "status"]).to_pylist() if row["status"] == GROWING
    }
    sessions = sessions_table(recordings, moves)
    is_open = pa.array([not growing.isdisjoint(paths) for paths in sessions["paths"].to_pylist()], pa.bool_())
    lots[True].append(sessions.filter(is_open))
    lots[False].append(sessions.filter(pc.invert(is_open)))
    for kind, tables in lots.items():
        together = pa.concat_tables(tables)
        if together.num_rows:
            change.add(SESSIONS.name, together, kind)


def join_moved(change: Change) -> None:
    """Make those sessions anew whose streams moved, as the events say that a change adds."""
    update_sessions(
        change,
        [
            {"app": app, "stream": stream, "started_at": time, "ended_at": time}
            for (app, stream), times in new_moves(change).items()
            for time in times
        ],
    )


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


def _moves_near(change: Change, spans: _Spans) -> Moves:
    """The moves that may join files of these times to others; the times grow by what is around each."""
    first, last = _ends(spans)
    around = timedelta(days=1)
    moves = moves_between(change, (first - around).date(), (last + around).date())
    for stream, times in moves.items():
        spans_before = list(spans.get(stream, ()))
        for time in times:
            begin, end = time - MOST_AROUND_A_MOVE, time + MOST_AROUND_A_MOVE
            if any(one[0] <= end and begin <= one[1] for one in spans_before):
                spans[stream].append((begin, end))
    return moves


def _sessions_in(change: Change, spans: _Spans) -> tuple[list[Row], dict[bool, list[pa.Table]]]:
    """The sessions that touch these times, and what else is in their files, which are dropped."""
    first, last = _ends(spans)
    ranges = {"started_at": (_LONG_AGO, last + _MOST_HOLE), "ended_at": (first - _MOST_HOLE, _FAR)}
    found: list[Row] = []
    kept: dict[bool, list[pa.Table]] = {True: [], False: []}
    far_away = set(change.base.files(SESSIONS.name)).difference(
        change.base.files(SESSIONS.name, ranges=ranges)
    )
    for file in change.files(SESSIONS.name):
        if file in far_away:
            continue
        rows = change.arrow(SESSIONS.name, [file])
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


def sessions_table(recordings: pa.Table, moves: Moves | None = None) -> pa.Table:
    """Rows of `sessions` from those of `recordings`.

    Args:
        moves: When streams moved from node to node.
    """
    moves = moves or {}
    files = [row for row in recordings.select(_COLUMNS).to_pylist() if row["status"] not in _WITHOUT_TIMES]
    files.sort(key=_IN_ORDER)
    sessions = [
        session.row()
        for stream, of_stream in groupby(files, itemgetter("app", "stream"))
        for session in _sessions(of_stream, moves.get(stream, ()))
    ]
    return pa.Table.from_pylist(sessions, schema=SESSIONS.arrow_schema())


def _sessions(files: Iterable[Row], moves: Iterable[datetime]) -> list[_Session]:
    """Those of one stream, whose files are in order."""
    sessions: list[_Session] = []
    to_come = deque(moves)
    for file in files:
        # A move leads to the first file after it.
        moved_at = None
        while to_come and to_come[0] <= file["started_at"] + INACCURACY:
            moved_at = to_come.popleft()
        if not sessions or not sessions[-1].take(file, moved_at):
            sessions.append(_Session([file], file["ended_at"]))
    return sessions
