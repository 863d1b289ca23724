"""A relay in memory, servers to relay to that do as they are told, and a clock that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import (
    ConnectingCancelledError,
    ConnectionAborted,
    ConnectionDone,
    ConnectionLost,
)
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from rtmprelay.destinations.failures import RetryPolicy
from rtmprelay.destinations.manager import DestinationManager
from rtmprelay.destinations.outlet import OutletContext
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationStatus, OutletStatus
from rtmprelay.events import Event
from rtmprelay.flv.script import without_set_data_frame
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.rtmp.server_factory import ServerSettings
from rtmprelay.streams.merging import Merging
from rtmprelay.testing import MemoryClient, MemoryEndpoint, MemoryServer, MemoryTransport
from rtmprelay.wire import commands
from rtmprelay.wire.chunk_writer import ChunkWriter
from rtmprelay.wire.chunks import ChunkReader, RawMessage
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.handshake import ServerHandshake
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.messages import Command, Message, from_raw, to_raw
from rtmprelay.wire.url import RtmpUrl

_E = TypeVar("_E", bound=Event)

ADDRESS = IPv4Address("TCP", "192.0.2.9", 1935)


class StubConnection:
    """One connection to a stub server: everything that came over it, and a mouth to say anything."""

    def __init__(self, server: StubServer, client: IProtocol) -> None:
        self._server = server
        self._client = client
        #: The client's end.
        self.transport = MemoryTransport(ADDRESS)
        self._handshake = ServerHandshake()
        self._reader = ChunkReader()
        self._writer = ChunkWriter()
        #: All that came and is no media, in order.
        self.messages: list[Message] = []
        #: All media that came, as messages: with message stream, time and envelope.
        self.media: list[RawMessage] = []
        #: Names of commands, and "media" for a run of media: the order of things.
        self.order: list[str] = []
        self.lost = False

    @property
    def commands(self) -> list[str]:
        """The names of all commands that came."""
        return [message.name for message in self.messages if isinstance(message, Command)]

    @property
    def frames(self) -> list[MediaFrame]:
        """The media that came, without the envelope of metadata."""
        return [
            MediaFrame(MediaKind(raw.type_id), raw.timestamp, without_set_data_frame(raw.payload))
            for raw in self.media
        ]

    def command(self, name: str) -> Command:
        """The one command of this name."""
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
        """The connection goes, without a word."""
        if not self.lost:
            self.lost = True
            self._client.connectionLost(Failure(reason or ConnectionDone()))

    def pump(self) -> bool:
        """Read what waits, and answer; whether anything happened."""
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
    """A server that takes what is published to it, or misbehaves as it is told. It is the way to itself, too."""

    def __init__(self) -> None:
        self.connections: list[StubConnection] = []
        self.attempts = 0
        #: Why it cannot be reached, if so.
        self.failure: Exception | None = None
        #: Attempts to connect are neither answered nor refused.
        self.black_hole = False
        self.cancelled = 0
        #: It reads, and says nothing at all.
        self.deaf = False
        #: What it says instead of RTMP.
        self.greets_with: bytes | None = None
        #: Commands that get no answer.
        self.silent_about: set[str] = set()
        self.stream_id = 1
        #: Code and description of the refusal, if publish is refused, and the level that it is told with.
        self.refuse_publish: tuple[str, str] | None = None
        self.refusal_level = "error"
        #: What refuses a `connect`: the description, or None.
        self.refuse_connect: Callable[[Command], str | None] = lambda command: None

    @property
    def last(self) -> StubConnection:
        """The newest connection."""
        return self.connections[-1]

    @property
    def open_connections(self) -> list[StubConnection]:
        return [connection for connection in self.connections if not connection.lost]

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:  # noqa: N803
        """Somebody wants to connect."""
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
        # This is how Twisted's endpoints put it.
        attempt.errback(ConnectingCancelledError(ADDRESS))

    def answer(self, connection: StubConnection, command: Command) -> list[Message]:
        """What is said to a command."""
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
        """Move what waits; whether anything did."""
        moved = [connection.pump() for connection in self.connections]
        return any(moved)

    def lose_all(self) -> None:
        """The network breaks."""
        for connection in self.connections:
            connection.close(ConnectionLost())


class RelayWorld:
    """A relay, its destinations, and the servers that those lead to, by the name of their host."""

    def __init__(self, merging: Callable[[Clock], Merging] | None = None) -> None:
        self.clock = Clock()
        # Encoders may be silent for as long as a test likes.
        limits = ConnectionLimits(idle_timeout=1e6)
        self.relay = MemoryServer(
            ServerSettings(limits=limits), clock=self.clock, merging=merging(self.clock) if merging else None
        )
        self.stubs: dict[str, StubServer] = {}
        self.servers: dict[str, MemoryServer] = {"relay": self.relay}
        self.endpoints: dict[str, IStreamClientEndpoint] = {}
        self.endpoint_error: Exception | None = None
        self.manager = self.new_manager(self.relay)

    def new_manager(self, server: MemoryServer) -> DestinationManager:
        """The destinations of a server in this world."""
        return DestinationManager(
            OutletContext(
                self.clock,
                self.clock.seconds,
                server.factory.events,
                server.registry,
                self._endpoint_for,
                lambda retries: RetryPolicy(retries, jitter=lambda: 0.0),
            )
        )

    def _endpoint_for(self, url: RtmpUrl, settings: DestinationSettings) -> IStreamClientEndpoint:
        if self.endpoint_error is not None:
            raise self.endpoint_error
        return self.endpoints[url.host]

    # -- who is there ----------------------------------------------------------------------------------------

    def stub(self, host: str = "one") -> StubServer:
        """A server that does as it is told."""
        stub = self.stubs[host] = StubServer()
        self.endpoints[host] = stub
        return stub

    def server(self, host: str) -> MemoryServer:
        """A real server."""
        server = self.servers[host] = MemoryServer(clock=self.clock)
        self.endpoints[host] = MemoryEndpoint(server)
        return server

    def encoder(self, name: str = "cam", app: str = "live") -> MemoryClient:
        """Somebody who publishes to the relay."""
        encoder = self.relay.connect(app)
        encoder.publish(name)
        self.pump()
        return encoder

    def add(self, name: str = "one", url: str = "rtmp://one/live/key", **more: Any) -> None:
        """One more destination."""
        self.manager.add(destination(name, url, **more))
        self.pump()

    # -- what happens ----------------------------------------------------------------------------------------

    def send(self, encoder: MemoryClient, *frames: MediaFrame) -> None:
        """An encoder sends frames, which go as far as they can."""
        encoder.send(*frames)
        self.pump()

    def pump(self) -> None:
        """Let everything that is under way arrive."""
        for _ in range(6):
            for server in self.servers.values():
                server.pump()
            while sum(stub.pump() for stub in self.stubs.values()):
                pass

    def advance(self, seconds: float, step: float = 0.5) -> None:
        """Let time pass."""
        left = seconds
        while left > 1e-9:
            self.clock.advance(min(step, left))
            left -= step
            self.pump()

    # -- how it is -------------------------------------------------------------------------------------------

    def status(self, name: str = "one") -> DestinationStatus:
        """How a destination is."""
        (found,) = [status for status in self.manager.statuses() if status.name == name]
        return found

    def outlet(self, name: str = "one") -> OutletStatus:
        """How the one stream of a destination is."""
        (found,) = self.status(name).outlets
        return found

    def told(self, kind: type[_E]) -> list[_E]:
        """The events of one kind."""
        return self.relay.events_of(kind)

    def assert_balanced(self) -> None:
        """Every message is accounted for."""
        for status in self.manager.statuses():
            for outlet in status.outlets:
                total = outlet.messages_sent + outlet.messages_dropped + outlet.messages_queued
                assert outlet.messages_in == total, outlet
                assert outlet.messages_dropped == sum(outlet.dropped_by_reason.values()), outlet
                assert min(outlet.messages_sent, outlet.messages_dropped, outlet.messages_queued) >= 0


def destination(name: str = "one", url: str = "rtmp://one/live/key", **more: Any) -> DestinationSettings:
    """The settings of a destination."""
    return DestinationSettings(name=name, url=RtmpUrl.parse(url), **more)
