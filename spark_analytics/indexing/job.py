"""Brings the tables of recordings up to date: reads what is new, and leaves the rest as it is.

Some hundred megabytes are read in this process, before Spark would have started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.indexing.plan import GROWING, Plan, Row, make_tasks, tells_news
from spark_analytics.indexing.recording_row import Reading
from spark_analytics.indexing.scan import Scan, scan, scan_here
from spark_analytics.indexing.scan_rows import DETAIL_ROWS
from spark_analytics.indexing.update import Again, has_details, put_rows, update_recordings
from spark_analytics.schemas import RECORDINGS, TABLES
from spark_analytics.store.change import Change
from spark_analytics.table import Table

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

#: How often, and after how many seconds each, it is looked whether more machines have come.
_MOST_LOOKS = 10
_LOOK_EVERY = 0.5

#: Up to so many rows are written from here: that is faster than a job of Spark. More are written by the workers.
_FEW_ROWS = 500_000

#: Up to so many bytes are read in this process. That takes a second or two, and to start Spark takes ten.
MOST_BYTES_HERE = 512 * 1024 * 1024

#: By which columns of `recordings` it is told whether anything is new.
_TELLING = ["path", "size", "mtime_ns", "status", "error"]


def index_recordings(
    open_spark: Callable[[], SparkSession],
    change: Change,
    plan: Plan,
    known: Mapping[str, Row],
    now: datetime,
    here: bool = True,
) -> pa.Table:
    """Put what a plan says into the tables of a change, which the caller publishes.

    Args:
        open_spark: Called if there is much to read.
        known: Rows of `recordings` of before by their paths.
        here: Whether a little may be read in this process.

    Returns the rows of `recordings` of the files that were read. If they tell nothing new, nothing is written.
    """
    rows = RECORDINGS.arrow_schema().empty_table()
    if not plan.read:
        update_recordings(change, plan, known, rows, now)
        return rows
    reading = Reading(change.run, now)
    scanned = _scan_here(plan, reading) if here else None
    spark = open_spark() if scanned is None else None
    with _scanned(spark, plan, reading) if scanned is None else nullcontext(scanned) as found:
        rows = found.recordings.select(RECORDINGS.column_names)
        if not tells_news(plan, rows.select(_TELLING).to_pylist(), known):
            return rows
        again = Again.of(known[file.path] for file in plan.read if has_details(known.get(file.path)))
        is_open = rows.filter(pc.equal(rows["status"], GROWING)).select(["file_id", "ended_at"]).to_pylist()
        growing = {row["file_id"]: row["ended_at"] for row in is_open}
        # All at once: each of them alone would leave cores idle.
        with ThreadPoolExecutor(len(DETAIL_ROWS)) as threads:
            for done in [
                threads.submit(_write_table, spark, change, again, growing, found, TABLES[table])
                for table in DETAIL_ROWS
            ]:
                done.result()
        update_recordings(change, plan, known, rows, now)
    return rows


def _write_table(
    spark: SparkSession | None,
    change: Change,
    again: Again,
    growing: Mapping[str, datetime],
    found: Scan,
    table: Table,
) -> None:
    if found.is_here:
        put_rows(change, table, again, found.rows(table.name), growing)
        return
    assert spark is not None
    put_rows(change, table, again, table.arrow_schema().empty_table(), growing)
    change.add(table.name, found.frame(spark, table.name), open_ids=frozenset(growing))


def _scan_here(plan: Plan, reading: Reading) -> Scan | None:
    """What was read in this process; None if that is too much."""
    if sum(file.size for file in plan.read) > MOST_BYTES_HERE:
        return None
    return scan_here(plan.read, make_tasks(plan.read, 1), reading, _FEW_ROWS)


def _scanned(spark: SparkSession | None, plan: Plan, reading: Reading) -> AbstractContextManager[Scan]:
    assert spark is not None
    tasks = make_tasks(plan.read, cores_at_hand(spark.sparkContext))
    return scan(spark, plan.read, tasks, reading, _FEW_ROWS)


def cores_at_hand(context: SparkContext, pause: Callable[[float], None] = time.sleep) -> int:
    """How many tasks can run at once. The machines of a cluster come one by one, and before the first of them Spark says two."""
    if (context.master or "").startswith("local"):
        return context.defaultParallelism
    # This waits for the first one.
    context.parallelize([0], 1).count()
    cores = context.defaultParallelism
    for _ in range(_MOST_LOOKS):
        pause(_LOOK_EVERY)
        before, cores = cores, context.defaultParallelism
        if cores == before:
            break
    return cores
