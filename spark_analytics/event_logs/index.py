"""Brings the catalogue up to date with event logs: reads what is new in them, and nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

from spark_analytics.catalogue import Change, Snapshot
from spark_analytics.event_logs.copies import Row
from spark_analytics.event_logs.file_table import UNREADABLE_FILE, new_splits, updated_rows
from spark_analytics.event_logs.heard import Heard, results_of, servers_of
from spark_analytics.event_logs.known import look_for_logs
from spark_analytics.event_logs.lines import Split
from spark_analytics.event_logs.servers import STOPPED, Server, known_servers
from spark_analytics.event_schemas import EVENT_TABLES
from spark_analytics.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DERIVED = [table for table in EVENT_TABLES if table.name not in ("events", "event_files")]


@attrs.frozen
class EventSummary:
    """What was done.

    Attributes:
        files: All event logs that were found.
        read: Those of them in which something was new.
        unreadable: Lines that could not be understood.
        refused: Event logs that the system does not give; the next run tries again.
        changed: Whether there is anything to publish.
    """

    files: int = 0
    read: int = 0
    events: int = 0
    unreadable: int = 0
    refused: int = 0
    changed: bool = False


def index_events(
    open_spark: Callable[[], SparkSession],
    change: Change,
    places: Iterable[str],
    now: datetime | None = None,
) -> EventSummary:
    """Read event logs into the tables of a change, which the caller publishes.

    Args:
        open_spark: Starts Spark. That is not done if there is nothing to do.
        places: Folders, files or patterns.
        now: Servers that were not heard of for a while before this have died.

    Raises:
        CatalogueError: One of the places is not there; or events of another version are all that is left of a log.
    """
    places = list(places)
    now = now or datetime.now(UTC)
    logs = look_for_logs(open_spark, change, places)
    found, known = logs.found, logs.known
    base = change.base
    splits = new_splits(found, known)
    new, counted, refused = _read_new(open_spark, change, splits)
    results = results_of(splits, counted, refused)
    rows = updated_rows(found, known, results, places, now)
    files_changed = logs.are_new or sorted(rows, key=_file_id) != sorted(known.values(), key=_file_id)
    if files_changed:
        change.write_arrow(
            "event_files", pa.Table.from_pylist(rows, schema=TABLES["event_files"].arrow_schema())
        )
    heard = Heard(_servers_before(base), servers_of(counted), now, _waiting(base))
    is_current = _is_current(base)
    something_follows = new is not None or not is_current or _time_has_told(base, heard)
    if something_follows:
        spark = open_spark()
        from spark_analytics.event_logs.job import derive

        derive(spark, change, new, heard, anew=not is_current or heard.is_late())
    return EventSummary(
        len(found),
        len({split.file_id for split in splits}),
        sum(result.events for result in results.values()),
        sum(result.unreadable for result in results.values()),
        sum(row["status"] == UNREADABLE_FILE and row["vanished_at"] is None for row in rows),
        files_changed or something_follows,
    )


def _read_new(
    open_spark: Callable[[], SparkSession], change: Change, splits: list[Split]
) -> tuple[DataFrame | None, list[Row], dict[str, str]]:
    """Add what is new to `events`: the new events, what was counted of them, and why files could not be read."""
    if not splits:
        return None, [], {}
    spark = open_spark()
    from spark_analytics.event_logs.job import count_new, write_new_events

    written = write_new_events(spark, change, splits)
    if written.run is None:
        return None, [], written.refused
    new = written.read(spark, change.base)
    return new, count_new(new), written.refused


def _file_id(row: Row) -> str:
    return str(row["file_id"])


def _servers_before(base: Snapshot) -> dict[str, Server]:
    return known_servers(base.arrow("servers").to_pylist() if base.has("servers") else [])


def _is_current(base: Snapshot) -> bool:
    """Whether what follows from the events of before is there, as this program writes it."""
    tables = base.manifest.tables
    return not base.has("events") or all(
        table.name in tables and tables[table.name].version == table.version for table in _DERIVED
    )


def _waiting(base: Snapshot) -> frozenset[str]:
    """Servers of which something was left open."""
    if not base.has("open_events"):
        return frozenset()
    return frozenset(base.arrow("open_events", ["instance"])["instance"].to_pylist())


def _time_has_told(base: Snapshot, heard: Heard) -> bool:
    """Whether a server that was running has been silent for too long."""
    if not heard.before:
        return False
    for row in base.arrow("servers", ["instance", "ended_how"]).to_pylist():
        server = heard.before[row["instance"]]
        if row["ended_how"] != STOPPED and row["ended_how"] != server.ended_how(heard.now):
            return True
        if row["instance"] in heard.waiting and server.is_settled(heard.now):
            return True
    return False
