"""What a worker does: reads its parts of files, and sends what it found as batches of rows."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa

from rtmprelay.amf0 import AmfValue
from rtmprelay.flv.container import TAG_HEADER_SIZE, parse_tag_header
from rtmprelay.flv.script import decode_metadata
from rtmprelay.media import MediaKind
from spark_analytics.analysis.beginning import Beginning, read_beginning
from spark_analytics.analysis.findings import Findings
from spark_analytics.analysis.part import Part, finish
from spark_analytics.analysis.part_reader import PartReader
from spark_analytics.indexing.plan import Split
from spark_analytics.indexing.scan_rows import incident_rows, joined, keyframe_rows, part_row, second_rows
from spark_analytics.scanning.classify import Classifier
from spark_analytics.scanning.range_scanner import first_tag, start_of_part
from spark_analytics.scanning.sources import ByteSource, open_source

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


@attrs.frozen(eq=False)
class PartResult:
    """What is known of a part of a file.

    Attributes:
        begin: Where its first tag begins; equal to `end` if none begins in it.
        end: Where the first tag of the next part begins.
        metadata: Some of what the metadata at the start of the file says.
        has_header: Whether the file has a file header, and whether it begins with those of one.
        error: Why it could not be read; then there is nothing else.
    """

    begin: int = 0
    end: int = 0
    part: Part = attrs.field(factory=Part)
    beginning: Beginning = attrs.field(factory=Beginning)
    metadata: dict[str, AmfValue] = attrs.field(factory=dict)
    has_header: bool = False
    has_signature: bool = False
    error: str | None = None

    def packed(self) -> bytes:
        """As bytes. Most of the steps are never made."""
        made = np.flatnonzero(self.part.steps)
        sparse = made.astype(np.int32), self.part.steps[made]
        bare = attrs.evolve(self, part=attrs.evolve(self.part, steps=np.empty(0, np.int64)))
        return pickle.dumps((bare, *sparse), pickle.HIGHEST_PROTOCOL)

    @classmethod
    def unpacked(cls, data: bytes) -> PartResult:
        """From bytes that a worker of this same program made."""
        result, made, counts = pickle.loads(data)
        steps = Part().steps
        steps[made] = counts
        result.part.steps = steps
        assert isinstance(result, PartResult)
        return result


def run_tasks(
    tasks: Sequence[Sequence[Split]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The function for `mapInArrow`: reads the tasks whose numbers come in."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from run_task(tasks[number])


def run_task(splits: Iterable[Split]) -> Iterator[pa.RecordBatch]:
    """Read some parts of files."""
    waiting: list[pa.RecordBatch] = []
    classifier = Classifier()
    for split in splits:
        for batch in _read_split(split, classifier):
            waiting.append(batch)
            if sum(one.num_rows for one in waiting) >= _BATCH_ROWS:
                yield from joined(waiting)
                waiting = []
    yield from joined(waiting)


def _read_split(split: Split, classifier: Classifier) -> Iterator[pa.RecordBatch]:
    """Whatever a file is, it must not end the job: there is always a row of the part."""
    try:
        source = open_source(split.path, split.size, split.settled)
    except Exception as error:
        yield part_row(split.file_id, split.number, PartResult(error=_reason(error)).packed())
        return
    try:
        yield from _read_source(split, source, classifier)
    except Exception as error:
        yield part_row(split.file_id, split.number, PartResult(error=_reason(error)).packed())
    finally:
        source.close()


def _read_source(split: Split, source: ByteSource, classifier: Classifier) -> Iterator[pa.RecordBatch]:
    beginning = read_beginning(source, classifier)
    begin = start_of_part(source, split.lo, split.hi)
    reader = PartReader(source, classifier, beginning, begin, split.hi)
    for _ in reader:
        if reader.findings.waiting >= _BATCH_ROWS:
            yield from _rows(split, reader.findings)
    if split.is_whole_file:
        finish(reader.part, reader.findings)
    yield from _rows(split, reader.findings)
    start = source.read(0, 3)
    result = PartResult(
        begin,
        max(begin, reader.end),
        reader.part,
        beginning,
        read_metadata(source) if split.number == 0 else {},
        first_tag(source) > 0,
        start == b"FLV",
    )
    yield part_row(split.file_id, split.number, result.packed())


def _rows(split: Split, findings: Findings) -> Iterator[pa.RecordBatch]:
    seconds, keyframes, incidents = (
        findings.seconds.take(),
        findings.take_keyframes(),
        findings.take_incidents(),
    )
    if len(seconds):
        yield second_rows(split.file_id, split.number, seconds)
    if len(keyframes):
        yield keyframe_rows(split.file_id, split.number, keyframes)
    if incidents:
        yield incident_rows(split.file_id, split.number, incidents)


def read_metadata(source: ByteSource) -> dict[str, AmfValue]:
    """What the first tag says of the file, if it is metadata. Nobody but the recorder writes it there."""
    at = first_tag(source)
    header = source.read(at, TAG_HEADER_SIZE)
    if len(header) < TAG_HEADER_SIZE or header[0] != MediaKind.DATA:
        return {}
    _, size, _ = parse_tag_header(header)
    values = decode_metadata(source.read(at + TAG_HEADER_SIZE, size)) or {}
    return {key: values[key] for key in _METADATA_KEYS if _is_plain(values.get(key))}


def _is_plain(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}" if not isinstance(error, OSError) else str(error)
