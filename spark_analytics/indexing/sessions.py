"""Which files are one broadcast."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

import attrs
import pyarrow as pa

from spark_analytics.indexing.plan import Row
from spark_analytics.recordings.rules import SESSION_HOLE
from spark_analytics.schemas import DAY, SESSIONS

#: Holes between files that are shorter cannot be told from the inaccuracy of their times.
_LEAST_HOLE = timedelta(seconds=1)

_MOST_HOLE = timedelta(seconds=SESSION_HOLE)

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
