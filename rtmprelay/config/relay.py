"""The configuration of a relay, and how options become it."""

from __future__ import annotations

import re

import attrs

from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.errors import ConfigError
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.interfaces import IEventSink, IStreamAuthorizer
from rtmprelay.quantities import quoted, read_duration
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.rtmp.admission import AdmissionLimits
from rtmprelay.streams.limits import QueueLimits, StreamLimits
from rtmprelay.web.settings import HttpSettings
from rtmprelay.wire.limits import (
    LARGEST_OUTGOING_CHUNK_SIZE,
    SMALLEST_OUTGOING_CHUNK_SIZE,
    ConnectionLimits,
)

DEFAULT_LISTEN = "tcp:1935"

#: Connections that the kernel keeps until they are accepted; Twisted's 50 is too few when an audience arrives.
_BACKLOG = 1024

_SHORT_FORM = re.compile(r"(?P<host>\[[^\]]+\]|[^:/=]*):(?P<port>\d+)")

#: What looks like `HOST:PORT` and is a Twisted endpoint description.
_ENDPOINT_TYPES = frozenset({"tcp", "tcp6", "ssl", "unix"})

#: Longer than this a viewer notices, and nothing more is gained.
LONGEST_MERGE_WINDOW_MS = 1000

#: The port in an endpoint description, which Twisted does not check before it is opened.
_DESCRIBED_PORT = re.compile(r"(?:tcp6?|ssl):(?:port=)?(?P<port>-?\d+)(?::|$)")


def _check_merge_window(config: RelayConfig, field: attrs.Attribute[float], seconds: float) -> None:
    if not 0 <= seconds <= LONGEST_MERGE_WINDOW_MS / 1000:
        raise ConfigError(
            f"{field.name} is a number of seconds from 0 to {LONGEST_MERGE_WINDOW_MS / 1000:g}, not {seconds}"
        )


@attrs.frozen
class RelayConfig:
    """Everything that a `RelayService` can be told."""

    #: Where to listen, as Twisted endpoint descriptions.
    listen: tuple[str, ...] = (DEFAULT_LISTEN,)
    #: The size of outgoing chunks.
    chunk_size: int = LARGEST_OUTGOING_CHUNK_SIZE
    #: Other servers that get the streams.
    destinations: tuple[DestinationSettings, ...] = ()
    #: Which streams are recorded, and where to.
    recording: RecordingSettings = attrs.field(factory=RecordingSettings)
    #: Status, metrics, control and live media over HTTP.
    http: HttpSettings = attrs.field(factory=HttpSettings)
    #: The file that destinations which are to last are written to.
    relay_config: str | None = None
    #: Where events are written to, as lines of JSON.
    event_log: EventLogSettings = attrs.field(factory=EventLogSettings)
    #: Who says who may publish and play; all of them must allow it. Without any, everybody may.
    authorizers: tuple[IStreamAuthorizer, ...] = ()
    #: Who else is told what happens.
    hooks: tuple[IEventSink, ...] = ()
    connection_limits: ConnectionLimits = attrs.field(factory=ConnectionLimits)
    stream_limits: StreamLimits = attrs.field(factory=StreamLimits)
    queue_limits: QueueLimits = attrs.field(factory=QueueLimits)
    #: The most seconds that a frame waits to be joined with others, on a server with much to deliver; 0 for never.
    merge_window: float = attrs.field(default=0.04, validator=_check_merge_window)
    admission_limits: AdmissionLimits = attrs.field(factory=AdmissionLimits)
    #: Kilobits a second of one publisher, on average over ten seconds; None for no bound.
    max_publisher_kbps: int | None = None
    #: Seconds between two reports on what goes through a connection.
    statistics_interval: float = 30.0


def http_description(text: str) -> str:
    """The same for HTTP. It shows a lot, and may be told what to do: without a host it is for this machine only."""
    return listen_description(text, default_host="127.0.0.1")


def listen_description(text: str, default_host: str = "") -> str:
    """A Twisted endpoint description from what an operator wrote: that, or `1935`, `:1935`, `HOST:1935`."""
    if text.isdecimal():
        text = f":{text}"
    short = _SHORT_FORM.fullmatch(text)
    if short is None or short["host"] in _ENDPOINT_TYPES:
        described = _DESCRIBED_PORT.match(text)
        if described is not None:
            _port(described["port"])
        return _with_backlog(text)
    port = _port(short["port"])
    host = short["host"].strip("[]") or default_host
    interface = f":interface={_escape(host)}" if host else ""
    return _with_backlog(f"tcp:{port}{interface}")


def _port(text: str) -> int:
    if not text.isdecimal() or len(text) > 5 or int(text) > 65535:
        raise ConfigError(f"{text} is not a port: 0 to 65535 are")
    return int(text)


def _escape(host: str) -> str:
    return host.replace(":", r"\:")


def _with_backlog(description: str) -> str:
    if description.startswith(("tcp:", "tcp6:", "ssl:")) and ":backlog=" not in description:
        return f"{description}:backlog={_BACKLOG}"
    return description


def merge_window(text: str) -> float:
    """The longest merge window in seconds, from `0` or a duration such as `40ms`."""
    try:
        seconds = 0.0 if text == "0" else read_duration(text, least=0)
    except ConfigError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_MERGE_WINDOW_MS / 1000:
        raise ConfigError(
            f"{quoted(text)} is not a time from 0 to {LONGEST_MERGE_WINDOW_MS}ms: write 0, or a duration such as 40ms"
        )
    return seconds


def chunk_size(text: str) -> int:
    """The size of outgoing chunks from what an operator wrote."""
    smallest, largest = SMALLEST_OUTGOING_CHUNK_SIZE, LARGEST_OUTGOING_CHUNK_SIZE
    if not text.isdecimal() or len(text) > 5 or not smallest <= int(text) <= largest:
        raise ConfigError(f"{text!r} is not a number of bytes from {smallest} to {largest}")
    return int(text)
