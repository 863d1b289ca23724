"""Reads parts of files, here or in Spark's workers: what a task does, and what becomes of its answer."""

from __future__ import annotations

import gc
import math
import pickle
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv.container import TAG_HEADER_SIZE, parse_tag_header
from rtmprelay.flv.script import decode_metadata
from rtmprelay.media import MediaKind
from spark_analytics.flv.classify import Classifier
from spark_analytics.flv.scan import FILE_START, first_tag, start_of_part
from spark_analytics.flv.sources import ByteSource, FileChangedError, open_source
from spark_analytics.recordings.beginning import read_beginning
from spark_analytics.recordings.discover import FoundFile
from spark_analytics.recordings.part import finish
from spark_analytics.recordings.part_reader import PartReader
from spark_analytics.recordings.plan import Split
from spark_analytics.recordings.results import (
    BETWEEN_PARTS,
    FileResult,
    PartResult,
    Reading,
    judged,
    reason_of,
    stitch,
)
from spark_analytics.recordings.rows import (
    DETAIL_ROWS,
    FILE,
    FINISHERS,
    RECORDING_ROWS,
    FileFrames,
    RowCollector,
    packed,
    unpacked,
)
from spark_analytics.recordings.seconds import LARGEST, SUMS
from spark_analytics.store.tables import TABLES

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


#: Rows that are sent together, and that a task keeps in memory.
_BATCH_ROWS = 50_000

#: What is read of the metadata at the start of a file.
_METADATA_KEYS = (
    "rtmprelay_app",
    "rtmprelay_name",
    "rtmprelay_started",
    "rtmprelay_segment",
    "width",
    "height",
    "framerate",
    "filesize",
)


@attrs.frozen
class Lot:
    """What a task sends at a time. Tables are packed: for Spark, a few large values are less work than many small ones.

    Attributes:
        key: The file and the part with which the task began, and which of its lots this is.
        rows: How many rows of `details` this task has sent, up to these.
        recordings: `RECORDING_ROWS` of files that were read wholly, if there are any.
        parts: Of other files, the number of the file, that of the part, and its `PartResult`, packed.
        details: Tables of `DETAIL_ROWS` by their names; only those that have rows.
    """

    key: tuple[int, int, int]
    rows: int
    recordings: bytes | None
    parts: list[tuple[int, int, bytes]]
    details: dict[str, bytes]

    def within(self, most_rows: int) -> Lot:
        """The same, without details if that were too many rows."""
        return self if self.rows <= most_rows else attrs.evolve(self, details={})


def run_tasks(reading: Reading, tasks: Iterable[bytes]) -> Iterator[Lot]:
    """What a worker does: reads the parts of files of each task, which are pickled."""
    # Spark lets its workers look for garbage after each task: not again among all that was imported.
    gc.freeze()
    for task in tasks:
        yield from run_task(pickle.loads(task), reading)


def run_task(splits: Sequence[Split], reading: Reading) -> Iterator[Lot]:
    """Read some parts of files."""
    return _TaskReader(reading, splits).read()


@attrs.define(eq=False)
class _TaskReader:
    """Reads one task."""

    reading: Reading
    splits: Sequence[Split]
    lots: int = 0
    sent: int = 0
    classifier: Classifier = attrs.field(factory=Classifier)
    rows: RowCollector = attrs.field(factory=RowCollector)
    recordings: list[dict[str, Any]] = attrs.field(factory=list)
    parts: list[tuple[int, int, bytes]] = attrs.field(factory=list)

    def read(self) -> Iterator[Lot]:
        """Read them all."""
        for split in self.splits:
            result = yield from self._read_split(split)
            self._note(split, result)
            if self.rows.waiting >= _BATCH_ROWS:
                yield self._lot()
        yield self._lot()

    def _read_split(self, split: Split) -> Generator[Lot, None, PartResult]:
        """Whatever a file is, it must not end the job: there is always a result."""
        try:
            with closing(open_source(split.file.path, split.file.size)) as source:
                return (yield from self._read_source(split, source))
        except Exception as error:
            return PartResult(error=reason_of(error))

    def _read_source(self, split: Split, source: ByteSource) -> Generator[Lot, None, PartResult]:
        beginning = read_beginning(source, self.classifier)
        begin = start_of_part(source, split.lo, split.hi)
        reader = PartReader(source, self.classifier, beginning, begin, split.hi)
        for _ in reader:
            if reader.findings.waiting >= _BATCH_ROWS:
                self.rows.add(split.file_number, split.number, reader.findings)
                yield self._lot()
        if split.is_whole_file:
            finish(reader.part, reader.findings)
        self.rows.add(split.file_number, split.number, reader.findings)
        return PartResult(
            begin,
            max(begin, reader.end),
            reader.part,
            beginning,
            read_metadata(source) if split.number == 0 else {},
            first_tag(source) > 0,
            source.read(0, 3) == b"FLV",
        )

    def _note(self, split: Split, result: PartResult) -> None:
        if not split.is_whole_file:
            self.parts.append((split.file_number, split.number, result.packed()))
            return
        row, incidents = judged(split.file, stitch([result]), self.reading)
        self.recordings.append({FILE: split.file_number, **row})
        self.rows.add_incidents(split.file_number, split.number, incidents)

    def _lot(self) -> Lot:
        self.sent += self.rows.waiting
        recordings = packed(pa.Table.from_pylist(self.recordings, schema=RECORDING_ROWS))
        details = {name: packed(table) for name, table in self.rows.take().items()}
        present = {name: data for name, data in details.items() if data is not None}
        first = self.splits[0]
        lot = Lot((first.file_number, first.number, self.lots), self.sent, recordings, self.parts, present)
        self.lots += 1
        self.recordings, self.parts = [], []
        return lot


def read_metadata(source: ByteSource) -> dict[str, AmfValue]:
    """What the first tag says of the file, if it is metadata. Nobody but the recorder writes it there."""
    # It is behind the file header also where that was destroyed.
    for at in dict.fromkeys((first_tag(source), FILE_START)):
        values = _metadata_at(source, at)
        if values:
            return values
    return {}


def _metadata_at(source: ByteSource, at: int) -> dict[str, AmfValue]:
    header = source.read(at, TAG_HEADER_SIZE)
    if len(header) < TAG_HEADER_SIZE or header[0] != MediaKind.DATA:
        return {}
    _, size, _ = parse_tag_header(header)
    values = decode_metadata(source.read(at + TAG_HEADER_SIZE, size)) or {}
    return {key: values[key] for key in _METADATA_KEYS if _is_plain(values.get(key))}


def _is_plain(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


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
