"""What a table of the catalogue is, and the tables of recordings column by column; docs/catalogue.rst says the same.

A column that is added, removed or means something else makes the next `version` of its table; a catalogue with another
version is indexed anew. Everything is in one notation, which Spark and Arrow read alike, so that a question without Spark
need not import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType


#: The day (UTC) that a row belongs to; the folders below a table are called after it.
DAY = "day"


#: The largest number of a `bigint`.
_MOST = 2**63 - 1


def as_bigint(number: int) -> int:
    """The nearest number that a `bigint` holds: the nanoseconds of clocks that were never set may be beyond the year 2262."""
    return max(-_MOST, min(_MOST, number))


@attrs.frozen
class Column:
    """One column: its type as SQL writes it, and what it means."""

    name: str
    type: str
    meaning: str


@attrs.frozen
class Table:
    """One table.

    Attributes:
        columns: All of them; the last one is `day`, by which the table is partitioned.
        sorted_by: In which order the rows of a file are written, so that a question about one stream skips the others.
    """

    name: str
    version: int
    meaning: str
    columns: tuple[Column, ...]
    sorted_by: tuple[str, ...]

    @property
    def column_names(self) -> list[str]:
        """The names, in order."""
        return [column.name for column in self.columns]

    def spark_schema(self) -> StructType:
        """The columns as Spark wants them."""
        from pyspark.sql.types import StructField, StructType

        return StructType([StructField(column.name, spark_type(column.type)) for column in self.columns])

    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow wants them."""
        import pyarrow as pa

        return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in self.columns])


def spark_type(name: str) -> DataType:
    """A type of Spark from its name in SQL."""
    from pyspark.sql import types

    if name.startswith("array<"):
        return types.ArrayType(spark_type(name.removeprefix("array<").removesuffix(">")))
    if name.startswith("map<string,"):
        return types.MapType(
            types.StringType(), spark_type(name.removeprefix("map<string,").removesuffix(">"))
        )
    simple: dict[str, type[DataType]] = {
        "string": types.StringType,
        "bigint": types.LongType,
        "int": types.IntegerType,
        "double": types.DoubleType,
        "boolean": types.BooleanType,
        "timestamp": types.TimestampType,
        "date": types.DateType,
        "binary": types.BinaryType,
    }
    return simple[name]()


def arrow_type(name: str) -> pa.DataType:
    """A type of Arrow from its name in SQL. Times are in UTC, to the microsecond."""
    import pyarrow as pa

    if name.startswith("array<"):
        return pa.list_(arrow_type(name.removeprefix("array<").removesuffix(">")))
    if name.startswith("map<string,"):
        return pa.map_(pa.string(), arrow_type(name.removeprefix("map<string,").removesuffix(">")))
    return {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "date": pa.date32(),
        "binary": pa.binary(),
    }[name]


_STREAM = (
    Column("app", "string", "the application of the stream; empty if it has none"),
    Column("stream", "string", "the name of the stream; of a foreign file, its name without `.flv`"),
)
_FILE_ID = Column("file_id", "string", "which recording; `recordings` has the rest")
_PATH = Column("path", "string", "the file")
_WALL = Column("wall", "timestamp", "when that was, UTC: the start of the recording and the time in it")

RECORDINGS = Table(
    "recordings",
    1,
    "One row for each file.",
    (
        Column("file_id", "string", "a short hash of the path"),
        _PATH,
        *_STREAM,
        Column("segment", "int", "which part of a recording that is cut into segments"),
        Column("started_at", "timestamp", "when the first frame was recorded, UTC"),
        Column("ended_at", "timestamp", "when the last frame was recorded, UTC"),
        Column("start_source", "string", "where `started_at` is from: `metadata`, `name` or `mtime`"),
        Column("duration_ms", "bigint", "from the first coded frame to the last"),
        Column("size", "bigint", "bytes of the file"),
        Column("mtime_ns", "bigint", "when it was last changed, nanoseconds since 1970"),
        Column("status", "string", "see the list of them above"),
        Column("error", "string", "why it could not be read"),
        Column(
            "complete", "boolean", "whether the recorder finished it: the metadata has the size of the file"
        ),
        Column("lost_bytes", "bigint", "bytes that hold no whole tag"),
        Column("damages", "int", "how many damaged places there are"),
        Column("video_codec", "string", "the first one"),
        Column("audio_codec", "string", "the first one"),
        Column("width", "int", "of the picture, from the decoder configuration or the metadata"),
        Column("height", "int", "of the picture"),
        Column("fps", "double", "frames a second, from the usual step between frames"),
        Column("sample_rate", "int", "of the sound"),
        Column("channels", "int", "of the sound"),
        Column("video_kbps", "double", "average over the duration"),
        Column("audio_kbps", "double", "average over the duration"),
        Column("keyframe_interval_ms", "double", "average, where time goes on"),
        Column("tags", "bigint", "whole tags"),
        Column("script_tags", "bigint", "tags with script data, metadata among them"),
        Column("video_frames", "bigint", "coded pictures; of several tracks, those of the first"),
        Column("audio_frames", "bigint", "coded audio frames; of several tracks, those of the first"),
        Column("keyframes", "bigint", "pictures at which decoding can start"),
        Column("video_bytes", "bigint", "payload of coded pictures"),
        Column("audio_bytes", "bigint", "payload of coded audio"),
        Column("dropped_frames", "bigint", "pictures that are missing, estimated; see `seconds`"),
        Column(
            "audio_drift_ms_per_hour", "double", "how much faster timestamps of audio run than its samples"
        ),
        Column("first_timestamp_ms", "bigint", "the timestamp of the first coded frame in the file"),
        Column("run", "string", "which run wrote the rows of this file in the other tables"),
        Column("vanished_at", "timestamp", "when a run first missed the file; null while it is there"),
        Column("indexed_at", "timestamp", "when it was read"),
        Column("indexer_version", "int", "the rules by which it was read"),
        Column(DAY, "date", "of `started_at`"),
    ),
    ("app", "stream", "started_at"),
)

KEYFRAMES = Table(
    "keyframes",
    1,
    "One row for each picture at which decoding can start.",
    (
        _FILE_ID,
        _PATH,
        *_STREAM,
        Column("timestamp_ms", "bigint", "the timestamp in the file; begins again after 49.7 days"),
        Column("time_ms", "bigint", "since the first coded frame of the file"),
        _WALL,
        Column("byte_offset", "bigint", "where the tag begins"),
        Column("bytes", "int", "payload"),
        Column("gop_frames", "int", "pictures up to the next keyframe, this one included"),
        Column("gop_bytes", "bigint", "their payload"),
        Column(DAY, "date", "of `wall`"),
    ),
    ("app", "stream", "wall"),
)

SECONDS = Table(
    "seconds",
    1,
    "One row for each second of a file in which something is.",
    (
        _FILE_ID,
        *_STREAM,
        Column("second", "bigint", "since the first coded frame of the file"),
        _WALL,
        Column("video_bytes", "bigint", "payload of coded pictures"),
        Column("audio_bytes", "bigint", "payload of coded audio"),
        Column("video_frames", "int", "coded pictures; of several tracks, those of the first"),
        Column("audio_frames", "int", "coded audio frames; of several tracks, those of the first"),
        Column("keyframes", "int", "of the pictures"),
        Column(
            "dropped_est", "int", "pictures that are missing, from the steps between those that are there"
        ),
        Column("max_step_ms", "bigint", "the longest step from one picture to the next that ends here"),
        Column("last_video_ms", "bigint", "time of the last picture since the start of the file"),
        Column("last_audio_ms", "bigint", "time of the last audio frame since the start of the file"),
        Column(
            "av_skew_ms", "double", "how far the timestamps of audio have run away from its samples so far"
        ),
        Column(DAY, "date", "of `wall`"),
    ),
    ("app", "stream", "wall"),
)

INCIDENTS = Table(
    "incidents",
    1,
    "One row for each thing that is wrong with a recording.",
    (
        _FILE_ID,
        _PATH,
        *_STREAM,
        Column("kind", "string", "see the list of them below"),
        Column("time_ms", "bigint", "where it begins, since the first coded frame of the file"),
        Column("wall", "timestamp", "when that was, UTC"),
        Column("byte_offset", "bigint", "the tag, or the damaged place"),
        Column("length_ms", "bigint", "how long it is, if it has a length"),
        Column("bytes", "bigint", "how many bytes are lost or wrong"),
        Column("detail", "string", "for people"),
        Column(DAY, "date", "of `wall`"),
    ),
    ("app", "stream", "wall"),
)

SESSIONS = Table(
    "sessions",
    1,
    "One row for each broadcast: files of a stream that follow each other within five seconds, or a move to another node.",
    (
        *_STREAM,
        Column("started_at", "timestamp", "start of the first file"),
        Column("ended_at", "timestamp", "end of the last file"),
        Column("files", "int", "how many there are"),
        Column("vanished", "int", "how many of them are gone"),
        Column("paths", "array<string>", "all of them, in order"),
        Column("recorded_ms", "bigint", "their durations together"),
        Column("missing_ms", "bigint", "time between them that no file has"),
        Column("size", "bigint", "bytes of all files"),
        Column("lost_bytes", "bigint", "of them, those that hold no whole tag"),
        Column(DAY, "date", "of `started_at`"),
    ),
    ("app", "stream", "started_at"),
)

RECORDING_TABLES = (RECORDINGS, KEYFRAMES, SECONDS, INCIDENTS, SESSIONS)
