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

from spark_analytics.catalogue import Change, Snapshot
from spark_analytics.indexing.plan import UNREADABLE, Plan, Row, make_tasks
from spark_analytics.indexing.recording_row import Reading
from spark_analytics.indexing.rewriting import new_recordings, runs_to_rewrite
from spark_analytics.indexing.scan import Scan, scan, scan_here
from spark_analytics.indexing.scan_rows import DETAIL_ROWS
from spark_analytics.indexing.sessions import sessions_table
from spark_analytics.schemas import RECORDINGS

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


def index_recordings(
    open_spark: Callable[[], SparkSession],
    change: Change,
    plan: Plan,
    known: Mapping[str, Row],
    now: datetime,
    here: bool = True,
) -> pa.Table:
    """Read the files of a plan into the tables of a change, which the caller publishes.

    Args:
        open_spark: Called if there is much to read.
        here: Whether a little may be read in this process.
        known: Rows of `recordings` of before by their paths; `run` is needed of them.

    Returns the rows of `recordings` of the files that were read.
    """
    rows = RECORDINGS.arrow_schema().empty_table()
    rewritten: set[str] = set()
    if plan.read:
        # Tables with many rows for each file stay where they are until their files change.
        rewritten = runs_to_rewrite(change.base, DETAIL_ROWS, _changed_runs(change.base, plan, known))
        rows = _read_and_write(open_spark, change, plan, rewritten, now, here)
    recordings = new_recordings(change.base, plan, rows, rewritten, change.run, now)
    change.write_arrow("recordings", recordings)
    change.write_arrow("sessions", sessions_table(recordings))
    return rows


def _changed_runs(base: Snapshot, plan: Plan, known: Mapping[str, Row]) -> set[str]:
    """The runs that may hold rows of files that are read again."""
    if not base.has(RECORDINGS.name):
        # If that table alone was of another version, nobody knows which: all of them.
        return {run for table in DETAIL_ROWS for run in base.runs(table)}
    return {str(known[file.path]["run"]) for file in plan.read if _has_details(known.get(file.path))}


def _has_details(row: Row | None) -> bool:
    """Whether a file may have rows in the tables of `DETAIL_ROWS`."""
    return row is not None and row["status"] != UNREADABLE


def _read_and_write(
    open_spark: Callable[[], SparkSession],
    change: Change,
    plan: Plan,
    rewritten: set[str],
    now: datetime,
    here: bool,
) -> pa.Table:
    reading = Reading(change.run, now)
    scanned = _scan_here(change.base, plan, rewritten, reading) if here else None
    spark = open_spark() if scanned is None else None
    with _scanned(spark, plan, reading) if scanned is None else nullcontext(scanned) as found:
        # All at once: each of them alone would leave cores idle.
        with ThreadPoolExecutor(len(DETAIL_ROWS)) as threads:
            for done in [
                threads.submit(_write_table, spark, change, rewritten, found, table) for table in DETAIL_ROWS
            ]:
                done.result()
        return found.recordings.select(RECORDINGS.column_names)


def _scan_here(base: Snapshot, plan: Plan, rewritten: set[str], reading: Reading) -> Scan | None:
    """What was read in this process; None if that is too much."""
    runs = {table: [run for run in base.runs(table) if run in rewritten] for table in DETAIL_ROWS}
    if any(base.count(table, again) > _FEW_ROWS for table, again in runs.items()):
        return None
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


def _write_table(
    spark: SparkSession | None, change: Change, rewritten: set[str], found: Scan, table: str
) -> None:
    base = change.base
    keep = [run for run in base.runs(table) if run not in rewritten]
    again = [run for run in base.runs(table) if run in rewritten]
    if found.is_here and base.count(table, again) <= _FEW_ROWS:
        rows = found.rows(table)
        if again:
            rows = pa.concat_tables([rows, base.arrow(table, where=~_read_now(found), runs=again)])
        change.write_arrow(table, rows, keep)
        return
    assert spark is not None
    frame = found.frame(spark, table)
    if again:
        from pyspark.sql import functions as fn

        ids = fn.broadcast(spark.createDataFrame(found.recordings.select(["file_id"])))
        frame = frame.unionByName(base.read(spark, table, again).join(ids, "file_id", "left_anti"))
    change.write(table, frame, keep)


def _read_now(found: Scan) -> pc.Expression:
    return pc.field("file_id").isin(found.recordings["file_id"].combine_chunks())
