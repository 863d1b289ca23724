"""Brings the tables of recordings up to date: reads what is new with Spark, and leaves the rest as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from functools import partial

import attrs
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from spark_analytics.catalogue import Change
from spark_analytics.indexing.files import FoundFile
from spark_analytics.indexing.plan import Plan, Row, Split, make_tasks
from spark_analytics.indexing.recording_row import FileFrame, drift_incident, frame_of, recording_row
from spark_analytics.indexing.rewriting import new_recordings, runs_to_rewrite
from spark_analytics.indexing.scan_rows import PART, SCAN_ROWS, incident_rows
from spark_analytics.indexing.scan_task import PartResult, run_tasks
from spark_analytics.indexing.stitching import BETWEEN_PARTS, FileResult, stitch
from spark_analytics.transformations import incidents_table, keyframes_table, seconds_table, sessions_table

#: Tables with many rows for each file. They stay where they are until their files change.
DETAIL_TABLES = ("keyframes", "seconds", "incidents")

#: Up to so many new rows are written from here: that is faster than a job of Spark. More are written by the workers.
_FEW_ROWS = 500_000

_FILES_SCHEMA = pa.schema(
    [
        ("file_id", pa.string()),
        ("path", pa.string()),
        ("app", pa.string()),
        ("stream", pa.string()),
        ("started_us", pa.int64()),
        ("step_ms", pa.float64()),
        ("frame_ms", pa.float64()),
    ]
)
_TIMES_SCHEMA = pa.schema([("file_id", pa.string()), ("part", pa.int32()), ("time_before", pa.int64())])


def index_recordings(
    spark: SparkSession, change: Change, plan: Plan, known: Mapping[str, Row], now: datetime
) -> list[Row]:
    """Read the files of a plan into the tables of a change, which the caller publishes.

    Args:
        known: Rows of `recordings` of before by their paths; `run` is needed of them.

    Returns the rows of `recordings` of the files that were read.
    """
    rows: list[Row] = []
    rewritten: set[str] = set()
    if plan.read:
        changed = {str(known[file.path]["run"]) for file in plan.read if file.path in known}
        rewritten = runs_to_rewrite(change.base, DETAIL_TABLES, changed)
        rows = _read_and_write(spark, change, plan.read, rewritten, now)
    recordings = new_recordings(change.base, plan, rows, rewritten, change.run, now)
    change.write_arrow("recordings", recordings)
    sessions = sessions_table(spark.createDataFrame(recordings))
    change.write_arrow("sessions", sessions.toArrow())
    return rows


def _read_and_write(
    spark: SparkSession, change: Change, files: tuple[FoundFile, ...], rewritten: set[str], now: datetime
) -> list[Row]:
    tasks = make_tasks(files, spark.sparkContext.defaultParallelism, now.timestamp())
    with scan(spark, tasks) as (scanned, results):
        rows, frames, more = _judge({file.file_id: file for file in files}, results, change.run, now)
        _DetailWriter(spark, change, rewritten, rows).write(scanned, frames, more, results)
    return rows


@contextmanager
def scan(spark: SparkSession, tasks: list[list[Split]]) -> Iterator[tuple[DataFrame, dict[str, FileResult]]]:
    """Read parts of files: all rows of `SCAN_ROWS`, and what every file is as a whole by its id."""
    scanned = _scanned(spark, tasks)
    try:
        try:
            parts = _parts(scanned)
        except (PySparkException, Py4JError):
            # The system ends a process that looks at a mapped file of which a part is gone, or that the disk does not
            # give. In blocks that is an error of this one file, and all others are read as before.
            scanned.unpersist()
            scanned = _scanned(
                spark, [[attrs.evolve(split, settled=False) for split in task] for task in tasks]
            )
            parts = _parts(scanned)
        yield scanned, _whole_files(parts)
    finally:
        scanned.unpersist()


def _scanned(spark: SparkSession, tasks: list[list[Split]]) -> DataFrame:
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    scanned = numbers.mapInArrow(partial(run_tasks, tasks), SCAN_ROWS.spark_schema())
    return scanned.persist(StorageLevel.MEMORY_AND_DISK)


def _parts(scanned: DataFrame) -> pa.Table:
    return scanned.where(fn.col("row") == PART).select("file_id", "part", "summary").toArrow()


def _whole_files(parts: pa.Table) -> dict[str, FileResult]:
    by_file: dict[str, dict[int, PartResult]] = {}
    for file_id, number, summary in zip(*(column.to_pylist() for column in parts.columns), strict=True):
        by_file.setdefault(file_id, {})[number] = PartResult.unpacked(summary)
    return {
        file_id: stitch(file_id, [results[number] for number in sorted(results)])
        for file_id, results in by_file.items()
    }


def _judge(
    files: Mapping[str, FoundFile], results: Mapping[str, FileResult], run: str, now: datetime
) -> tuple[list[Row], list[FileFrame], list[pa.RecordBatch]]:
    """The rows of `recordings`, what the other tables need of them, and incidents of whole files."""
    rows, frames, more = [], [], []
    for file_id, file in files.items():
        result = results.get(file_id, FileResult(error="nobody has read it"))
        row = recording_row(file, result, run, now)
        rows.append(row)
        # What is no recording has a row that says so, and nothing else.
        if row["status"] not in ("unreadable", "not_flv"):
            frames.append(frame_of(row, result))
            drift = drift_incident(row, result)
            if drift:
                more.append(incident_rows(file_id, BETWEEN_PARTS, drift))
        more += result.edge_rows
    return rows, frames, more


class _DetailWriter:
    """Writes the tables that have many rows for each file."""

    def __init__(self, spark: SparkSession, change: Change, rewritten: set[str], rows: list[Row]) -> None:
        self._spark = spark
        self._change = change
        self._rewritten = rewritten
        self._ids = pa.table({"file_id": pa.array([row["file_id"] for row in rows], pa.string())})
        seconds = sum(row["duration_ms"] // 1000 + 1 for row in rows)
        self._is_little = not rewritten and seconds + sum(row["keyframes"] for row in rows) < _FEW_ROWS

    def write(
        self,
        scanned: DataFrame,
        frames: list[FileFrame],
        more: list[pa.RecordBatch],
        results: Mapping[str, FileResult],
    ) -> None:
        """Write them all at once: each of them alone would leave cores idle."""
        spark = self._spark
        if more:
            scanned = scanned.unionByName(spark.createDataFrame(pa.Table.from_batches(more)))
        files = spark.createDataFrame(
            pa.Table.from_pylist([attrs.asdict(frame) for frame in frames], schema=_FILES_SCHEMA)
        )
        times = [
            {"file_id": file_id, "part": part, "time_before": time}
            for file_id, result in results.items()
            for part, time in result.times_before.items()
        ]
        times_before = spark.createDataFrame(pa.Table.from_pylist(times, schema=_TIMES_SCHEMA))
        tables = {
            "seconds": seconds_table(scanned, files),
            "keyframes": keyframes_table(scanned, files),
            "incidents": incidents_table(scanned, files, times_before),
        }
        with ThreadPoolExecutor(len(tables)) as threads:
            for done in [threads.submit(self._write_table, name, rows) for name, rows in tables.items()]:
                done.result()

    def _write_table(self, table: str, rows: DataFrame) -> None:
        base = self._change.base
        keep = [run for run in base.runs(table) if run not in self._rewritten]
        if self._is_little:
            self._change.write_arrow(table, rows.toArrow(), keep)
            return
        again = [run for run in base.runs(table) if run in self._rewritten]
        if again:
            read_now = fn.broadcast(self._spark.createDataFrame(self._ids))
            rows = rows.unionByName(
                base.read(self._spark, table, again).join(read_now, "file_id", "left_anti")
            )
        self._change.write(table, rows, keep)
