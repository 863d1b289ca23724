"""Two ways to talk to a server session in memory: a client session, and a client that says whatever a test wants."""

from __future__ import annotations

from typing import TypeVar

from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import (
    ConnectRequested,
    MediaReceived,
    PlayRequested,
    PublishRequested,
    SessionReport,
)
from rtmprelay.session.server import ServerSession
from rtmprelay.wire.chunk_writer import ChunkWriter
from rtmprelay.wire.chunks import ChunkReader, RawMessage
from rtmprelay.wire.commands import status_of
from rtmprelay.wire.handshake import ClientHandshake
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.messages import Command, Message, UserControl, UserControlType, from_raw, to_raw

_E = TypeVar("_E")

AUDIO = MediaFrame(MediaKind.AUDIO, 10, b"\xaf\x01audio")
VIDEO = MediaFrame(MediaKind.VIDEO, 20, b"\x17\x01video")


def only(events: list[SessionReport], kind: type[_E]) -> _E:
    """The one event of this kind."""
    (found,) = [event for event in events if isinstance(event, kind)]
    return found


def frames_of(events: list[SessionReport]) -> list[MediaFrame]:
    """All media in these events."""
    return [frame for event in events if isinstance(event, MediaReceived) for frame in event.frames]


def media(frame: MediaFrame, stream_id: int = 1) -> RawMessage:
    """A frame as a message."""
    return RawMessage(frame.kind, frame.timestamp_ms, stream_id, frame.payload)


def call(name: str, transaction_id: float, *arguments: object, stream_id: int = 0) -> Command:
    """A command whose arguments need not make sense."""
    return Command(name, transaction_id, None, arguments, stream_id)  # type: ignore[arg-type]


def brief(message: Message) -> object:
    """The part of an answer that matters: the status code, the event, or else the name."""
    if isinstance(message, UserControl):
        return UserControlType(message.event).name, message.value
    if isinstance(message, Command):
        return status_of(message)[1] or message.name
    return type(message).__name__


class HandMadeClient:
    """Shakes hands, and from there on sends exactly what it is told to."""

    def __init__(
        self, *, limits: ConnectionLimits | None = None, use_digest: bool = False, shake: bool = True
    ) -> None:
        self.now = 0.0
        self.session = ServerSession(self.now, limits)
        self.writer = ChunkWriter()
        self.written = b""
        self._reader = ChunkReader()
        self._handshake = ClientHandshake(use_digest=use_digest)
        self.first_events = self.shake_hands() if shake else []

    def shake_hands(self) -> list[SessionReport]:
        """Do the whole handshake."""
        events = self.feed(self._handshake.bytes_to_send())
        self._handshake.feed(self.session.bytes_to_send())
        events += self.feed(self._handshake.bytes_to_send())
        assert self._handshake.done
        return events

    def feed(self, data: bytes) -> list[SessionReport]:
        """Bytes arrive at the server."""
        return self.session.receive_data(data, self.now)

    def encode(self, *messages: Message | RawMessage) -> bytes:
        """Messages as bytes; each kind on a chunk stream of its own."""
        raws = [item if isinstance(item, RawMessage) else to_raw(item) for item in messages]
        return b"".join(self.writer.encode(raw, 3 + raw.type_id) for raw in raws)

    def send(self, *messages: Message | RawMessage) -> list[SessionReport]:
        """Messages arrive at the server in one read."""
        return self.feed(self.encode(*messages))

    def heard(self) -> list[Message]:
        """What the server has said since the last time, understood."""
        written = self.session.bytes_to_send()
        self.written += written
        messages = [from_raw(raw) for raw in self._reader.feed(written)]
        return [message for message in messages if message is not None]

    def heard_briefly(self) -> list[object]:
        """What the server has said since the last time, in short."""
        return [brief(message) for message in self.heard()]

    def connect(self, app: str = "live", **properties: str) -> None:
        """Send connect, have it accepted, and forget the answer."""
        events = self.send(Command("connect", 1.0, {"app": app, **properties}))
        self.session.accept(only(events, ConnectRequested).request_id)
        self.heard()

    def publish(self, stream_id: int = 1, name: str = "cam") -> None:
        """Publish, have it accepted, and forget the answer."""
        events = self.send(call("publish", 0, name, "live", stream_id=stream_id))
        self.session.accept(only(events, PublishRequested).request_id)
        self.heard()

    def play(self, stream_id: int = 1, name: str = "cam") -> None:
        """Play, have it accepted, and forget the answer."""
        events = self.send(call("play", 0, name, stream_id=stream_id))
        self.session.accept(only(events, PlayRequested).request_id)
        self.heard()


def connected_client(limits: ConnectionLimits | None = None) -> HandMadeClient:
    """A client behind connect."""
    client = HandMadeClient(limits=limits)
    client.connect()
    return client


class ConversationPair:
    """A client session and a server session, joined; what each of them saw is kept."""

    def __init__(self, app: str = "live", *, use_digest: bool = True, chunk_size: int = 65536) -> None:
        self.client = ClientSession(app, f"rtmp://host/{app}", chunk_size=chunk_size, use_digest=use_digest)
        self.server = ServerSession(0.0)
        self.client_saw: list[SessionReport] = []
        self.server_saw: list[SessionReport] = []
        self.accepting = True
        self.run()

    def run(self) -> None:
        """Move bytes, and accept what is asked for, until nothing moves."""
        while True:
            upstream, downstream = self.client.bytes_to_send(), self.server.bytes_to_send()
            if not upstream and not downstream:
                return
            self._at_server(upstream)
            self.client_saw += self.client.receive_data(downstream, 0.0)

    def _at_server(self, data: bytes) -> None:
        events = self.server.receive_data(data, 0.0)
        self.server_saw += events
        for event in events:
            if self.accepting and isinstance(event, ConnectRequested | PublishRequested | PlayRequested):
                self.server.accept(event.request_id)

    def upload(self, frame: MediaFrame) -> None:
        """Media from the client to the server."""
        self.run()
        self._at_server(self.client.send_media(frame))
