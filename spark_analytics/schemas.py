"""The tables of the catalogue, column by column. docs/catalogue.rst says the same; a test compares them.

A column that is added, removed or means something else makes the next `version` of its table; a catalogue with another
version is indexed anew. Everything is in one notation, so that a question without Spark need not import it.
"""

from __future__ import annotations

from spark_analytics.event_schemas import EVENT_TABLES
from spark_analytics.table import DAY, Column, Table

__all__ = ["DAY", "TABLES", "Column", "Table"]

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
        Column("timestamp_ms", "bigint", "the timestamp in the file; begins again behind 49.7 days"),
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

#: Every table that a catalogue may have, by its name.
TABLES: dict[str, Table] = {
    table.name: table for table in (RECORDINGS, KEYFRAMES, SECONDS, INCIDENTS, SESSIONS, *EVENT_TABLES)
}
