"""What a session reports to the one that drives it."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.secret import Secret
from rtmprelay.wire.names import StreamKey


@attrs.frozen
class HandshakeDone:
    """The handshake is over; `digest` tells which form it had."""

    digest: bool


@attrs.frozen
class ConnectRequested:
    """A client wants to use an application: answer with `accept` or `reject`."""

    request_id: int
    app: str
    #: What the client calls itself, for the log.
    client: str
    credentials: Secret


@attrs.frozen
class StreamCreated:
    """A client made a message stream."""

    stream_id: int


@attrs.frozen
class PublishRequested:
    """A client wants to publish: answer with `accept` or `reject`.

    Its media is reported from now on, because some encoders do not wait for the answer.
    """

    request_id: int
    stream_id: int
    key: StreamKey
    credentials: Secret


@attrs.frozen
class PlayRequested:
    """A client wants to play: answer with `accept` or `reject`."""

    request_id: int
    stream_id: int
    key: StreamKey
    credentials: Secret


@attrs.frozen
class PublishEnded:
    """A client ended its publish, or took back the wish for one, on purpose."""

    stream_id: int


@attrs.frozen
class PlayEnded:
    """A client does not want to play any more."""

    stream_id: int


@attrs.frozen
class PlayPaused:
    """A player paused, or goes on."""

    stream_id: int
    paused: bool


@attrs.frozen
class ReceptionChanged:
    """A player does or does not want one kind of media."""

    stream_id: int
    kind: MediaKind
    wanted: bool


@attrs.frozen
class MediaReceived:
    """Media frames that came in together on one message stream, in order."""

    stream_id: int
    frames: list[MediaFrame]


@attrs.frozen
class CommandNotUnderstood:
    """A command that this side does not know; it has been answered."""

    name: str


@attrs.frozen
class ConnectAccepted:
    """(Client side) The server took our `connect`."""


@attrs.frozen
class PublishAccepted:
    """(Client side) The server is ready for our media on this message stream."""

    stream_id: int


@attrs.frozen
class PlayAccepted:
    """(Client side) The server will send media on this message stream."""

    stream_id: int


@attrs.frozen
class StatusReceived:
    """(Client side) News from the server: an `onStatus`, a refusal, or the end or begin of a stream."""

    level: str
    code: str
    description: str


SessionReport: TypeAlias = (
    HandshakeDone
    | ConnectRequested
    | StreamCreated
    | PublishRequested
    | PlayRequested
    | PublishEnded
    | PlayEnded
    | PlayPaused
    | ReceptionChanged
    | MediaReceived
    | CommandNotUnderstood
    | ConnectAccepted
    | PublishAccepted
    | PlayAccepted
    | StatusReceived
)
