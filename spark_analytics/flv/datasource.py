"""The Spark data source "flv": the tags of recordings as rows, without their payloads.

    from spark_analytics.flv.datasource import register
    register(spark)
    spark.read.format("flv").load("recordings/")

One large file is read by many tasks: each finds the first tag of its part by itself, and it is always the right one (see
`spark_analytics.flv.scan`). Conditions about type, keyframes and times that Spark hands on leave tags out here. What is
damaged, or cannot be read, is left out: `option("mode", "FAILFAST")` makes an error of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from rtmprelay.media import MediaKind
from spark_analytics.errors import CatalogueError
from spark_analytics.flv.classify import Classifier, Flags, TagClass, composition_times
from spark_analytics.flv.scan import DamagedPart, RangeScanner, start_of_part
from spark_analytics.flv.sources import ByteSource, open_source
from spark_analytics.flv.tags import TagArrays
from spark_analytics.recordings.discover import find_recordings
from spark_analytics.recordings.plan import MIB, Split, cut
from spark_analytics.recordings.results import reason_of
from spark_analytics.store.schema import Column, Table

#: What the column `type` calls tags; all others are `other`.
TYPE_NAMES: Mapping[MediaKind | None, str] = {
    MediaKind.AUDIO: "audio",
    MediaKind.VIDEO: "video",
    MediaKind.DATA: "script",
    None: "other",
}

#: Columns that are never null.
_ALWAYS_THERE = {"path", "type", "timestamp", "keyframe"}


@attrs.frozen
class TagFilter:
    """Conditions that all hold.

    Attributes:
        types, paths: One of these; None for any.
        first, last: Timestamps, both included.
    """

    types: frozenset[str] | None = None
    paths: frozenset[str] | None = None
    keyframe: bool | None = None
    first: int | None = None
    last: int | None = None

    def wants_file(self, path: str) -> bool:
        """Whether any tag of a file may be wanted."""
        return self.paths is None or path in self.paths

    def by_header(self, tags: TagArrays) -> Flags | None:
        """Which tags are wanted, as far as their headers tell; None for all."""
        wanted: Flags | None = None
        if self.types is not None:
            named = [
                int(kind) for kind, name in TYPE_NAMES.items() if kind is not None and name in self.types
            ]
            wanted = np.isin(tags.types, named)
            if TYPE_NAMES[None] in self.types:
                wanted |= ~np.isin(tags.types, [int(kind) for kind in TYPE_NAMES if kind is not None])
        if self.keyframe:
            # Sound and data have none.
            is_video = tags.types == MediaKind.VIDEO
            wanted = is_video if wanted is None else wanted & is_video
        for bound, is_within in ((self.first, np.greater_equal), (self.last, np.less_equal)):
            if bound is not None:
                in_time = is_within(tags.timestamps, bound)
                wanted = in_time if wanted is None else wanted & in_time
        return wanted


def take_over(filters: Iterable[Filter]) -> tuple[TagFilter, list[Filter]]:
    """What of some conditions is seen to here, and the rest of them."""
    taken = TagFilter()
    rest: list[Filter] = []
    for one in filters:
        more = _narrowed(taken, one)
        if more is None:
            rest.append(one)
        else:
            taken = more
    return taken, rest


def _narrowed(found: TagFilter, one: Filter) -> TagFilter | None:
    """A filter with one more condition; None if it is of another kind."""
    path: tuple[str, ...] = getattr(one, "attribute", ())
    name = path[0] if len(path) == 1 else ""
    if name not in _ALWAYS_THERE:
        return None
    value: Any = getattr(one, "value", None)
    if isinstance(one, IsNotNull):
        return found
    if name in ("type", "path") and isinstance(one, EqualTo | In):
        values = frozenset(value if isinstance(one, In) else [value])
        if name == "type":
            return attrs.evolve(found, types=values if found.types is None else found.types & values)
        return attrs.evolve(found, paths=values if found.paths is None else found.paths & values)
    if name == "keyframe" and isinstance(one, EqualTo) and isinstance(value, bool):
        # Both at once is wanted of no tag: the second condition is left to Spark.
        return attrs.evolve(found, keyframe=value) if found.keyframe in (None, value) else None
    if name == "timestamp" and isinstance(value, int):
        return _in_time(found, one, value)
    return None


def _in_time(found: TagFilter, one: Filter, value: int) -> TagFilter | None:
    first = {EqualTo: value, GreaterThanOrEqual: value, GreaterThan: value + 1}.get(type(one))
    last = {EqualTo: value, LessThanOrEqual: value, LessThan: value - 1}.get(type(one))
    if first is None and last is None:
        return None
    return attrs.evolve(
        found,
        first=max((bound for bound in (found.first, first) if bound is not None), default=None),
        last=min((bound for bound in (found.last, last) if bound is not None), default=None),
    )


TAGS = Table(
    "flv",
    1,
    "One row for each whole tag.",
    (
        Column("path", "string", "the file"),
        Column("offset", "bigint", "where the tag begins"),
        Column("size", "int", "bytes of its payload"),
        Column("type", "string", "`audio`, `video`, `script`, or `other`"),
        Column("timestamp", "bigint", "milliseconds, as they are in the file"),
        Column("codec", "string", "its name; null if it is not known"),
        Column("keyframe", "boolean", "whether decoding can start at this picture"),
        Column(
            "kind",
            "string",
            "`coded`, `header`, `end`, `metadata` (of pictures, such as HDR), `script` (such as onMetaData), or `other`",
        ),
        Column(
            "composition_time", "int", "milliseconds by which a picture is shown later than it is decoded"
        ),
    ),
    (),
)

#: What a task reads: parts of large files, many small ones.
_DEFAULT_PART = 128 * MIB
_MOST_FILES = 500

_UNITS = {"": 1, "k": 1024, "m": MIB, "g": 1024 * MIB}

#: The option of Spark by which conditions are handed on to readers in Python.
_HANDS_ON_FILTERS = "spark.sql.python.filterPushdown.enabled"

#: What becomes of damage, in the words of Spark's other formats.
_MODES = ("PERMISSIVE", "FAILFAST")


class FlvDataSource(DataSource):
    """The format "flv". Options: `path`; `partSize` (such as `64m`), how much of a file one task reads; and `mode`,
    `PERMISSIVE` or `FAILFAST`.
    """

    @classmethod
    def name(cls) -> str:
        """As `format` wants it."""
        return "flv"

    def schema(self) -> StructType:
        """The columns, whatever the files are."""
        return TAGS.spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """One that knows where to read."""
        part_size = _size(self.options.get("partSize"))
        return FlvReader(_paths(self.options), part_size, _is_strict(self.options.get("mode")))


@attrs.define(eq=False)
class FlvPartition(InputPartition):
    """What one task reads."""

    splits: tuple[Split, ...]


class FlvReader(DataSourceReader):
    """Reads tags."""

    def __init__(self, paths: Sequence[str], part_size: int, strict: bool = False) -> None:
        """Begin.

        Args:
            strict: Whether damage is an error.
        """
        self._paths = list(paths)
        self._part_size = part_size
        self._strict = strict
        self._filter = TagFilter()

    def partitions(self) -> Sequence[InputPartition]:
        """Look for files, and share them out."""
        files = [
            file for file in find_recordings(self._paths).files.values() if self._filter.wants_file(file.path)
        ]
        found: list[FlvPartition] = []
        together: list[Split] = []
        for number, file in enumerate(files):
            parts = cut(file, number, self._part_size)
            if len(parts) > 1:
                found += [FlvPartition((part,)) for part in parts]
                continue
            together += parts
            if len(together) >= _MOST_FILES or sum(part.file.size for part in together) >= self._part_size:
                found.append(FlvPartition(tuple(together)))
                together = []
        if together or not found:
            found.append(FlvPartition(tuple(together)))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a worker: the rows of some parts of files."""
        assert isinstance(partition, FlvPartition)
        classifier = Classifier()
        for split in partition.splits:
            try:
                yield from self._read(split, classifier)
            except CatalogueError:
                raise
            except Exception as error:
                # One file must not end a job that reads thousands, and each file system has errors of its own.
                if self._strict:
                    raise CatalogueError(f"{split.file.path} cannot be read: {reason_of(error)}") from error

    def _read(self, split: Split, classifier: Classifier) -> Iterator[pa.RecordBatch]:
        with closing(open_source(split.file.path, split.file.size)) as source:
            begin = start_of_part(source, split.lo, split.hi)
            for found in RangeScanner(source, begin, split.hi):
                if isinstance(found, DamagedPart) and self._strict:
                    raise CatalogueError(f"{split.file.path} is damaged at byte {found.begin}.")
                tags = found.tag if isinstance(found, DamagedPart) else found
                if tags is None:
                    continue
                wanted = self._filter.by_header(tags)
                if wanted is not None:
                    tags = tags.chosen(wanted)
                if len(tags):
                    yield _rows(split.file.path, source, tags, classifier, self._filter.keyframe)


class FilteringFlvReader(FlvReader):
    """The same, where Spark hands on what a question asks for: what it does not want is neither looked at nor sent to Java."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Called once, before the files are shared out."""
        self._filter, rest = take_over(filters)
        return rest


class FilteringFlvDataSource(FlvDataSource):
    """For sessions that hand conditions on; others refuse a reader that can take them."""

    def reader(self, schema: StructType) -> DataSourceReader:
        """One that takes conditions."""
        part_size = _size(self.options.get("partSize"))
        return FilteringFlvReader(_paths(self.options), part_size, _is_strict(self.options.get("mode")))


def _rows(
    path: str, source: ByteSource, tags: TagArrays, classifier: Classifier, keyframe: bool | None = None
) -> pa.RecordBatch:
    codes = classifier.classify(source, tags)
    table = classifier.table
    if keyframe is not None:
        wanted = table.keyframe(codes) == keyframe
        tags, codes = tags.chosen(wanted), codes[wanted]
    numbers = pa.array(codes)
    return pa.record_batch(
        [
            pa.repeat(path, len(tags)),
            pa.array(tags.offsets),
            pa.array(tags.sizes.astype(np.int32)),
            pa.array([_type(one) for one in table.classes]).take(numbers),
            pa.array(tags.timestamps),
            pa.array([one.codec_name for one in table.classes], pa.string()).take(numbers),
            pa.array(table.keyframe(codes)),
            pa.array([_kind(one) for one in table.classes]).take(numbers),
            pa.array(composition_times(source, tags, codes, table).astype(np.int32)),
        ],
        schema=TAGS.arrow_schema(),
    )


def _type(one: TagClass) -> str:
    return TYPE_NAMES[one.kind]


def _kind(one: TagClass) -> str:
    info = one.info
    if one.kind is MediaKind.DATA:
        return "script"
    if one.kind is None:
        return "other"
    if info.sequence_header:
        return "header"
    if info.sequence_end:
        return "end"
    if info.startup_metadata:
        return "metadata"
    return "coded" if info.coded else "other"


def _paths(options: Mapping[str, str]) -> list[str]:
    """One path, or several as Spark writes them."""
    several = options.get("paths")
    if several:
        return [str(path) for path in json.loads(several)]
    if not options.get("path"):
        raise CatalogueError('The format "flv" needs a path: spark.read.format("flv").load("recordings/").')
    return [str(options["path"])]


def _size(text: str | None) -> int:
    if text is None:
        return _DEFAULT_PART
    match = re.fullmatch(r"(\d+)\s*([kmg]?)b?", text.strip().lower())
    if match is None or not int(match[1]):
        raise CatalogueError(f"partSize {text}: write a number of bytes, or such as 64m.")
    return int(match[1]) * _UNITS[match[2]]


def _is_strict(text: str | None) -> bool:
    mode = (text or _MODES[0]).strip().upper()
    if mode not in _MODES:
        raise CatalogueError(f"mode {text}: write {' or '.join(_MODES)}.")
    return mode == "FAILFAST"


def register(spark: SparkSession) -> None:
    """Make the format known to a session, which is the active one then."""
    from spark_analytics.engine.spark import make_active

    # Spark looks there, and not in this session, whether the name is taken.
    make_active(spark)
    spark.conf.set(_HANDS_ON_FILTERS, "true")
    spark.dataSource.register(FilteringFlvDataSource)
