"""The table `event_files`: what is new in which file, and how far each was read."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from spark_analytics.event_logs.files import FoundFile, text_size
from spark_analytics.event_logs.lines import Split, splits_of
from spark_analytics.table import DAY

#: Seconds for which bytes behind the last line are taken for one that is being written.
_STILL_WRITING = 60.0

Row = dict[str, Any]


@attrs.frozen
class ReadResult:
    """What was read of a file now."""

    read_until: int = 0
    events: int = 0
    unreadable: int = 0
    first_event: datetime | None = None
    last_event: datetime | None = None
    problem: str | None = None

    def joined(self, other: ReadResult) -> ReadResult:
        """Both together."""
        return ReadResult(
            max(self.read_until, other.read_until),
            self.events + other.events,
            self.unreadable + other.unreadable,
            _earliest(self.first_event, other.first_event),
            _latest(self.last_event, other.last_event),
            self.problem or other.problem,
        )


def new_splits(found: Iterable[FoundFile], known: Mapping[str, Row]) -> list[Split]:
    """What there is to read."""
    splits: list[Split] = []
    for one in found:
        row = known.get(one.file_id)
        if one.error is None and (row is None or not _is_same(one, row)):
            splits += splits_of(one, 0 if row is None else row["read_until"])
    return splits


def _is_same(found: FoundFile, row: Row) -> bool:
    """Whether nothing has happened to a file."""
    if (row["compressed"], row["size"], row["mtime_ns"]) == (
        found.is_compressed,
        found.size,
        found.mtime_ns,
    ):
        return True
    # It was only compressed.
    return found.is_compressed and text_size(found) == row["read_until"]


def updated_rows(
    found: Sequence[FoundFile],
    known: Mapping[str, Row],
    results: Mapping[str, ReadResult],
    places: Sequence[str],
    now: datetime,
) -> list[Row]:
    """All rows of the table as they are now."""
    rows = [_row(one, known.get(one.file_id), results.get(one.file_id), now) for one in found]
    there = {one.file_id for one in found}
    for file_id, row in known.items():
        if file_id not in there:
            is_missed = row["vanished_at"] is None and _is_in(row["path"], places)
            rows.append({**row, "vanished_at": now} if is_missed else row)
    return rows


def _row(found: FoundFile, known: Row | None, result: ReadResult | None, now: datetime) -> Row:
    before: Row = known or {
        "read_until": 0,
        "events": 0,
        "unreadable": 0,
        "first_event": None,
        "last_event": None,
        "error": None,
        "indexed_at": None,
    }
    result = result or ReadResult()
    read_until = max(before["read_until"], result.read_until)
    unreadable = before["unreadable"] + result.unreadable
    events = before["events"] + result.events
    changed = datetime.fromtimestamp(found.mtime_ns / 1e9, UTC)
    finished = found.is_compressed or (now - changed).total_seconds() > _STILL_WRITING
    error = found.error or result.problem or before["error"]
    torn = max(0, text_size(found) - read_until) if finished and error is None else 0
    first_event = _earliest(before["first_event"], result.first_event)
    return {
        "file_id": found.file_id,
        "path": found.path,
        "compressed": found.is_compressed,
        "size": found.size,
        "mtime_ns": found.mtime_ns,
        "read_until": read_until,
        "torn_bytes": torn,
        "events": events,
        "unreadable": unreadable,
        "first_event": first_event,
        "last_event": _latest(before["last_event"], result.last_event),
        "status": _status(found.error, error, events, unreadable, torn),
        "error": error,
        "vanished_at": None,
        "indexed_at": now if before["indexed_at"] is None or result != ReadResult() else before["indexed_at"],
        DAY: (first_event or changed).date(),
    }


def _status(unreadable_file: str | None, error: str | None, events: int, unreadable: int, torn: int) -> str:
    if unreadable_file is not None:
        return "unreadable"
    if error is not None or unreadable:
        return "damaged"
    if torn:
        return "torn"
    return "ok" if events else "empty"


def _earliest(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((time for time in (one, other) if time is not None), default=None)


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((time for time in (one, other) if time is not None), default=None)


def _is_in(path: str, places: Sequence[str]) -> bool:
    """Whether a file would be found now if it were there."""
    for place in map(os.path.abspath, places):
        if path == place.removesuffix(".gz") or path.startswith(place.rstrip("/") + "/"):
            return True
        if fnmatch.fnmatch(path, place) or fnmatch.fnmatch(path + ".gz", place):
            return True
    return False
