"""The tables that come from event logs, column by column, as docs/audience.rst has them; and all tables by their names."""

from __future__ import annotations

from spark_analytics.store.schema import DAY, RECORDING_TABLES, Column, Table

_STREAM = (
    Column("app", "string", "the application of the stream; empty if it has none"),
    Column("stream", "string", "the name of the stream"),
)
_INSTANCE = Column("instance", "string", "which run of the server; `servers` has the rest")
_CONNECTION = Column("connection", "string", "which connection; each run of the server numbers them from 1")
_COUNTS = (
    Column("messages", "bigint", "audio, video and data messages that were delivered"),
    Column("bytes", "bigint", "their payload"),
    Column("dropped", "bigint", "messages that were not delivered"),
)
_REASONS = Column("dropped_by_reason", "map<string,bigint>", "the same by reason, such as `queue_full`")
_STALLS = (
    Column(
        "stalls",
        "bigint",
        "how often the viewer took less than was sent for over a second; of HLS, how often the player had nothing to show",
    ),
    Column("stalled_seconds", "double", "how long that was in all; 0 for HLS"),
)
_TOLD_BY_PLAYERS = (
    Column("protocol", "string", "how it was watched: `rtmp`, `flv`, `mp4` or `hls`"),
    Column("startup", "double", "seconds to the first picture, if a player of HLS tells (CMCD)"),
    Column("throughput_kbps", "bigint", "what a player of HLS measured last (CMCD)"),
)

EVENT_FILES = Table(
    "event_files",
    1,
    "One row for each event log.",
    (
        Column(
            "file_id",
            "string",
            "a hash of its first line: a file that was moved or compressed is known again",
        ),
        Column("path", "string", "the file, without the `.gz` that it may have got meanwhile"),
        Column("compressed", "boolean", "whether it has it"),
        Column("size", "bigint", "bytes on the disk"),
        Column("mtime_ns", "bigint", "when it was last changed, nanoseconds since 1970"),
        Column("read_until", "bigint", "bytes of text that were read so far: whole lines only"),
        Column(
            "torn_bytes", "bigint", "bytes after the last whole line, if it is not being written any more"
        ),
        Column("events", "bigint", "lines that were read"),
        Column("unreadable", "bigint", "lines that are no event; in `events` they are called `unreadable`"),
        Column("first_event", "timestamp", "UTC"),
        Column("last_event", "timestamp", "UTC"),
        Column("status", "string", "`ok`, `torn`, `damaged`, `empty` or `unreadable`"),
        Column("error", "string", "why it could not be read"),
        Column("vanished_at", "timestamp", "when a run first missed the file; its events stay"),
        Column("indexed_at", "timestamp", "when it was last read"),
        Column(DAY, "date", "of `first_event`, or of the last change"),
    ),
    ("path",),
)

#: The columns that an event has in common with its copies in other files. The number would do, if all programs counted.
SAME_EVENT = ("instance", "number", "time", "event")

EVENTS = Table(
    "events",
    1,
    "One row for each event.",
    (
        Column("file_id", "string", "which event log; `event_files` has the rest"),
        Column("line_end", "bigint", "where its line ends in the text"),
        _INSTANCE,
        Column("number", "bigint", "counts the events of a run of the server; a missing one was lost"),
        Column("time", "timestamp", "UTC"),
        Column("event", "string", "what happened; `unreadable` if the line is no event"),
        _CONNECTION,
        *_STREAM,
        Column("destination", "string", "the name of the destination"),
        Column("peer", "string", "where a connection comes from"),
        Column("client", "string", "the program at the other end, as it calls itself"),
        Column("address", "string", "where a destination is, without the key"),
        Column("reason", "string", "why, in words"),
        Column("error_class", "string", "`network`, `refused` or `protocol`, of a destination"),
        Column("limit", "string", "the limit that a peer went over"),
        Column("clean", "boolean", "whether a publisher meant to end"),
        Column("video", "string", "codec"),
        Column("audio", "string", "codec"),
        Column("path", "string", "of a recording"),
        Column("duration", "double", "seconds"),
        *_COUNTS,
        _REASONS,
        *_STALLS,
        Column("count", "bigint", "how many, of `destination_dropped` and `events_lost`"),
        Column("role", "string", "`player` or `publisher`, of `media_statistics`"),
        Column("seconds", "double", "for how long, of statistics"),
        Column("queued", "bigint", "messages that waited, of statistics"),
        *_TOLD_BY_PLAYERS,
        Column("host", "string", "the name of the machine, of `server_started`"),
        Column("version", "string", "of rtmprelay, of `server_started`"),
        Column(
            "node",
            "string",
            "its name among others, of `server_started` and of events of a cluster",
        ),
        Column(
            "line",
            "string",
            "the line itself, but of statistics: `get_json_object(line, '$.x')` has the rest",
        ),
        Column(DAY, "date", "of `time`"),
    ),
    ("event", "app", "stream", "time"),
)

OPEN_EVENTS = Table(
    "open_events",
    3,
    "The events of what has not ended yet, some of them added up: what the next run of `index` begins with.",
    tuple(column for column in EVENTS.columns if column.name not in ("file_id", "line_end", "line", "node")),
    ("instance", "number"),
)

SERVERS = Table(
    "servers",
    2,
    "One row for each run of a server.",
    (
        _INSTANCE,
        Column("host", "string", "the name of the machine"),
        Column("version", "string", "of rtmprelay"),
        Column("node", "string", "its name among others; null if it has none"),
        Column("started_at", "timestamp", "the first event"),
        Column("last_seen", "timestamp", "the last event so far"),
        Column("ended_how", "string", "`stopped`, `died` (its last event is no goodbye) or `running`"),
        Column("last_number", "bigint", "the number of the last event"),
        Column("events", "bigint", "how many were read"),
        Column(
            "missing_events",
            "bigint",
            "how many were lost, or are in no file; null if the log has no numbers",
        ),
        Column(DAY, "date", "of `started_at`"),
    ),
    ("started_at",),
)

DELIVERIES = Table(
    "deliveries",
    2,
    "One row for each report (every 30 s) on what went through: to a viewer or a destination, or from a publisher.",
    (
        Column("role", "string", "`viewer`, `destination` or `publisher`"),
        *_STREAM,
        Column("who", "string", "the connection, or the name of the destination"),
        _INSTANCE,
        Column("began", "timestamp", "UTC"),
        Column("ended", "timestamp", "UTC"),
        Column("seconds", "double", "between them"),
        *_COUNTS,
        Column("queued", "bigint", "messages that waited at the end"),
        *_STALLS,
        Column("is_last", "boolean", "whether it is what was left at the end"),
        Column(DAY, "date", "of `ended`"),
    ),
    ("role", "app", "stream", "ended"),
)

VIEWERS = Table(
    "viewers",
    3,
    "One row for each play.",
    (
        *_STREAM,
        Column("started_at", "timestamp", "UTC"),
        Column(
            "ended_at",
            "timestamp",
            "UTC; the last sign of the server if it died, null while somebody watches",
        ),
        Column("watch_seconds", "double", "between them; up to the last event while somebody watches"),
        *_COUNTS,
        _REASONS,
        *_STALLS,
        *_TOLD_BY_PLAYERS,
        Column(
            "ended_how",
            "string",
            "`left`, `lost`, `too slow`, `sent away` (over another limit), `server stopped`, `server died`, `watching`, `unknown` (another reason)",
        ),
        Column("end_reason", "string", "the same in the words of the server"),
        Column("peer", "string", "where the viewer comes from"),
        Column("client", "string", "the player, as it calls itself"),
        _CONNECTION,
        _INSTANCE,
        Column(DAY, "date", "of `started_at`"),
    ),
    ("app", "stream", "started_at"),
)

PUBLISHES = Table(
    "publishes",
    2,
    "One row for each time that somebody published a stream.",
    (
        *_STREAM,
        Column("started_at", "timestamp", "UTC"),
        Column("ended_at", "timestamp", "UTC; the last sign of the server if it died, null while it is live"),
        Column("seconds", "double", "between them; up to the last event while it is live"),
        Column("messages", "bigint", "audio, video and data messages that came in"),
        Column("bytes", "bigint", "their payload"),
        Column("video_codec", "string", "the last one"),
        Column("audio_codec", "string", "the last one"),
        Column("clean", "boolean", "whether the publisher meant to end"),
        Column("ended_how", "string", "`ended`, `lost`, `server stopped`, `server died` or `live`"),
        Column("end_reason", "string", "the same in the words of the server"),
        Column("peer", "string", "where the publisher comes from"),
        Column("client", "string", "the encoder, as it calls itself"),
        _CONNECTION,
        _INSTANCE,
        Column(DAY, "date", "of `started_at`"),
    ),
    ("app", "stream", "started_at"),
)

AUDIENCE = Table(
    "audience",
    2,
    "One row for each minute in which somebody watched a stream at a server.",
    (
        *_STREAM,
        Column("minute", "timestamp", "where it begins, UTC"),
        Column("peak", "bigint", "the most viewers at the same time"),
        Column("average", "double", "viewers on average: `watch_seconds` / 60"),
        Column("watch_seconds", "double", "of all viewers together"),
        Column("joins", "bigint", "viewers who came"),
        Column("leaves", "bigint", "viewers who went"),
        _INSTANCE,
        Column(DAY, "date", "of `minute`"),
    ),
    ("app", "stream", "minute"),
)

DESTINATION_STATES = Table(
    "destination_states",
    2,
    "One row for each time in which a destination was in one state, for one stream.",
    (
        Column("destination", "string", "its name"),
        *_STREAM,
        Column("state", "string", "`connecting` (for the first time), `connected` or `down`"),
        Column("began", "timestamp", "UTC"),
        Column("ended", "timestamp", "UTC; null while it lasts"),
        Column("seconds", "double", "between them; up to the last event while it lasts"),
        Column("live_seconds", "double", "of them, those in which the stream had a publisher"),
        Column("address", "string", "where it was, without the key"),
        _INSTANCE,
        Column(DAY, "date", "of `began`"),
    ),
    ("destination", "app", "stream", "began"),
)

OUTAGES = Table(
    "outages",
    2,
    "One row for each time in which a destination did not get a stream, after at least one failure.",
    (
        Column("destination", "string", "its name"),
        *_STREAM,
        Column("began", "timestamp", "UTC"),
        Column("ended", "timestamp", "UTC; null while it lasts"),
        Column("seconds", "double", "between them; up to the last event while it lasts"),
        Column("error", "string", "the first failure, in words"),
        Column(
            "error_class", "string", "`network`, `refused` or `protocol`; `requested` if an operator did it"
        ),
        Column("last_error", "string", "the last failure, in words"),
        Column("failures", "bigint", "how many there were"),
        Column(
            "lost_messages",
            "bigint",
            "messages of the stream that the destination never got; null until the server has told it",
        ),
        Column("ended_how", "string", "`recovered`, `closed`, `server stopped`, `server died` or `lasts`"),
        Column("was_connected", "boolean", "whether it was connected before, in this broadcast"),
        Column("given_up", "boolean", "whether there were too many failures to go on"),
        _INSTANCE,
        Column(DAY, "date", "of `began`"),
    ),
    ("destination", "began"),
)

DESTINATIONS = Table(
    "destinations",
    2,
    "One row for each destination and day.",
    (
        Column("destination", "string", "its name"),
        Column("live_seconds", "double", "while a stream for it had a publisher"),
        Column("connected_seconds", "double", "of them, those in which it was connected"),
        Column("uptime_percent", "double", "connected of live"),
        Column("streams", "bigint", "how many different ones"),
        Column("reconnects", "bigint", "how often it was connected again after an outage"),
        Column("outages", "bigint", "those that began on this day"),
        Column("outage_seconds", "double", "how long they were"),
        Column("longest_outage_seconds", "double", "the longest one"),
        Column("recovery_p95_seconds", "double", "95 of 100 outages that ended well were not longer"),
        Column("lost_messages", "bigint", "of them: messages that it never got"),
        *_COUNTS,
        _REASONS,
        Column(DAY, "date", "the day, UTC"),
    ),
    ("destination",),
)

EVENT_TABLES = (
    EVENT_FILES,
    EVENTS,
    OPEN_EVENTS,
    SERVERS,
    DELIVERIES,
    VIEWERS,
    PUBLISHES,
    AUDIENCE,
    DESTINATION_STATES,
    OUTAGES,
    DESTINATIONS,
)

#: Every table that a catalogue may have, by its name.
TABLES: dict[str, Table] = {table.name: table for table in (*RECORDING_TABLES, *EVENT_TABLES)}
