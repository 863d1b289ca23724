"""Reads parts of files, here or with Spark, and takes what comes back."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

from spark_analytics.flv.sources import FileChangedError
from spark_analytics.indexing.files import FoundFile
from spark_analytics.indexing.finishing import FINISHERS, FileFrames
from spark_analytics.indexing.part_result import PartResult
from spark_analytics.indexing.plan import Split
from spark_analytics.indexing.recording_row import Reading, judged
from spark_analytics.indexing.scan_rows import DETAIL_ROWS, FILE, RECORDING_ROWS, RowCollector, unpacked
from spark_analytics.indexing.scan_task import Lot, run_task, run_tasks
from spark_analytics.indexing.stitching import BETWEEN_PARTS, FileResult, stitch
from spark_analytics.recordings.seconds import LARGEST, SUMS
from spark_analytics.schemas import TABLES

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@attrs.frozen(eq=False)
class Scan:
    """What was read.

    Attributes:
        lots: What the tasks have sent, as Spark keeps it; None if Spark did not read.
        here: The same; if there are many rows of `DETAIL_ROWS`, not with all of these.
        is_here: Whether all of them came along.
        recordings: `RECORDING_ROWS` of all files, in the order of their numbers.
        more: Rows of `DETAIL_ROWS` that no task could find, because they belong to no part.
    """

    lots: RDD[Lot] | None
    here: list[Lot]
    is_here: bool
    recordings: pa.Table
    more: dict[str, pa.Table]
    frames: FileFrames

    def rows(self, table: str) -> pa.Table:
        """The rows of a table, finished; only if they are here."""
        found = [unpacked(lot.details[table]) for lot in self.here if table in lot.details]
        tables = [self.more[table], *found]
        return FINISHERS[table](pa.concat_tables(tables).combine_chunks(), self.frames)

    def frame(self, spark: SparkSession, table: str) -> DataFrame:
        """The same, however many there are, finished by the workers."""
        from pyspark.sql import functions as fn
        from pyspark.sql.pandas.types import from_arrow_schema

        assert self.lots is not None, "what was read here is here"
        expected = {lot.key: lot.rows for lot in self.here}
        packed_rows = self.lots.flatMap(partial(_packed_rows, table, expected))
        sent = spark.createDataFrame(packed_rows, "packed binary")
        if table != "seconds":
            # Each row is finished alone, so it does not matter which ones come together.
            finished = sent.mapInArrow(
                partial(_finish_packed, table, self.frames), TABLES[table].spark_schema()
            )
            rest = FINISHERS[table](self.more[table], self.frames)
            return _with_more(finished, rest, TABLES[table].spark_schema())
        schema = from_arrow_schema(DETAIL_ROWS[table])
        rows = _with_more(sent.mapInArrow(_unpack, schema), self.more[table], schema)
        # The rows of a file come together in one place. There are at most as many as a recording can have seconds.
        each_once = rows.groupBy(FILE, "second").agg(
            *(fn.sum(name).alias(name) for name in SUMS), *(fn.max(name).alias(name) for name in LARGEST)
        )
        frames = self.frames

        # Spark reads from the types what to give to this, and a `partial` has none.
        def finish(of_file: pa.Table) -> pa.Table:
            return FINISHERS[table](of_file, frames)

        return each_once.groupBy(FILE).applyInArrow(finish, TABLES[table].spark_schema())


def _with_more(rows: DataFrame, more: pa.Table, schema: StructType) -> DataFrame:
    return rows.unionByName(rows.sparkSession.createDataFrame(more, schema)) if more.num_rows else rows


def _packed_rows(table: str, expected: Mapping[tuple[int, int, int], int], lot: Lot) -> list[tuple[bytes]]:
    # If Spark has lost what a task sent, the task is run again.
    if lot.rows != expected.get(lot.key):
        raise FileChangedError("Recordings changed while they were read: run the index again.")
    return [(lot.details[table],)] if table in lot.details else []


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for data in batch.column(0):
            yield from unpacked(data.as_buffer()).to_batches()


def _finish_packed(
    table: str, frames: FileFrames, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for data in batch.column(0):
            yield from FINISHERS[table](unpacked(data.as_buffer()), frames).to_batches()


@contextmanager
def scan(
    spark: SparkSession,
    files: Sequence[FoundFile],
    tasks: list[list[Split]],
    reading: Reading,
    few_rows: int,
) -> Iterator[Scan]:
    """Read parts of files.

    Args:
        few_rows: If there are not more rows than this, they come here at once; each task may send its share of it.
    """
    from pyspark import StorageLevel

    # Not a DataFrame: to plan one takes longer than to read a small recording.
    packed_tasks = spark.sparkContext.parallelize([pickle.dumps(task) for task in tasks], len(tasks))
    lots = packed_tasks.mapPartitions(partial(run_tasks, reading)).persist(StorageLevel.MEMORY_AND_DISK)
    most_rows = few_rows // len(tasks)
    try:
        here = lots.map(partial(_within, most_rows)).collect()
        yield _whole(files, reading, lots, here, all(lot.rows <= most_rows for lot in here))
    finally:
        lots.unpersist()


def scan_here(
    files: Sequence[FoundFile], tasks: list[list[Split]], reading: Reading, few_rows: int
) -> Scan | None:
    """Read parts of files in this process; None if there are more rows in them than are held here."""
    lots: list[Lot] = []
    before = 0
    for task in tasks:
        for lot in run_task(task, reading):
            lots.append(lot)
            if before + lot.rows > few_rows:
                return None
        before += lots[-1].rows
    return _whole(files, reading, None, lots, True)


def _within(most_rows: int, lot: Lot) -> Lot:
    return lot.within(most_rows)


def _whole(
    files: Sequence[FoundFile], reading: Reading, lots: RDD[Lot] | None, here: list[Lot], is_here: bool
) -> Scan:
    """Make whole files of the parts."""
    known = [unpacked(lot.recordings) for lot in here if lot.recordings is not None]
    numbers = {number for table in known for number in table[FILE].to_pylist()}
    parts = _parts(here)
    rows, collector, times_before = [], RowCollector(), {}
    for number in sorted(set(range(len(files))) - numbers):
        result = _stitched(parts.get(number, {}))
        row, incidents = judged(files[number], result, reading)
        rows.append({FILE: number, **row})
        collector.add(number, BETWEEN_PARTS, result.at_edges)
        collector.add_incidents(number, BETWEEN_PARTS, incidents)
        times_before.update({(number, part): time for part, time in result.times_before.items()})
    recordings = pa.concat_tables([*known, pa.Table.from_pylist(rows, schema=RECORDING_ROWS)]).sort_by(FILE)
    return Scan(lots, here, is_here, recordings, collector.take(), FileFrames.of(recordings, times_before))


def _parts(here: list[Lot]) -> dict[int, dict[int, PartResult]]:
    parts: dict[int, dict[int, PartResult]] = {}
    for lot in here:
        for file, part, summary in lot.parts:
            parts.setdefault(file, {})[part] = PartResult.unpacked(summary)
    return parts


def _stitched(parts: Mapping[int, PartResult]) -> FileResult:
    if not parts:
        return FileResult(error="nobody has read it")
    return stitch([parts[number] for number in sorted(parts)])
