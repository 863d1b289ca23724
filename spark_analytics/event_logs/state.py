"""What a catalogue knows of event logs, also one that another version of this program wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from spark_analytics.catalogue import Change, Snapshot
from spark_analytics.errors import CatalogueError
from spark_analytics.event_logs.copies import Row, without_copies
from spark_analytics.event_logs.file_table import ReadResult, result_of, row_from_events
from spark_analytics.event_logs.files import GZIP, FoundLog, ListedLog, file_at, find_event_logs
from spark_analytics.event_logs.read import OpenSpark, count_table
from spark_analytics.event_schemas import EVENT_FILES, EVENT_TABLES, EVENTS
from spark_analytics.table import Table

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
