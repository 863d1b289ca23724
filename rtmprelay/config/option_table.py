"""The options of `twistd rtmprelay` as its help shows them."""

from __future__ import annotations

from typing import Any

from rtmprelay.config import hls as hls_options
from rtmprelay.config.nodes import NODE_PARAMETERS
from rtmprelay.wire.limits import LARGEST_OUTGOING_CHUNK_SIZE

#: Options with a value: name, short form, default, and what they are for.
PARAMETERS: list[list[Any]] = [
    ["chunk-size", None, LARGEST_OUTGOING_CHUNK_SIZE, "Size of outgoing chunks in bytes, 128 to 65536."],
    [
        "merge-window",
        None,
        "40ms",
        "The longest that a frame may wait to be sent together with others under load; 0 switches merging off.",
    ],
    *NODE_PARAMETERS,
    ["relay-config", None, None, "A JSON file with destinations; SIGHUP reads it again."],
    [
        "http-status",
        None,
        None,
        "Where to serve status, metrics and the dashboard over HTTP; :8080 is for this machine only.",
    ],
    [
        "http-token",
        None,
        None,
        "The token that a request needs to change things: TOKEN, file:PATH, or RTMPRELAY_HTTP_TOKEN in the environment.",
    ],
    ["record-dir", None, "recordings", "The folder for recordings."],
    [
        "segment-duration",
        None,
        None,
        "Begin a new file at the first keyframe after this time, such as 30m.",
    ],
    [
        "segment-size",
        None,
        None,
        "Begin a new file at the first keyframe after this many bytes, such as 2G.",
    ],
    ["keep-recordings", None, None, "Delete finished recordings that are older than this, such as 7d."],
    [
        "max-recordings-size",
        None,
        None,
        "Delete the oldest finished recordings when all together are larger than this, such as 100G.",
    ],
    [
        "keep-free",
        None,
        None,
        "Write no recordings while the disk has less free than this share or size, such as 5% or 10G. Default: 5%, at most 1G",
    ],
    ["event-log", None, None, "A folder for the event log: every event as a line of JSON."],
    ["event-log-size", None, None, "The largest size of an event log file. Default: 64M"],
    ["keep-event-log", None, None, "Delete event log files that are older than this, such as 90d."],
    [
        "max-event-log-size",
        None,
        None,
        "Delete the oldest event log files when all together are larger than this, or none. Default: 10G",
    ],
    [
        "ban",
        None,
        None,
        "Shut out an address that sends so many wrong keys or tokens in so much time, for as long: 20/10m.",
    ],
    [
        "recheck",
        None,
        None,
        "Ask the authorizers again about those who publish and play after this time, such as 5m.",
    ],
    [
        "http-read-token",
        None,
        None,
        "The token that a request needs to read the status, too: TOKEN or file:PATH.",
    ],
    ["log-level", None, "info", "The lowest level that is logged: debug, info, warn or error."],
    ["log-format", None, "text", "The format of the log: text or json."],
    *hls_options.PARAMETERS,
]

#: Options without a value.
FLAGS: list[list[Any]] = [
    ["record-all", None, "Record every stream."],
    ["open", None, "Anybody may publish: say that this is meant, and there is no warning."],
    ["http-recordings", None, "Let those who may play a stream watch its recordings over HTTP."],
    ["event-log-gzip", None, "Compress event log files when they are finished."],
    [
        "check-destinations",
        None,
        "Connect to every destination, report how far each attempt got, and exit: 0 if all succeeded.",
    ],
    *hls_options.FLAGS,
]
