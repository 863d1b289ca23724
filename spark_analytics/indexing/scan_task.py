"""What a worker does: reads its parts of files, and sends what it found."""

from __future__ import annotations

import gc
import math
import pickle
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import attrs
import pyarrow as pa

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv.container import TAG_HEADER_SIZE, parse_tag_header
from rtmprelay.flv.script import decode_metadata
from rtmprelay.media import MediaKind
from spark_analytics.flv.classify import Classifier
from spark_analytics.flv.scanner import FILE_START, first_tag, start_of_part
from spark_analytics.flv.sources import ByteSource, open_source
from spark_analytics.indexing.part_result import PartResult, reason_of
from spark_analytics.indexing.plan import Split
from spark_analytics.indexing.recording_row import Reading, judged
from spark_analytics.indexing.scan_rows import FILE, RECORDING_ROWS, RowCollector, packed
from spark_analytics.indexing.stitching import stitch
from spark_analytics.recordings.beginning import read_beginning
from spark_analytics.recordings.part import finish
from spark_analytics.recordings.part_reader import PartReader

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
