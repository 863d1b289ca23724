"""Brings the catalogue up to date with event logs: reads what is new in them, and nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

from spark_analytics.catalogue import Change, Snapshot
from spark_analytics.event_logs.file_table import Row, new_splits, updated_rows
from spark_analytics.event_logs.files import find_event_logs
from spark_analytics.event_logs.heard import Heard, results_of, servers_of
from spark_analytics.event_logs.servers import STOPPED, Server, known_servers
from spark_analytics.event_schemas import EVENT_TABLES
from spark_analytics.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DERIVED = [table for table in EVENT_TABLES if table.name not in ("events", "event_files")]


@attrs.frozen
class EventSummary:
    """What was done.

    Attributes:
        files: All event logs that were found.
        read: Those of them in which something was new.
        changed: Whether there is anything to publish.
    """

    files: int = 0
    read: int = 0
    events: int = 0
    unreadable: int = 0
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
        CatalogueError: One of the places is not there.
    """
    places = list(places)
    now = now or datetime.now(UTC)
    base = change.base
    known = _known_files(base)
    found = find_event_logs(places)
    splits = new_splits(found, known)
    new, counted = None, []
    if splits:
        spark = open_spark()
        from spark_analytics.event_logs.job import count_new, write_new_events

        new = write_new_events(spark, change, splits)
        counted = [] if new is None else count_new(new)
    results = results_of(counted)
    rows = updated_rows(found, known, results, places, now)
    files_changed = sorted(rows, key=_file_id) != sorted(known.values(), key=_file_id)
    if files_changed:
        change.write_arrow(
            "event_files", pa.Table.from_pylist(rows, schema=TABLES["event_files"].arrow_schema())
        )
    heard = Heard(_servers_before(base), servers_of(counted), now)
    is_current = _is_current(base)
    something_follows = new is not None or not is_current or _time_has_told(base, heard.before, now)
    if something_follows:
        spark = open_spark()
        from spark_analytics.event_logs.job import derive

        derive(spark, change, new, heard, anew=not is_current or heard.is_late())
    return EventSummary(
        len(found),
        len({split.file_id for split in splits}),
        sum(result.events for result in results.values()),
        sum(result.unreadable for result in results.values()),
        files_changed or something_follows,
    )


def _file_id(row: Row) -> str:
    return str(row["file_id"])


def _known_files(base: Snapshot) -> dict[str, Row]:
    """The rows of `event_files`; none if their events are not there, because another version wrote them."""
    if not base.has("event_files") or (not base.has("events") and "events" in base.manifest.tables):
        return {}
    return {row["file_id"]: row for row in base.arrow("event_files").to_pylist()}


def _servers_before(base: Snapshot) -> dict[str, Server]:
    return known_servers(base.arrow("servers").to_pylist() if base.has("servers") else [])


def _is_current(base: Snapshot) -> bool:
    """Whether what follows from the events of before is there, as this program writes it."""
    tables = base.manifest.tables
    return not base.has("events") or all(
        table.name in tables and tables[table.name].version == table.version for table in _DERIVED
    )


def _time_has_told(base: Snapshot, servers: Mapping[str, Server], now: datetime) -> bool:
    """Whether a server that was running has been silent for too long."""
    if not servers:
        return False
    waiting: set[str] = set()
    if base.has("open_events"):
        waiting = set(base.arrow("open_events", ["instance"])["instance"].to_pylist())
    for row in base.arrow("servers", ["instance", "ended_how"]).to_pylist():
        server = servers[row["instance"]]
        if row["ended_how"] != STOPPED and row["ended_how"] != server.ended_how(now):
            return True
        if row["instance"] in waiting and server.is_settled(now):
            return True
    return False
