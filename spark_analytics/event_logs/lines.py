"""Reads what is new in event logs, from where the last run ended, into the table `events`: here, or in Spark's workers if
that would take too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import date
from typing import TYPE_CHECKING, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.event_logs.copies import Row
from spark_analytics.event_logs.derive import (
    DuckWorkbench,
    SparkWorkbench,
    count_events,
    duck_workbench,
    spark_workbench,
)
from spark_analytics.event_logs.logs import GZIP_ERRORS, FoundLog, LogText, open_text
from spark_analytics.event_logs.parse import UNREADABLE, TextLine, parse_events
from spark_analytics.store.change import Change
from spark_analytics.store.part_files import PartFile
from spark_analytics.store.tables import EVENTS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


#: One task reads so many bytes of a plain file; a compressed one cannot be divided.
SPLIT_SIZE = 16 * 1024 * 1024

#: No event is longer: the server cuts its texts at half of this. Java holds a hundred lines and more at a time, and a
#: few hundred of a megabyte each were the end of it.
_LONGEST_LINE = 128 * 1024

#: What a worker holds before it hands it on: so many lines, or so many characters of them.
_BATCH_LINES = 20_000
_BATCH_TEXT = 8 * 1024 * 1024

#: How the system's refusal is told. It may not refuse the next time, and what comes after it was not read.
CANNOT_READ = "the file cannot be read"

SPLIT_SCHEMA = "file_id string, name string, begin bigint, finish bigint, at_line_start boolean"


@attrs.frozen
class LogSplit:
    """What one task reads: all lines that begin in a range of the text.

    Attributes:
        finish: None for all that there is.
        at_line_start: Whether `begin` is the begin of a line; otherwise the next one is looked for.
    """

    file_id: str
    name: str
    begin: int
    finish: int | None
    at_line_start: bool


def splits_of(found: FoundLog, read_until: int, size: int = SPLIT_SIZE) -> list[LogSplit]:
    """How what is new in a file is divided."""
    if found.complete is None:
        return [LogSplit(found.file_id, found.name, read_until, None, True)]
    begins = range(read_until, found.complete, size)
    return [
        LogSplit(found.file_id, found.name, begin, min(begin + size, found.complete), begin == read_until)
        for begin in begins
    ]


def read_in_workers(spark: SparkSession, splits: Iterable[LogSplit]) -> DataFrame:
    """Rows of `events` from these splits, one task for each."""
    rows = [attrs.astuple(split) for split in splits]
    schema = EVENTS.spark_schema()
    if not rows:
        return spark.createDataFrame([], schema)
    # A slice for each: hashing them to as many tasks would leave a third of the tasks empty, and give others several.
    frame = spark.createDataFrame(spark.sparkContext.parallelize(rows, len(rows)), SPLIT_SCHEMA)
    return frame.mapInArrow(_read_batches, schema)


def _read_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            yield from read_split(LogSplit(**row))


def read_split(split: LogSplit) -> Iterator[pa.RecordBatch]:
    """Rows of `events` from the lines of a split."""
    for lines in _in_batches(lines_of(split)):
        yield parse_events(split.file_id, lines)


def _in_batches(lines: Iterable[TextLine]) -> Iterator[list[TextLine]]:
    """Lines as many at a time as are no burden: a small compressed file may have thousands of a megabyte each."""
    batch: list[TextLine] = []
    held = 0
    for line in lines:
        batch.append(line)
        held += len(line.text or "")
        if len(batch) >= _BATCH_LINES or held >= _BATCH_TEXT:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def lines_of(split: LogSplit) -> Iterator[TextLine]:
    """The whole lines of a split. A file that cannot be read to its end gives what it has, and says so."""
    last = split.begin
    try:
        with open_text(split.name) as file:
            for line in _whole_lines(file, split):
                last = line.end
                yield line
    except GZIP_ERRORS as error:
        yield TextLine(last, None, f"the compressed file is damaged: {error}")
    except OSError as error:
        yield TextLine(last, None, f"{CANNOT_READ}: {error.strerror or error}")


def _whole_lines(file: LogText, split: LogSplit) -> Iterator[TextLine]:
    """Lines that begin in the split; the last of them may end after it."""
    position = split.begin
    if split.at_line_start:
        file.seek(position)
    else:
        # A line that begins exactly here is ours: look for its beginning from the byte before.
        file.seek(position - 1)
        position += _length_of_rest(file)[0] - 1
    while split.finish is None or position < split.finish:
        line = file.readline(_LONGEST_LINE)
        position += len(line)
        if line.endswith(b"\n"):
            yield _line(line[:-1], position)
            continue
        length, is_whole = _length_of_rest(file)
        if not is_whole:
            # Torn, or still being written.
            return
        position += length
        yield TextLine(position, None, "the line is too long for an event")


def _length_of_rest(file: LogText) -> tuple[int, bool]:
    """Go to the end of the line; how far that was, and whether there is one."""
    length = 0
    while part := file.readline(_LONGEST_LINE):
        length += len(part)
        if part.endswith(b"\n"):
            return length, True
    return length, False


def _line(part: bytes, end: int) -> TextLine:
    try:
        return TextLine(end, part.decode("utf-8"))
    except UnicodeDecodeError:
        return TextLine(end, None, "the line is no text")


#: Starts Spark, or gives the session that there is.
OpenSpark: TypeAlias = "Callable[[], SparkSession]"

#: Up to so much text is read in this process, which takes a few seconds; to start Spark would take longer.
MOST_TEXT_HERE = 64 * 1024 * 1024

#: Up to so many events are worked on in this process.
MOST_EVENTS_HERE = 300_000

#: Lines that are no event are in the folder of this day.
_NO_DAY = date(1970, 1, 1)


@attrs.frozen
class NewEvents:
    """What was added to `events`.

    Attributes:
        files: Where it is; none if nothing was.
        counted: A row for each file and server.
        refused: Why files could not be read to their end, by `file_id`.
    """

    files: tuple[PartFile, ...] = ()
    counted: list[Row] = attrs.field(factory=list)
    refused: dict[str, str] = attrs.field(factory=dict)

    @property
    def count(self) -> int:
        """How many events there are."""
        return sum(row["events"] for row in self.counted)


def read_new_events(open_spark: OpenSpark, change: Change, splits: list[LogSplit]) -> NewEvents:
    """Add what is new to `events`: of each file all up to the first place that could not be read."""
    if not splits:
        return NewEvents()
    rows = _rows_here(splits)
    if rows is None:
        return _read_with_spark(open_spark(), change, splits)
    refusals = _first_refusals(rows.filter(_is_refusal(rows)).to_pylist())
    for refusal in refusals:
        of_file = pc.equal(rows["file_id"], refusal["file_id"])
        rows = rows.filter(pc.invert(pc.and_(of_file, pc.greater(rows["line_end"], refusal["line_end"]))))
    rows = rows.filter(pc.invert(_is_refusal(rows)))
    refused = {row["file_id"]: row["reason"] for row in refusals}
    if not len(rows):
        return NewEvents(refused=refused)
    files = change.add(EVENTS.name, rows)
    with duck_workbench() as bench:
        bench.add("counted_events", rows)
        return NewEvents(files, count_events(bench), refused)


def _rows_here(splits: Sequence[LogSplit]) -> pa.Table | None:
    """The rows of all splits; None if they are too many."""
    if sum(split.finish - split.begin for split in splits if split.finish is not None) > MOST_TEXT_HERE:
        return None
    batches: list[pa.RecordBatch] = []
    text = 0
    for split in splits:
        for batch in read_split(split):
            batches.append(batch)
            # What a compressed file says of its size is not to be trusted.
            text += batch.nbytes
            if text > 2 * MOST_TEXT_HERE:
                return None
    return pa.Table.from_batches(batches, EVENTS.arrow_schema())


def _is_refusal(rows: pa.Table) -> pa.ChunkedArray:
    """Of each row, whether it tells that the system did not give the rest of its file."""
    is_refused = pc.and_(
        pc.equal(rows["event"], UNREADABLE), pc.starts_with(pc.fill_null(rows["reason"], ""), CANNOT_READ)
    )
    return pc.fill_null(is_refused, False)


def _first_refusals(rows: Iterable[Row]) -> list[Row]:
    """Of each file the first."""
    first: dict[str, Row] = {}
    for row in rows:
        known = first.get(row["file_id"])
        if known is None or row["line_end"] < known["line_end"]:
            first[row["file_id"]] = row
    return list(first.values())


def _read_with_spark(spark: SparkSession, change: Change, splits: list[LogSplit]) -> NewEvents:
    files = change.add(EVENTS.name, read_in_workers(spark, splits))
    refused = (pc.field("event") == UNREADABLE) & pc.starts_with(pc.field("reason"), CANNOT_READ)
    of_no_day = [file for file in files if file.day == _NO_DAY]
    rows = change.arrow(EVENTS.name, of_no_day, refused).select(["file_id", "line_end", "reason"])
    refusals = _first_refusals(rows.to_pylist())
    if refusals:
        files = _leave_out(spark, change, files, refusals)
    counted: list[Row] = []
    if files:
        with spark_workbench(spark) as bench:
            bench.add_frame("counted_events", change.read(spark, EVENTS.name, files))
            counted = count_events(bench)
    return NewEvents(files, counted, {row["file_id"]: row["reason"] for row in refusals})


def _leave_out(
    spark: SparkSession, change: Change, files: tuple[PartFile, ...], refusals: list[Row]
) -> tuple[PartFile, ...]:
    """Write the new events anew, without what comes after a refusal: the next run reads that again, and in one piece.

    Returns where they are.
    """
    from pyspark.sql import functions as fn

    gaps = spark.createDataFrame(
        [(row["file_id"], row["line_end"]) for row in refusals], "id string, gap bigint"
    )
    written = change.read(spark, EVENTS.name, files)
    is_refusal = f"event = '{UNREADABLE}' AND startswith(reason, '{CANNOT_READ}')"
    read = written.join(fn.broadcast(gaps), fn.expr("file_id = id"), "left").where(
        f"(gap IS NULL OR line_end <= gap) AND NOT ({is_refusal})"
    )
    left = change.add(EVENTS.name, read)
    change.drop(EVENTS.name, files)
    return left


def workbench_for(
    events: int, open_spark: OpenSpark
) -> AbstractContextManager[DuckWorkbench] | AbstractContextManager[SparkWorkbench]:
    """Where so many events are worked on."""
    return duck_workbench() if events <= MOST_EVENTS_HERE else spark_workbench(open_spark())


def add_events(
    bench: DuckWorkbench | SparkWorkbench, name: str, change: Change, table: str, files: Iterable[PartFile]
) -> None:
    """Give the rows of some files of a table a name on a workbench."""
    if isinstance(bench, SparkWorkbench):
        bench.add_frame(name, change.read(bench.spark, table, files))
    else:
        bench.add(name, change.arrow(table, files))


def count_table(open_spark: OpenSpark, change: Change) -> Iterator[Row]:
    """What events that are there tell of files and servers."""
    files = change.base.files(EVENTS.name)
    with workbench_for(sum(file.rows for file in files), open_spark) as bench:
        add_events(bench, "counted_events", change, EVENTS.name, files)
        yield from count_events(bench)
