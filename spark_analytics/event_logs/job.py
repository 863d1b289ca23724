"""The part of the index of event logs that Spark does."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from spark_analytics.catalogue import Change, Snapshot
from spark_analytics.event_logs.batch import Batch
from spark_analytics.event_logs.file_table import Row
from spark_analytics.event_logs.heard import Heard
from spark_analytics.event_logs.lines import Split, read_lines
from spark_analytics.event_logs.parsing import UNREADABLE, parse_events
from spark_analytics.event_logs.tables import MANY_EVENTS, append, write_tables
from spark_analytics.manifest import Manifest
from spark_analytics.schemas import TABLES


def write_new_events(spark: SparkSession, change: Change, splits: list[Split]) -> DataFrame | None:
    """Add what is new to `events`; what that was, None for nothing."""
    base = change.base
    append(spark, change, base, "events", parse_events(read_lines(spark, splits)), base.runs("events"))
    return base.read(spark, "events", [change.run]) if change.run in change.runs("events") else None


def count_new(new: DataFrame) -> list[Row]:
    """What is new, in short: a row for each file and server."""
    unreadable = f"event = '{UNREADABLE}'"
    counts = (
        "max(line_end) AS read_until",
        f"count_if(NOT {unreadable}) AS events",
        f"count_if({unreadable}) AS unreadable",
        "min(time) AS first_event",
        "max(time) AS last_event",
        f"max(IF({unreadable} AND line IS NULL, reason, NULL)) AS problem",
        "min(number) AS first_number",
        "max(number) AS last_number",
        "max(host) AS host",
        "max(version) AS version",
        "max(event = 'server_stopped') AS has_stopped",
    )
    counted = new.groupBy("file_id", "instance").agg(*map(fn.expr, counts))
    return list(counted.toArrow().to_pylist())


def derive(spark: SparkSession, change: Change, new: DataFrame | None, heard: Heard, anew: bool) -> None:
    """Write what follows from events.

    Args:
        new: Those that are new, if any.
        anew: What followed from those before is void.
    """
    base = change.base
    servers = heard.together(anew)
    readable = f"event != '{UNREADABLE}'"
    if anew:
        every = base.read(spark, "events", change.runs("events")).where(readable)
        events = every.dropDuplicates(["instance", "number"])
        base = Snapshot(base.root, Manifest())
        since = date(1970, 1, 1)
    else:
        events = base.read(spark, "events", [] if new is None else [change.run]).where(readable)
        since = heard.since(servers)
    rows = [server.row(heard.now) for server in servers.values()]
    change.write_arrow("servers", pa.Table.from_pylist(rows, schema=TABLES["servers"].arrow_schema()))
    batch = Batch.of(events, base.read(spark, "open_events"), servers.values(), heard.now)
    write_tables(spark, change, base, batch, since, many=anew or heard.events > MANY_EVENTS)
