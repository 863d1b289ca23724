"""Reads the lines of event logs, from where the last run ended: here, or in Spark's workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import attrs

from spark_analytics.event_logs.files import GZIP_ERRORS, FoundLog, LogText, open_text
from spark_analytics.event_logs.parse import TextLine, parse_events
from spark_analytics.event_schemas import EVENTS

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
