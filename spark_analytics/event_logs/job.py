"""The part of the index of event logs that Spark does."""

from __future__ import annotations

import shutil
from datetime import date

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from spark_analytics.catalogue import Change, Snapshot, folder_of
from spark_analytics.event_logs.batch import Batch, each_once
from spark_analytics.event_logs.copies import Row
from spark_analytics.event_logs.heard import Heard, servers_of
from spark_analytics.event_logs.lines import CANNOT_READ, Split, read_lines
from spark_analytics.event_logs.parsing import NO_EVENT, UNREADABLE, parse_events
from spark_analytics.event_logs.servers import Server
from spark_analytics.event_logs.tables import MANY_EVENTS, append, write_tables
from spark_analytics.manifest import Manifest
from spark_analytics.schemas import TABLES

#: The events of a run in which some file could not be read to its end.
_READ = "-read"

#: Lines that are no event are in the folder of this day.
_NO_DAY = date(1970, 1, 1)


@attrs.frozen
class NewEvents:
    """What was added to `events`.

    Attributes:
        run: Under which name; None for nothing.
        refused: Why files could not be read to their end, by `file_id`.
    """

    run: str | None
    refused: dict[str, str]

    def read(self, spark: SparkSession, base: Snapshot) -> DataFrame:
        """The new events."""
        return base.read(spark, "events", [] if self.run is None else [self.run])


def write_new_events(spark: SparkSession, change: Change, splits: list[Split]) -> NewEvents:
    """Add what is new to `events`: of each file all up to the first place that could not be read."""
    base = change.base
    append(spark, change, base, "events", parse_events(read_lines(spark, splits)), base.runs("events"))
    if change.run not in change.runs("events"):
        return NewEvents(None, {})
    refusals = _refusals(change)
    run = _leave_out(spark, change, refusals) if refusals else change.run
    return NewEvents(run, {row["file_id"]: row["reason"] for row in refusals})


def _refusals(change: Change) -> list[Row]:
    """Where files could not be read: `file_id`, `line_end`, `reason`."""
    refused = (pc.field("event") == UNREADABLE) & pc.starts_with(pc.field("reason"), CANNOT_READ)
    columns = ["file_id", "line_end", "reason"]
    rows = change.base.arrow("events", columns, refused, (_NO_DAY, _NO_DAY), [change.run])
    return list(rows.to_pylist())


def _leave_out(spark: SparkSession, change: Change, refusals: list[Row]) -> str | None:
    """Write the new events anew, without what is behind a refusal: the next run reads that again, and in one piece.

    Returns the run that has them; None if nothing is left.
    """
    gaps = spark.createDataFrame(
        [(row["file_id"], row["line_end"]) for row in refusals], "id string, gap bigint"
    )
    first = fn.broadcast(gaps.groupBy("id").agg(fn.min("gap").alias("gap")))
    written = change.base.read(spark, "events", [change.run])
    is_refusal = f"event = '{UNREADABLE}' AND startswith(reason, '{CANNOT_READ}')"
    read = written.join(first, fn.expr("file_id = id"), "left").where(
        f"(gap IS NULL OR line_end <= gap) AND NOT ({is_refusal})"
    )
    change.write("events", read, part=_READ)
    shutil.rmtree(folder_of(change.base.root, "events", change.run))
    change.added("events", [run for run in change.runs("events") if run != change.run])
    run = change.run + _READ
    return run if run in change.runs("events") else None


_IS_UNREADABLE = f"event = '{UNREADABLE}'"

_OF_SERVER = (
    "min(number) AS first_number",
    "max(number) AS last_number",
    "max(host) AS host",
    "max(version) AS version",
    "max(event = 'server_stopped') AS has_stopped",
    # Now and then both are the same by chance.
    "max(number != line_end) AS is_numbered",
)

_OF_FILE = (
    f"count_if(NOT {_IS_UNREADABLE}) AS events",
    f"count_if({_IS_UNREADABLE}) AS unreadable",
    "max(line_end) AS read_until",
    "min(time) AS first_event",
    "max(time) AS last_event",
)

# Whether there is a line would tell the same, but lines are most of what there is to read.
_PROBLEM = f"max(IF({_IS_UNREADABLE} AND reason != '{NO_EVENT}', reason, NULL)) AS problem"


def count_new(new: DataFrame) -> list[Row]:
    """What is new, in short: a row for each file and server."""
    counted = new.groupBy("file_id", "instance").agg(*map(fn.expr, (*_OF_FILE, *_OF_SERVER, _PROBLEM)))
    return list(counted.toArrow().to_pylist())


def count_files(spark: SparkSession, base: Snapshot) -> list[Row]:
    """What was read of each file until now."""
    counted = base.read(spark, "events").groupBy("file_id").agg(*map(fn.expr, _OF_FILE))
    return list(counted.toArrow().to_pylist())


def derive(spark: SparkSession, change: Change, new: DataFrame | None, heard: Heard, anew: bool) -> None:
    """Write what follows from events.

    Args:
        new: Those that are new, if any.
        anew: What followed from those before is void.
    """
    base = change.base
    readable = f"NOT {_IS_UNREADABLE}"
    if anew:
        events = each_once(base.read(spark, "events", change.runs("events")).where(readable))
        servers = _servers_of_all(events)
        base = Snapshot(base.root, Manifest())
        since = _NO_DAY
    else:
        events = (base.read(spark, "events", []) if new is None else new).where(readable)
        servers = list(heard.together().values())
        since = heard.since(servers)
    rows = [server.row(heard.now) for server in servers]
    change.write_arrow("servers", pa.Table.from_pylist(rows, schema=TABLES["servers"].arrow_schema()))
    batch = Batch.of(events, base.read(spark, "open_events"), servers, heard.now)
    write_tables(spark, change, base, batch, since, many=anew or heard.events > MANY_EVENTS)


def _servers_of_all(events: DataFrame) -> list[Server]:
    """All servers, as if they had never been heard of before."""
    counted = events.groupBy("instance").agg(*map(fn.expr, (*_OF_FILE, *_OF_SERVER))).toArrow()
    return [server for server, _ in servers_of(counted.to_pylist())]
