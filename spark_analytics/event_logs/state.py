"""What a catalogue knows of event logs: the table `event_files` says how far each was read, so what is new in which file.

Another version of this program may have written it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from spark_analytics.errors import CatalogueError
from spark_analytics.event_logs.copies import Row, log_is_gone, without_copies
from spark_analytics.event_logs.lines import CANNOT_READ, LogSplit, OpenSpark, count_table, splits_of
from spark_analytics.event_logs.logs import GZIP, FoundLog, ListedLog, file_at, find_event_logs, text_size
from spark_analytics.flv.sources import is_uri
from spark_analytics.paths import covers
from spark_analytics.store.change import Change
from spark_analytics.store.schema import DAY, Table
from spark_analytics.store.tables import EVENT_FILES, EVENT_TABLES, EVENTS
from spark_analytics.store.versions import Snapshot

#: Seconds for which bytes after the last line are taken for one that is being written.
_STILL_WRITING = 60.0

#: The status of a file that the system does not give.
UNREADABLE_FILE = "unreadable"


@attrs.frozen
class ReadResult:
    """What was read of a file now."""

    read_until: int = 0
    events: int = 0
    unreadable: int = 0
    first_event: datetime | None = None
    last_event: datetime | None = None
    problem: str | None = None

    @property
    def has_lines(self) -> bool:
        """Whether there was anything."""
        return bool(self.events or self.unreadable)

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


def new_splits(found: Iterable[FoundLog], known: Mapping[str, Row]) -> list[LogSplit]:
    """What there is to read."""
    splits: list[LogSplit] = []
    for one in found:
        row = known.get(one.file_id)
        if one.error is None and (row is None or not _is_same(one, row)):
            splits += splits_of(one, 0 if row is None else row["read_until"])
    return splits


def _is_same(found: FoundLog, row: Row) -> bool:
    """Whether nothing has happened to a file, and nothing of it is still to be read."""
    if _was_refused(row):
        return False
    if _is_as_listed(found, row):
        return True
    # It was only compressed.
    return found.is_compressed and text_size(found) == row["read_until"]


def _is_as_listed(found: FoundLog, row: Row) -> bool:
    """Whether a file looks as it did when it was read."""
    looks = (found.is_compressed, found.size, found.mtime_ns)
    return (row["compressed"], row["size"], row["mtime_ns"]) == looks


def _was_refused(row: Row) -> bool:
    """Whether the system did not let a file be read. It may the next time."""
    return row["status"] == UNREADABLE_FILE or (row["error"] or "").startswith(CANNOT_READ)


def results_of(
    splits: Iterable[LogSplit], counted: Iterable[Mapping[str, Any]], refused: Mapping[str, str]
) -> dict[str, ReadResult]:
    """What was read of each file that was opened.

    Args:
        counted: What was counted for each file and server.
        refused: Why files could not be read to their end.
    """
    results = {split.file_id: ReadResult(problem=refused.get(split.file_id)) for split in splits}
    for row in counted:
        results[row["file_id"]] = results[row["file_id"]].joined(result_of(row))
    return results


def result_of(counted: Mapping[str, Any]) -> ReadResult:
    """What was counted for a file, or for one server in it."""
    return ReadResult(**{field.name: counted[field.name] for field in attrs.fields(ReadResult)})


def updated_rows(
    found: Sequence[FoundLog],
    known: Mapping[str, Row],
    results: Mapping[str, ReadResult],
    places: Sequence[str],
    now: datetime,
) -> list[Row]:
    """All rows of the table as they are now.

    Args:
        results: What was read of those files that were opened.
    """
    rows = [_row(one, known.get(one.file_id), results.get(one.file_id), now) for one in found]
    there = {one.file_id for one in found}
    # By which names there is another file now than there was.
    taken = {one.path for one in found if one.error is None}
    for file_id, row in known.items():
        if file_id in there or not row["path"]:
            continue
        if row["path"] in taken and not row["events"] and not row["unreadable"]:
            # It had no first line to be known by, and has one now.
            continue
        is_gone = row["path"] in taken or log_is_gone(row["path"])
        is_missed = row["vanished_at"] is None and is_gone and _is_in(row["path"], places)
        rows.append({**row, "vanished_at": now} if is_missed else row)
    return rows


def row_from_events(file_id: str, result: ReadResult, before: Row | None) -> Row:
    """The row of a file that is not known but by its events. All that can be found out by looking at it is left open, so
    that it is looked at.

    Args:
        before: Where it was, if that is known.
    """
    return {
        "file_id": file_id,
        "path": before["path"] if before else "",
        "compressed": False,
        "size": 0,
        "mtime_ns": 0,
        "read_until": result.read_until,
        "torn_bytes": 0,
        "events": result.events,
        "unreadable": result.unreadable,
        "first_event": result.first_event,
        "last_event": result.last_event,
        "status": "damaged" if result.unreadable else "ok",
        "error": None,
        "vanished_at": None,
        "indexed_at": None,
        DAY: (result.first_event or datetime.fromtimestamp(0, UTC)).date(),
    }


def _row(found: FoundLog, known: Row | None, result: ReadResult | None, now: datetime) -> Row:
    before: Row = known or {
        "read_until": 0,
        "events": 0,
        "unreadable": 0,
        "first_event": None,
        "last_event": None,
        "status": "empty",
        "error": None,
        "indexed_at": None,
    }
    # What was wrong before is known to be wrong still only if nobody has looked, or could.
    old_error = before["error"] if result is None and not _was_refused(before) else None
    result = result or ReadResult()
    read_until = max(before["read_until"], result.read_until)
    unreadable = before["unreadable"] + result.unreadable
    events = before["events"] + result.events
    changed = datetime.fromtimestamp(found.mtime_ns / 1e9, UTC)
    finished = found.is_compressed or (now - changed).total_seconds() > _STILL_WRITING
    error = found.error or result.problem or old_error
    # What a damaged compressed file says of its size is not to be trusted.
    is_sure = error is None or not (found.is_compressed or found.error or error.startswith(CANNOT_READ))
    if found.is_compressed and known is not None and _is_as_listed(found, known):
        # To ask a compressed file again, another file system may have to be asked.
        torn = known["torn_bytes"]
    else:
        torn = max(0, (text_size(found) or 0) - read_until) if finished and is_sure else 0
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
        "status": _status(found, error, events, unreadable, torn),
        "error": error,
        "vanished_at": None,
        "indexed_at": now if before["indexed_at"] is None or result.has_lines else before["indexed_at"],
        DAY: (first_event or changed).date(),
    }


def _status(found: FoundLog, error: str | None, events: int, unreadable: int, torn: int) -> str:
    if found.error is not None or (error or "").startswith(CANNOT_READ):
        return UNREADABLE_FILE
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
    for place in (one if is_uri(one) else os.path.abspath(one.removeprefix("file://")) for one in places):
        if path == place.removesuffix(GZIP) or path.startswith(place.rstrip("/") + "/"):
            return True
        if covers(path, place) or covers(path + GZIP, place):
            return True
    return False


#: What all versions of `event_files` say.
_LASTING = ["file_id", "path", "read_until", "events", "unreadable"]


@attrs.frozen
class Logs:
    """Event logs.

    Attributes:
        found: Those that there are, each once.
        known: The rows of `event_files` by `file_id`.
        are_new: Whether `event_files` must be written, even if nothing is new.
    """

    found: list[FoundLog]
    known: dict[str, Row]
    are_new: bool = False


def look_for_logs(open_spark: OpenSpark, change: Change, places: Sequence[str]) -> Logs:
    """Find event logs, and what is known of them.

    If the events are of another version, they are forgotten, and all logs are to be read anew.

    Raises:
        CatalogueError: One of the places is not there; or a log is not, and only its events of another version are.
    """
    base = change.base
    if _is_outdated(base, EVENTS):
        found = _found_again(places, _rows_before(base))
        change.forget(table.name for table in EVENT_TABLES)
        return Logs(found, {}, are_new=True)
    are_new = _is_outdated(base, EVENT_FILES)
    if are_new:
        known = _known_from_events(open_spark, change)
    elif base.has(EVENT_FILES.name):
        known = {row["file_id"]: row for row in base.arrow(EVENT_FILES.name).to_pylist()}
    else:
        known = {}
    return Logs(without_copies(find_event_logs(places, known), known), known, are_new)


def _is_outdated(base: Snapshot, table: Table) -> bool:
    return base.schema_version(table.name) not in (None, table.version)


def _rows_before(base: Snapshot) -> dict[str, Row]:
    """What `event_files` says, whatever its version is: _LASTING, by `file_id`."""
    rows = base.arrow(EVENT_FILES.name, _LASTING).to_pylist()
    return {row["file_id"]: row for row in rows}


def _known_from_events(open_spark: OpenSpark, change: Change) -> dict[str, Row]:
    """The rows of `event_files`, as far as they follow from what was read of each: so nothing is read twice, and what
    came from logs that are deleted stays.
    """
    before = _rows_before(change.base)
    results: dict[str, ReadResult] = {}
    for row in count_table(open_spark, change):
        one = result_of(row)
        known = results.get(row["file_id"])
        results[row["file_id"]] = one if known is None else known.joined(one)
    return {
        file_id: row_from_events(file_id, result, before.get(file_id)) for file_id, result in results.items()
    }


def _found_again(places: Iterable[str], before: Mapping[str, Row]) -> list[FoundLog]:
    """All logs in these places, and those that were read before from others."""
    found = find_event_logs(places)
    there = {one.path for one in found}
    elsewhere = [
        file_at([ListedLog(path), ListedLog(path + GZIP)])
        for path in {row["path"] for row in before.values()} - there
    ]
    logs = without_copies([*found, *(one for one in elsewhere if one is not None)], before)
    readable = {one.file_id for one in logs if one.error is None}
    lost = [row["path"] for file_id, row in before.items() if file_id not in readable and _has_lines(row)]
    if lost:
        raise CatalogueError(
            f"Another version of this program wrote the events of this catalogue, so all event logs must be read anew,"
            f" and {len(lost)} of them cannot be, such as {min(lost)}: bring them back, or make a new catalogue."
        )
    return logs


def _has_lines(row: Row) -> bool:
    return bool(row["events"] or row["unreadable"])
