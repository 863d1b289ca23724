"""Events of one RTMP connection or HTTP viewer: its life, and the streams that it publishes and plays."""

from __future__ import annotations

import attrs
from typing_extensions import override

from rtmprelay.events.base import Event, Level


@attrs.frozen(kw_only=True)
class ConnectionEvent(Event):
    """About one connection."""

    connection: str


@attrs.frozen(kw_only=True)
class ConnectionOpened(ConnectionEvent):
    """A client connected."""

    name = "connection_opened"
    level = "debug"
    sentence = "Connection {connection} accepted from {peer}"
    peer: str


@attrs.frozen(kw_only=True)
class HandshakeCompleted(ConnectionEvent):
    """A client completed the RTMP handshake."""

    name = "handshake_completed"
    level = "debug"
    sentence = "Handshake of {connection} completed ({form})"
    form: str


@attrs.frozen(kw_only=True)
class ClientConnected(ConnectionEvent):
    """A client connected to an application (the RTMP command `connect`)."""

    name = "connect"
    level = "debug"
    sentence = "connect of {connection} to application {app!r} ({client})"
    #: The client's address. Behind a proxy it is not known yet when the connection is opened.
    peer: str
    app: str
    client: str


@attrs.frozen(kw_only=True)
class ConnectRefused(ConnectionEvent):
    """A client was not allowed to connect to an application."""

    name = "connect_refused"
    level = "warn"
    sentence = "connect of {connection} from {peer} to application {app!r} refused: {reason} ({others} more)"
    #: The client's address.
    peer: str
    app: str
    reason: str
    #: Refusals of this kind to the same address since the last event, besides this one. One event a second is published.
    others: int = 0


@attrs.frozen(kw_only=True)
class MessageStreamCreated(ConnectionEvent):
    """A client created a message stream (the RTMP command `createStream`)."""

    name = "create_stream"
    level = "debug"
    sentence = "createStream of {connection}: message stream {message_stream}"
    message_stream: int


@attrs.frozen(kw_only=True)
class CommandIgnored(ConnectionEvent):
    """A client sent a command that the server does not know."""

    name = "command_ignored"
    level = "debug"
    sentence = "{connection} sent the unknown command {command!r}"
    command: str


@attrs.frozen(kw_only=True)
class ConnectionClosed(ConnectionEvent):
    """A client disconnected or was disconnected."""

    name = "connection_closed"
    sentence = "Connection {connection} closed after {duration:.1f} s: {reason}"
    peer: str
    reason: str
    #: The limit that the client exceeded, if that was the reason.
    limit: str | None
    duration: float
    bytes_in: int
    bytes_out: int
    #: Whether the relay cut the connection because the client broke the protocol or a limit.
    broke_protocol: bool = False

    @override
    def log_level(self) -> Level:
        return "info" if self.broke_protocol or self.limit is not None else "debug"


@attrs.frozen(kw_only=True)
class StreamEvent(ConnectionEvent):
    """About a connection and the stream that it publishes or plays."""

    stream: str


@attrs.frozen(kw_only=True)
class PublishEvent(StreamEvent):
    """About a publisher."""


@attrs.frozen(kw_only=True)
class PublishStarted(PublishEvent):
    """A stream is live."""

    name = "publish_started"
    sentence = "publish of {stream} by {connection} started"


@attrs.frozen(kw_only=True)
class PublishRefused(PublishEvent):
    """A client was not allowed to publish."""

    name = "publish_refused"
    level = "warn"
    sentence = "publish of {stream} by {connection} from {peer} refused: {reason} ({others} more)"
    #: The client's address.
    peer: str
    reason: str
    #: Refusals of this kind to the same address since the last event, besides this one. One event a second is published.
    others: int = 0


@attrs.frozen(kw_only=True)
class PublishStopped(PublishEvent):
    """A stream is no longer live. `clean` is true when the publisher ended it, and false when the publisher was lost."""

    name = "publish_stopped"
    sentence = "publish of {stream} by {connection} stopped after {duration:.1f} s: {reason}"
    reason: str
    clean: bool
    duration: float
    messages: int
    bytes: int


@attrs.frozen(kw_only=True)
class CodecDetected(PublishEvent):
    """The codecs of a stream are known from its first messages."""

    name = "codec_detected"
    sentence = "Codec detected in {stream}: video {video}, audio {audio}"
    #: The same as `stream`, under the name that older log readers look for.
    stream_key: str
    video: str | None
    audio: str | None


@attrs.frozen(kw_only=True)
class PlayEvent(StreamEvent):
    """About a player."""


@attrs.frozen(kw_only=True)
class PlayStarted(PlayEvent):
    """A player was added to a stream."""

    name = "play_started"
    sentence = "Player added: play of {stream} by {connection} started"
    #: How the stream is watched: rtmp, flv, mp4 or hls.
    protocol: str = "rtmp"


@attrs.frozen(kw_only=True)
class PlayRefused(PlayEvent):
    """A client was not allowed to play, or could not."""

    name = "play_refused"
    sentence = "play of {stream} by {connection} from {peer} refused: {reason} ({others} more)"
    #: The client's address.
    peer: str
    reason: str
    #: Refusals of this kind to the same address since the last event, besides this one. One event a second is published.
    others: int = 0


@attrs.frozen(kw_only=True)
class PlayStopped(PlayEvent):
    """A player left a stream."""

    name = "play_stopped"
    sentence = "play of {stream} by {connection} stopped after {duration:.1f} s ({messages} frames, {dropped} dropped)"
    duration: float
    messages: int
    bytes: int
    dropped: int
    dropped_by_reason: dict[str, int]
    #: Whether the viewer, the network or the server ended it, and why.
    reason: str = "the viewer left"
    #: How often the player took less than was sent to it for more than a second, and for how long in all.
    stalls: int = 0
    stalled_seconds: float = 0.0
    #: How the stream was watched: rtmp, flv, mp4 or hls.
    protocol: str = "rtmp"
    #: Reported by players of HLS (CMCD): seconds to the first picture, and the throughput that they measured.
    startup: float | None = None
    throughput_kbps: int | None = None


@attrs.frozen(kw_only=True)
class MediaStatistics(StreamEvent):
    """What a publisher sent or a player received since the last event of this kind."""

    name = "media_statistics"
    level = "debug"
    sentence = "{role} {connection} of {stream}: {kbps:.0f} kbit/s, {messages} frames, {dropped} dropped, {queued} queued"
    role: str
    seconds: float
    kbps: float
    messages: int
    bytes: int
    dropped: int
    queued: int
    stalls: int = 0
    stalled_seconds: float = 0.0
    #: Measured by a player of HLS (CMCD).
    throughput_kbps: int | None = None
