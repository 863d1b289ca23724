"""The harness of sessions: in memory, without transports and clocks.

`SessionPair` joins a client session and a server session and lets them talk. `ScriptedClient` talks to a server session
and `ScriptedServer` to a client session: they do the handshake, and after it they send exactly what a test says, which
may be wrong in any way.
"""

from __future__ import annotations

from typing import TypeVar

from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.session.client import ClientSession
from rtmprelay.session.lifecycle import Phase
from rtmprelay.session.reports import (
    ConnectAccepted,
    ConnectRequested,
    MediaReceived,
    PlayRequested,
    PublishRequested,
    SessionReport,
)
from rtmprelay.session.server import ServerSession
from rtmprelay.wire import commands
from rtmprelay.wire.chunk_writer import ChunkWriter
from rtmprelay.wire.chunks import ChunkReader, RawMessage
from rtmprelay.wire.handshake import ClientHandshake, ServerHandshake
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.messages import Command, Message, UserControl, UserControlType, from_raw, to_raw

_R = TypeVar("_R")

AUDIO = MediaFrame(MediaKind.AUDIO, 10, b"\xaf\x01audio")
VIDEO = MediaFrame(MediaKind.VIDEO, 20, b"\x17\x01video")


def only(reports: list[SessionReport], kind: type[_R]) -> _R:
    """The one report of this kind."""
    (found,) = [report for report in reports if isinstance(report, kind)]
    return found


def frames_of(reports: list[SessionReport]) -> list[MediaFrame]:
    """All media in these reports."""
    return [frame for report in reports if isinstance(report, MediaReceived) for frame in report.frames]


def phase_of(session: ServerSession) -> Phase:
    return session._connection.state.phase


def media(frame: MediaFrame, stream_id: int = 1) -> RawMessage:
    """A frame as a message."""
    return RawMessage(frame.kind, frame.timestamp_ms, stream_id, frame.payload)


def call(name: str, transaction_id: float, *arguments: object, stream_id: int = 0) -> Command:
    """A command whose arguments may be wrong."""
    return Command(name, transaction_id, None, arguments, stream_id)  # type: ignore[arg-type]


def code_of(message: Message) -> object:
    """What matters of a message: the status code, the event with its value, or else the name."""
    if isinstance(message, UserControl):
        return UserControlType(message.event).name, message.value
    if isinstance(message, Command):
        return commands.status_of(message)[1] or message.name
    return type(message).__name__


class _Script:
    """What both scripted sides share: messages become bytes, each type on a chunk stream of its own, and back."""

    def __init__(self) -> None:
        self.writer = ChunkWriter()
        #: All bytes that the session has sent.
        self.written = b""
        self._reader = ChunkReader()

    def encode(self, *messages: Message | RawMessage) -> bytes:
        raws = [item if isinstance(item, RawMessage) else to_raw(item) for item in messages]
        return b"".join(self.writer.encode(raw, 3 + raw.type_id) for raw in raws)

    def decode(self, data: bytes) -> list[Message]:
        self.written += data
        messages = [from_raw(raw) for raw in self._reader.feed(data)]
        return [message for message in messages if message is not None]


class ScriptedClient(_Script):
    """A client of a server session."""

    def __init__(
        self, *, limits: ConnectionLimits | None = None, use_digest: bool = False, shake: bool = True
    ) -> None:
        super().__init__()
        self.now = 0.0
        self.session = ServerSession(self.now, limits)
        self.handshake = ClientHandshake(use_digest=use_digest)
        self.first_reports = self.shake_hands() if shake else []

    def shake_hands(self) -> list[SessionReport]:
        """Do the whole handshake."""
        reports = self.feed(self.handshake.bytes_to_send())
        self.handshake.feed(self.session.bytes_to_send())
        reports += self.feed(self.handshake.bytes_to_send())
        assert self.handshake.done
        return reports

    def feed(self, data: bytes) -> list[SessionReport]:
        """Bytes arrive at the server."""
        return self.session.receive_data(data, self.now)

    def send(self, *messages: Message | RawMessage) -> list[SessionReport]:
        """Messages arrive at the server in one read."""
        return self.feed(self.encode(*messages))

    def received(self) -> list[Message]:
        """The messages that the server has sent since the last time."""
        return self.decode(self.session.bytes_to_send())

    def received_codes(self) -> list[object]:
        """The codes of the messages that the server has sent since the last time."""
        return [code_of(message) for message in self.received()]

    def connect(self, app: str = "live", **properties: str) -> None:
        """Send connect, have it accepted, and drop the answer."""
        reports = self.send(Command("connect", 1.0, {"app": app, **properties}))
        self.session.accept(only(reports, ConnectRequested).request_id)
        self.received()

    def publish(self, stream_id: int = 1, name: str = "cam") -> None:
        """Send publish, have it accepted, and drop the answer."""
        reports = self.send(call("publish", 0, name, "live", stream_id=stream_id))
        self.session.accept(only(reports, PublishRequested).request_id)
        self.received()

    def play(self, stream_id: int = 1, name: str = "cam") -> None:
        """Send play, have it accepted, and drop the answer."""
        reports = self.send(call("play", 0, name, stream_id=stream_id))
        self.session.accept(only(reports, PlayRequested).request_id)
        self.received()


def connected_client(limits: ConnectionLimits | None = None) -> ScriptedClient:
    """A client whose connect has been accepted."""
    client = ScriptedClient(limits=limits)
    client.connect()
    return client


class ScriptedServer(_Script):
    """A server of a client session."""

    def __init__(self) -> None:
        super().__init__()
        self.session = ClientSession("live", "rtmp://host/live", use_digest=False)
        handshake = ServerHandshake()
        handshake.feed(self.session.bytes_to_send())
        self.first_reports = self.session.receive_data(handshake.bytes_to_send(), 0.0)
        handshake.feed(self.session.bytes_to_send())
        self._first = handshake.leftover

    def received(self) -> list[Command]:
        """The commands that the client has sent since the last time."""
        data, self._first = self._first + self.session.bytes_to_send(), b""
        return [message for message in self.decode(data) if isinstance(message, Command)]

    def send(self, *messages: Message | RawMessage) -> list[SessionReport]:
        """Messages arrive at the client in one read."""
        return self.session.receive_data(self.encode(*messages), 0.0)


def connected_server() -> ScriptedServer:
    """A server that has accepted connect."""
    server = ScriptedServer()
    (connect,) = server.received()
    assert server.send(commands.result(connect.transaction_id)) == [ConnectAccepted()]
    return server


class SessionPair:
    """A client session and a server session that talk to each other; the reports of both are kept.

    The server accepts every request.
    """

    def __init__(self, app: str = "live", *, use_digest: bool = True) -> None:
        self.client = ClientSession(app, f"rtmp://host/{app}", use_digest=use_digest)
        self.server = ServerSession(0.0)
        self.client_reports: list[SessionReport] = []
        self.server_reports: list[SessionReport] = []
        self.run()

    def run(self) -> None:
        """Move bytes, and accept requests, until neither side has anything to send."""
        while True:
            upstream, downstream = self.client.bytes_to_send(), self.server.bytes_to_send()
            if not upstream and not downstream:
                return
            self._at_server(upstream)
            self.client_reports += self.client.receive_data(downstream, 0.0)

    def _at_server(self, data: bytes) -> None:
        reports = self.server.receive_data(data, 0.0)
        self.server_reports += reports
        for report in reports:
            if isinstance(report, ConnectRequested | PublishRequested | PlayRequested):
                self.server.accept(report.request_id)

    def upload(self, frame: MediaFrame) -> None:
        """Media from the client to the server."""
        self.run()
        self._at_server(self.client.send_media(frame))


def request_publish(client: ScriptedClient, name: str = "cam", stream_id: int = 1) -> PublishRequested:
    return only(client.send(call("publish", 0.0, name, "live", stream_id=stream_id)), PublishRequested)
