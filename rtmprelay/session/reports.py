"""What a session reports to its caller. A server's session and a client's one report different things."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.secret import Secret
from rtmprelay.wire.names import StreamKey


@attrs.frozen
class HandshakeDone:
    """The handshake is complete; `digest` says whether it had the form with digests."""

    digest: bool


@attrs.frozen
class MediaReceived:
    """Media frames that arrived together on one message stream, in order."""

    stream_id: int
    frames: list[MediaFrame]


# -- reports of a server's session ---------------------------------------------------------------------------


@attrs.frozen
class ConnectRequested:
    """A client wants to use an application: answer with `accept` or `reject`."""

    request_id: int
    app: str
    #: The name of the client's software, for the log.
    client: str
    credentials: Secret
    #: Whether the client understands a request to reconnect.
    can_reconnect: bool = False
    #: The pass of another relay that fetches from here; empty for all other clients.
    node_pass: Secret = attrs.field(factory=lambda: Secret(""))


@attrs.frozen
class StreamCreated:
    """A client created a message stream."""

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
class StreamNameRefused:
    """A client asked for a stream under a name that no stream can have, such as none at all."""

    app: str
    #: The status code with which it was refused.
    code: str
    reason: str


@attrs.frozen
class PlayRequested:
    """A client wants to play: answer with `accept` or `reject`."""

    request_id: int
    stream_id: int
    key: StreamKey
    credentials: Secret


@attrs.frozen
class PublishEnded:
    """A client ended its publish, or cancelled its request for one, on purpose."""

    stream_id: int


@attrs.frozen
class PlayEnded:
    """A client ended its play, or cancelled its request for one."""

    stream_id: int


@attrs.frozen
class PlayPaused:
    """A player paused or resumed."""

    stream_id: int
    paused: bool


@attrs.frozen
class ReceptionChanged:
    """A player switched one kind of media on or off."""

    stream_id: int
    kind: MediaKind
    wanted: bool


@attrs.frozen
class CommandNotUnderstood:
    """A client sent a command that is not known; it has been answered."""

    name: str


# -- reports of a client's session ---------------------------------------------------------------------------


@attrs.frozen
class ConnectAccepted:
    """The server accepted our `connect`."""


@attrs.frozen
class PublishAccepted:
    """The server is ready for our media on this message stream."""

    stream_id: int


@attrs.frozen
class PlayAccepted:
    """The server will send media on this message stream."""

    stream_id: int


@attrs.frozen
class StatusReceived:
    """A notice of the server: an `onStatus` or a refusal."""

    level: str
    code: str
    description: str


SessionReport: TypeAlias = (
    HandshakeDone
    | ConnectRequested
    | StreamCreated
    | PublishRequested
    | StreamNameRefused
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
