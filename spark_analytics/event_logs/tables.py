"""Writes the tables that follow from events, from one batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, date, datetime, time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from spark_analytics.catalogue import Change, Snapshot, folder_of
from spark_analytics.event_logs import daily, outlets
from spark_analytics.event_logs.audience import audience
from spark_analytics.event_logs.batch import Batch, each_once, whole
from spark_analytics.event_logs.carrying import open_events
from spark_analytics.event_logs.deliveries import DESTINATION, deliveries
from spark_analytics.event_logs.spells import spells
from spark_analytics.event_logs.viewers import publishes, viewers
from spark_analytics.schemas import TABLES
from spark_analytics.table import DAY

#: The rows of what has not ended yet: the next run writes them anew.
OPEN = "-open"

#: Rows of several runs before that were written together.
MERGED = "-merged"

#: When a table has so many runs, the small ones are written together.
MANY_RUNS = 16
SMALL_RUN = 64 * 1024 * 1024

#: With more new events than this, Spark writes what follows from them; fewer rows are faster written from here.
MANY_EVENTS = 200_000


def write_tables(
    spark: SparkSession, change: Change, base: Snapshot, batch: Batch, since: date, many: bool
) -> None:
    """Write everything that follows from events.

    Args:
        base: What stays; an empty one if the batch has all events that there are.
        since: The first day of which something may be new.
        many: Whether there are many new events.
    """
    writer = _Writer(spark, change, base, many)
    with (
        nullcontext() if many else _for_few_rows(spark),
        _kept(spells(batch), outlets.steps(batch)) as (plays_and_publishes, steps),
    ):
        writer.write("viewers", viewers(plays_and_publishes))
        writer.write("publishes", publishes(plays_and_publishes))
        writer.write("audience", audience(plays_and_publishes, batch))
        sent = outlets.broadcasts(steps, batch)
        writer.write("deliveries", deliveries(batch, plays_and_publishes, sent))
        states = outlets.states(steps, batch)
        writer.write("destination_states", daily.with_live_seconds(states, writer.all("publishes")))
        changed = writer.write("outages", outlets.outages(steps, batch))
        _write_destinations(writer, min([since, *changed]))
        change.write_arrow("open_events", open_events(batch, steps).toArrow())


@contextmanager
def _for_few_rows(spark: SparkSession) -> Iterator[None]:
    """Let Spark plan for few rows: compiling each question, and dividing it, would take longer than answering it."""
    settings = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
    }
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            if earlier is not None:
                spark.conf.set(key, earlier)


@contextmanager
def _kept(*frames: DataFrame) -> Iterator[list[DataFrame]]:
    """Frames that are used several times."""
    kept = [frame.persist() for frame in frames]
    try:
        yield kept
    finally:
        for frame in kept:
            frame.unpersist()


def _write_destinations(writer: _Writer, first: date) -> None:
    """Days that are over and in which nothing was open stay as they are, and what ended before them is not read."""
    in_days = fn.col(DAY) >= fn.lit(first)
    drops = writer.all("events").where(in_days & (fn.col("event") == "destination_dropped"))
    rows = daily.destinations(
        writer.all("destination_states").where(_reaches("ended", first)),
        writer.all("publishes").where(_reaches("ended_at", first)),
        writer.all("outages").where(in_days),
        each_once(whole(drops)),
        writer.all("deliveries").where(in_days & (fn.col("role") == DESTINATION)),
    )
    writer.replace_days("destinations", rows.where(in_days), first)


def _reaches(end: str, first: date) -> Column:
    """Whether something has not ended before a day."""
    return fn.col(end).isNull() | (fn.col(end) >= fn.lit(datetime.combine(first, time.min, UTC)))


class _Writer:
    """Writes rows that have ended for good, and those that have not apart from them."""

    def __init__(self, spark: SparkSession, change: Change, base: Snapshot, many: bool) -> None:
        self._spark = spark
        self._change = change
        self._base = base
        self._many = many

    def write(self, table: str, rows: DataFrame) -> set[date]:
        """Add rows with `is_new`, and put those with `is_open` in the place of the open ones before.

        Returns the days of all of them.
        """
        keep = [run for run in self._base.runs(table) if not run.endswith(OPEN)]
        if "is_new" not in rows.columns:
            rows = rows.withColumns({"is_new": fn.lit(True), "is_open": fn.lit(False)})
        if self._many:
            append(self._spark, self._change, self._base, table, rows.where("is_new"), keep)
            rows = rows.where("is_open")
            keep = []
        columns = [*TABLES[table].column_names, "is_new"]
        here = rows.where("is_new OR is_open").select(columns).toArrow()
        is_new = here["is_new"]
        here = here.drop_columns(["is_new"])
        if not self._many:
            append_arrow(self._spark, self._change, self._base, table, here.filter(is_new), keep)
        still_open = here.filter(pc.invert(is_new))
        if len(still_open):
            self._change.write_arrow(table, still_open, part=OPEN)
        return self._days_written(table)

    def _days_written(self, table: str) -> set[date]:
        """The days of rows that this run has written."""
        runs = (self._change.run, self._change.run + OPEN)
        folders = [folder_of(self._base.root, table, run) for run in runs]
        names = [path.name for folder in folders for path in folder.glob(f"{DAY}=*")]
        return {date.fromisoformat(name.removeprefix(f"{DAY}=")) for name in names}

    def all(self, table: str) -> DataFrame:
        """All rows of a table as it will be."""
        return self._change.base.read(self._spark, table, self._change.runs(table))

    def replace_days(self, table: str, rows: DataFrame, first: date) -> None:
        """Write rows in the place of all from this day on."""
        schema = TABLES[table].arrow_schema()
        new = rows.select(TABLES[table].column_names).toArrow().cast(schema)
        if self._base.has(table):
            before = self._base.arrow(table, where=pc.field(DAY) < pa.scalar(first, pa.date32()))
            new = pa.concat_tables([before.cast(schema), new])
        self._change.write_arrow(table, new)


def append(
    spark: SparkSession, change: Change, base: Snapshot, table: str, rows: DataFrame, keep: Iterable[str]
) -> None:
    """Add rows to a table; now and then its small runs are made one."""
    keep = list(keep)
    merged = _to_merge(base, table, keep)
    change.write(table, rows, [run for run in keep if run not in merged])
    _merge(spark, change, base, table, merged)


def append_arrow(
    spark: SparkSession, change: Change, base: Snapshot, table: str, rows: pa.Table, keep: Iterable[str]
) -> None:
    """The same for rows that are here."""
    keep = list(keep)
    merged = _to_merge(base, table, keep)
    change.write_arrow(table, rows, [run for run in keep if run not in merged])
    _merge(spark, change, base, table, merged)


def _merge(spark: SparkSession, change: Change, base: Snapshot, table: str, runs: list[str]) -> None:
    if runs:
        # Apart from what is new, so that this can still be told from it.
        change.write(table, base.read(spark, table, runs), part=MERGED)


def _to_merge(base: Snapshot, table: str, runs: list[str]) -> list[str]:
    if len(runs) < MANY_RUNS:
        return []
    return [run for run in runs if _size(base.folders(table, [run])[0]) < SMALL_RUN]


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob(f"{DAY}=*/*.parquet"))
