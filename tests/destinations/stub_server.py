"""A server in memory that accepts what is published, or misbehaves as a test wants."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import (
    ConnectingCancelledError,
    ConnectionAborted,
    ConnectionDone,
    ConnectionLost,
)
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.python.failure import Failure
from zope.interface import implementer

from rtmprelay.flv.script import without_set_data_frame
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.testing import MemoryTransport
from rtmprelay.wire import commands
from rtmprelay.wire.chunk_writer import ChunkWriter
from rtmprelay.wire.chunks import ChunkReader, RawMessage
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.handshake import ServerHandshake
from rtmprelay.wire.messages import Command, Message, from_raw, to_raw

ADDRESS = IPv4Address("TCP", "192.0.2.9", 1935)


class StubConnection:
    """One connection to a stub server, with everything that was received; a test may send anything."""

    def __init__(self, server: StubServer, client: IProtocol) -> None:
        self._server = server
        self._client = client
        #: The transport of the client.
        self.transport = MemoryTransport(ADDRESS)
        self._handshake = ServerHandshake()
        self._reader = ChunkReader()
        self._writer = ChunkWriter()
        #: All messages except media, in order.
        self.messages: list[Message] = []
        #: All media, with message stream, timestamp and envelope.
        self.media: list[RawMessage] = []
        #: The order of everything: names of commands, and "media" for any number of media messages.
        self.order: list[str] = []
        self.lost = False

    @property
    def commands(self) -> list[str]:
        """The names of all commands."""
        return [message.name for message in self.messages if isinstance(message, Command)]

    @property
    def frames(self) -> list[MediaFrame]:
        """All media, without the envelope of metadata."""
        return [
            MediaFrame(MediaKind(raw.type_id), raw.timestamp, without_set_data_frame(raw.payload))
            for raw in self.media
        ]

    def command(self, name: str) -> Command:
        """The only command of this name."""
        (found,) = [
            message for message in self.messages if isinstance(message, Command) and message.name == name
        ]
        return found

    def say(self, *messages: Message) -> None:
        """Send messages to the client."""
        data = b"".join(self._writer.encode(to_raw(message), 3) for message in messages)
        self.say_bytes(data)

    def say_bytes(self, data: bytes) -> None:
        """Send bytes to the client."""
        if data and not self.lost:
            self._client.dataReceived(data)

    def close(self, reason: Exception | None = None) -> None:
        """Close the connection without a goodbye."""
        if not self.lost:
            self.lost = True
            self._client.connectionLost(Failure(reason or ConnectionDone()))

    def pump(self) -> bool:
        """Read what the client sent, and answer; whether anything happened."""
        data = b"" if self.lost else self.transport.take()
        if data:
            self._read(data)
            return True
        if self.transport.closed and not self.lost:
            self.close(ConnectionAborted() if self.transport.aborted else ConnectionDone())
            return True
        return False

    def _read(self, data: bytes) -> None:
        if self._server.greets_with is not None:
            self.say_bytes(self._server.greets_with)
            return
        if not self._handshake.done:
            if self._server.deaf:
                return
            self._handshake.feed(data)
            self.say_bytes(self._handshake.bytes_to_send())
            data = self._handshake.leftover if self._handshake.done else b""
        for raw in self._reader.feed(data):
            if raw.type_id in (8, 9, 18):
                self.media.append(raw)
                if self.order[-1:] != ["media"]:
                    self.order.append("media")
                continue
            message = from_raw(raw)
            assert message is not None
            self.messages.append(message)
            if isinstance(message, Command):
                self.order.append(message.name)
                self.say(*self._server.answer(self, message))


@implementer(IStreamClientEndpoint)
class StubServer:
    """A server that accepts what is published, or misbehaves as a test wants; also the endpoint that leads to it."""

    def __init__(self) -> None:
        self.connections: list[StubConnection] = []
        self.attempts = 0
        #: Why every attempt to connect fails; None if it succeeds.
        self.failure: Exception | None = None
        #: Attempts to connect are neither answered nor refused.
        self.black_hole = False
        self.cancelled = 0
        #: Whether it ignores even the handshake.
        self.deaf = False
        #: What it sends instead of RTMP.
        self.greets_with: bytes | None = None
        #: Commands that get no answer.
        self.silent_about: set[str] = set()
        self.stream_id = 1
        #: The code and description of the answer that refuses `publish`, and the level of that answer.
        self.refuse_publish: tuple[str, str] | None = None
        self.refusal_level = "error"
        #: Returns the description of the answer that refuses a `connect`; None accepts it.
        self.refuse_connect: Callable[[Command], str | None] = lambda command: None

    @property
    def last(self) -> StubConnection:
        """The newest connection."""
        return self.connections[-1]

    @property
    def open_connections(self) -> list[StubConnection]:
        return [connection for connection in self.connections if not connection.lost]

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:  # noqa: N803
        """Connect, as an endpoint does."""
        self.attempts += 1
        if self.failure is not None:
            return fail(self.failure)
        if self.black_hole:
            return Deferred(self._count_cancellation)
        client = protocolFactory.buildProtocol(ADDRESS)
        assert client is not None
        connection = StubConnection(self, client)
        self.connections.append(connection)
        client.makeConnection(connection.transport)
        return succeed(client)

    def _count_cancellation(self, attempt: Deferred[IProtocol]) -> None:
        self.cancelled += 1
        # As Twisted's endpoints do.
        attempt.errback(ConnectingCancelledError(ADDRESS))

    def answer(self, connection: StubConnection, command: Command) -> list[Message]:
        """The answer to a command."""
        if command.name in self.silent_about:
            return []
        match command.name:
            case "connect":
                description = self.refuse_connect(command)
                if description is not None:
                    return [commands.error(command.transaction_id, StatusCode.CONNECT_REJECTED, description)]
                return [commands.result(command.transaction_id, None, {"code": StatusCode.CONNECT_SUCCESS})]
            case "createStream":
                return [commands.result(command.transaction_id, None, float(self.stream_id))]
            case "publish":
                if self.refuse_publish is not None:
                    return [commands.on_status(command.stream_id, self.refusal_level, *self.refuse_publish)]
                return [commands.on_status(command.stream_id, "status", StatusCode.PUBLISH_START, "go on")]
            case "play":
                return [commands.on_status(command.stream_id, "status", StatusCode.PLAY_START, "here it is")]
        return []

    def pump(self) -> bool:
        """Let everything arrive that was sent; whether anything was."""
        moved = [connection.pump() for connection in self.connections]
        return any(moved)

    def lose_all(self) -> None:
        """Lose all connections, as when the network fails."""
        for connection in self.connections:
            connection.close(ConnectionLost())
