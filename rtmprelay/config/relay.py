"""The configuration of a relay, and the parsers of single option values."""

from __future__ import annotations

import re

import attrs
from twisted.internet.endpoints import serverFromString

from rtmprelay.access.guessing import Ban, GuessLimits
from rtmprelay.cluster.settings import ClusterSettings
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.drain import DRAIN_FOR
from rtmprelay.errors import ConfigError
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.interfaces import IEventSink, IStreamAuthorizer
from rtmprelay.outputs.hls.settings import HlsLimits, HlsSettings
from rtmprelay.pulls.settings import PullSettings
from rtmprelay.quantities import quoted, read_duration
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.rtmp.admission import AdmissionLimits
from rtmprelay.streams.limits import QueueLimits, StreamLimits
from rtmprelay.streams.memory_budget import MemoryLimits
from rtmprelay.web.settings import HttpSettings
from rtmprelay.wire.limits import (
    LARGEST_OUTGOING_CHUNK_SIZE,
    SMALLEST_OUTGOING_CHUNK_SIZE,
    ConnectionLimits,
)

DEFAULT_LISTEN = "tcp:1935"

#: Connections that the kernel queues until they are accepted. Twisted's default of 50 overflows when an audience arrives.
_BACKLOG = 1024

_SHORT_FORM = re.compile(r"(?P<host>\[[^\]]+\]|[^:/=]*):(?P<port>\d+)")

#: `tcp:1935` looks like `HOST:PORT` and is a Twisted endpoint description.
_ENDPOINT_TYPES = frozenset({"tcp", "tcp6", "ssl", "unix"})

#: A host without a port, which people write for `--listen`.
_HOST = re.compile(r"[A-Za-z0-9.-]+")

#: A longer window saves nothing more, and viewers notice the delay.
LONGEST_MERGE_WINDOW_MS = 1000

#: The port in an endpoint description: Twisted does not check it before it opens the port.
_DESCRIBED_PORT = re.compile(r"(?:tcp6?|ssl):(?:port=)?(?P<port>-?\d+)(?::|$)")


def _check_merge_window(config: RelayConfig, field: attrs.Attribute[float], seconds: float) -> None:
    if not 0 <= seconds <= LONGEST_MERGE_WINDOW_MS / 1000:
        raise ConfigError(
            f"{field.name} is a number of seconds from 0 to {LONGEST_MERGE_WINDOW_MS / 1000:g}, not {seconds}"
        )


@attrs.frozen
class RelayConfig:
    """Everything that can be configured in a `RelayService`."""

    #: Where to listen, as Twisted endpoint descriptions.
    listen: tuple[str, ...] = (DEFAULT_LISTEN,)
    #: The size of outgoing chunks, in bytes.
    chunk_size: int = LARGEST_OUTGOING_CHUNK_SIZE
    #: Other servers that get the streams.
    destinations: tuple[DestinationSettings, ...] = ()
    #: Streams that are fetched from other servers for those who want them here.
    pulls: tuple[PullSettings, ...] = ()
    #: The name of this relay among others; None for a random one.
    node_name: str | None = None
    #: The cluster that this relay is a node of.
    cluster: ClusterSettings | None = None
    #: Seconds over which clients are sent away when the relay is drained.
    drain_for: float = DRAIN_FOR
    #: Which streams are recorded, and where to.
    recording: RecordingSettings = attrs.field(factory=RecordingSettings)
    #: Status, metrics, control and live media over HTTP.
    http: HttpSettings = attrs.field(factory=HttpSettings)
    #: Whether it is meant that anybody may publish: then nobody is warned of it.
    open: bool = False
    #: What else the operator should know: logged once at the start, and shown in /health and on the page.
    warnings: tuple[str, ...] = ()
    #: Which streams can be watched as HLS, and how.
    hls: HlsSettings = attrs.field(factory=HlsSettings)
    #: The file that changes of destinations through the HTTP API are saved to.
    relay_config: str | None = None
    #: Where events are written to, as lines of JSON.
    event_log: EventLogSettings = attrs.field(factory=EventLogSettings)
    #: Decide who may publish and play: all of them must allow it. Without authorizers everybody may.
    authorizers: tuple[IStreamAuthorizer, ...] = ()
    #: Get every event.
    hooks: tuple[IEventSink, ...] = ()
    connection_limits: ConnectionLimits = attrs.field(factory=ConnectionLimits)
    stream_limits: StreamLimits = attrs.field(factory=StreamLimits)
    queue_limits: QueueLimits = attrs.field(factory=QueueLimits)
    #: The longest that a frame may wait to be sent together with others under load, in seconds; 0 switches merging off.
    merge_window: float = attrs.field(default=0.04, validator=_check_merge_window)
    admission_limits: AdmissionLimits = attrs.field(factory=AdmissionLimits)
    memory_limits: MemoryLimits = attrs.field(factory=MemoryLimits)
    guess_limits: GuessLimits = attrs.field(factory=GuessLimits)
    #: Seconds after which the authorizers are asked again about those who publish and play; None for never.
    recheck: float | None = None
    #: Addresses that send too many wrong keys, passwords and tokens are shut out for a while; None for never.
    ban: Ban | None = None
    hls_limits: HlsLimits = attrs.field(factory=HlsLimits)
    #: The highest bitrate of one publisher in kilobits per second, averaged over ten seconds; None for no limit.
    max_publisher_kbps: int | None = None
    #: Seconds between two statistics events of a connection.
    statistics_interval: float = 30.0


def is_tls(description: str) -> bool:
    """Whether a listener speaks TLS, as far as its endpoint description tells."""
    return description.removeprefix("haproxy:").startswith(("ssl:", "tls:"))


def http_description(text: str) -> str:
    """The endpoint description for HTTP. Without a host it is loopback: HTTP shows a lot and allows changes."""
    return listen_description(text, default_host="127.0.0.1")


def listen_description(text: str, default_host: str = "") -> str:
    """The endpoint description for an endpoint description or a short form: `1935`, `:1935`, `HOST:1935`."""
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
    interface = ":interface=" + host.replace(":", r"\:") if host else ""
    return _with_backlog(f"tcp:{port}{interface}")


def usable_listener(text: str) -> str:
    """The endpoint description for `--listen`, checked as far as that is possible without opening the port."""
    return _usable(text, listen_description(text))


def usable_http_listener(text: str) -> str:
    """The same for `--http-status`, which is for this machine if no host is given."""
    return _usable(text, http_description(text))


def _usable(text: str, description: str) -> str:
    """Check an endpoint description as far as that is possible without opening the port."""
    from twisted.internet import reactor

    try:
        serverFromString(reactor, description)
    except (IndexError, KeyError) as error:
        if not description.startswith("systemd:"):
            raise ConfigError(f"{text!r} is not an endpoint to listen on: {error}") from error
        raise ConfigError(f"{text!r}: systemd has opened no socket with this index or name") from error
    except Exception as error:
        reason = str(error) or type(error).__name__
        if isinstance(error, OSError) and error.filename:
            reason = f"{error.filename!r} cannot be read: {error.strerror}"
        elif reason.startswith("Unknown endpoint type") or isinstance(error, ValueError):
            meant = f" (did you mean {text}:1935?)" if _HOST.fullmatch(text) else ""
            reason = f"write a port, HOST:PORT, or a Twisted endpoint description such as tcp:1935{meant}"
        raise ConfigError(f"{text!r} is not an endpoint to listen on: {reason}") from error
    return description


def _port(text: str) -> int:
    if not text.isdecimal() or len(text) > 5 or int(text) > 65535:
        raise ConfigError(f"{text} is not a port: a number from 0 to 65535 is expected")
    return int(text)


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
    """The size of outgoing chunks, from the text of the option."""
    smallest, largest = SMALLEST_OUTGOING_CHUNK_SIZE, LARGEST_OUTGOING_CHUNK_SIZE
    if not text.isdecimal() or len(text) > 5 or not smallest <= int(text) <= largest:
        raise ConfigError(f"{text!r} is not a number of bytes from {smallest} to {largest}")
    return int(text)
