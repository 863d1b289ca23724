"""Try out a relay in memory: no sockets, no waiting, a clock that you move.

server = MemoryServer()
encoder = server.connect()
encoder.publish("test")
player = server.connect()
player.play("test")
encoder.send(MediaFrame(MediaKind.AUDIO, 0, b"\\xaf\\x01..."))
assert player.frames == [...]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import attrs
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost, ConnectionRefusedError
from twisted.internet.interfaces import (
    IAddress,
    IConsumer,
    IProducer,
    IProtocol,
    IProtocolFactory,
    IPushProducer,
    IStreamClientEndpoint,
    ITransport,
)
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from rtmprelay.access.gate import Gate
from rtmprelay.access.guessing import Ban, GuessGuard, GuessLimits
from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.event_bus import EventBus
from rtmprelay.events import Event
from rtmprelay.interfaces import IEventSink, IStreamAuthorizer
from rtmprelay.media import MediaFrame
from rtmprelay.rtmp.server import RtmpServerProtocol
from rtmprelay.rtmp.server_factory import RtmpServerFactory, ServerSettings
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import MediaReceived, SessionReport, StatusReceived
from rtmprelay.streams.limits import StreamLimits
from rtmprelay.streams.merging import Merging
from rtmprelay.streams.registry import StreamRegistry

_E = TypeVar("_E", bound=Event)

#: Unsent bytes at which Twisted's transports pause their producer.
_FULL = 65536


@implementer(ITransport, IConsumer)
class MemoryTransport:
    """A transport whose other end is a test. Set `stalled` to be a peer that does not read."""

    def __init__(self, peer: IAddress) -> None:
        self._peer = peer
        self._written: list[bytes] = []
        self._size = 0
        self._producer: IPushProducer | None = None
        self._paused = False
        self.stalled = False
        #: Whether the protocol wants to read now.
        self.is_read = True
        self.closing = False
        self.aborted = False

    def write(self, data: bytes) -> None:
        if self.aborted:
            return
        self._written.append(data)
        self._size += len(data)
        if self.stalled and self._size > _FULL and self._producer is not None and not self._paused:
            self._paused = True
            self._producer.pauseProducing()

    def writeSequence(self, data: Iterable[bytes]) -> None:  # noqa: N802
        for part in data:
            self.write(part)

    def take(self) -> bytes:
        """Read as the peer: everything that was written, or nothing while stalled."""
        if self.stalled or self.aborted:
            return b""
        data = b"".join(self._written)
        self._written.clear()
        self._size = 0
        if self._paused and self._producer is not None:
            self._paused = False
            self._producer.resumeProducing()
        return data

    @property
    def unread_size(self) -> int:
        """How many bytes the peer has not read."""
        return self._size

    @property
    def closed(self) -> bool:
        """Whether the connection is over: cut, or closed with everything read."""
        return self.aborted or (self.closing and not self._size)

    def pauseProducing(self) -> None:
        self.is_read = False

    def resumeProducing(self) -> None:
        self.is_read = True

    def registerProducer(self, producer: IProducer, streaming: bool) -> None:  # noqa: N802
        self._producer = IPushProducer(producer)

    def unregisterProducer(self) -> None:  # noqa: N802
        self._producer = None

    def loseConnection(self) -> None:  # noqa: N802
        self.closing = True

    def abortConnection(self) -> None:  # noqa: N802
        self.closing = self.aborted = True

    def getPeer(self) -> IAddress:  # noqa: N802
        return self._peer

    def getHost(self) -> IAddress:  # noqa: N802
        return IPv4Address("TCP", "192.0.2.254", 1935)


@attrs.define(eq=False)
class RawConnection:
    """A connection to a server in memory, at the level of bytes."""

    protocol: RtmpServerProtocol
    transport: MemoryTransport
    lost: bool = False

    def lose(self, clean: bool = True) -> None:
        """The connection is lost, after a clean close or without one."""
        if not self.lost:
            self.lost = True
            self.protocol.connectionLost(Failure(ConnectionDone() if clean else ConnectionLost()))


class MemoryClient:
    """An RTMP client in memory: an encoder or a player."""

    def __init__(self, server: MemoryServer, connection: RawConnection, session: ClientSession) -> None:
        self._server = server
        self.connection = connection
        self.session = session
        # What has been sent while the server does not read.
        self._unread: list[bytes] = []
        #: All media that came in.
        self.frames: list[MediaFrame] = []
        #: All that the session reported, oldest first.
        self.events: list[SessionReport] = []

    @property
    def transport(self) -> MemoryTransport:
        """The server's end of the connection."""
        return self.connection.transport

    @property
    def codes(self) -> list[str]:
        """The codes of all `onStatus` but those that start a publish or a play."""
        return [event.code for event in self.events if isinstance(event, StatusReceived)]

    def publish(self, name: str) -> None:
        """Publish, and wait for the answer."""
        self.session.publish(name)
        self._server.pump()

    def play(self, name: str) -> None:
        """Play, and wait for what comes."""
        self.session.play(name)
        self._server.pump()

    def send(self, *frames: MediaFrame) -> None:
        """Send media in one piece."""
        data = self.session.bytes_to_send() + b"".join(self.session.send_media(frame) for frame in frames)
        self.deliver(data)
        self._server.pump()

    def end(self) -> None:
        """End the publish or play with the commands for that."""
        self.session.end()
        self._server.pump()

    def deliver(self, data: bytes) -> None:
        """Bytes arrive at the server, as soon as it reads."""
        self._unread.append(data)
        self._deliver_unread()

    def _deliver_unread(self) -> bool:
        delivered = False
        while self._unread and self.transport.is_read and not self.connection.lost:
            delivered = True
            self.connection.protocol.dataReceived(self._unread.pop(0))
        return delivered

    def disconnect(self, clean: bool = True) -> None:
        """Lose the connection without a goodbye."""
        self.connection.lose(clean)
        self._server.pump()

    def pump(self) -> bool:
        """Move what waits, once in each direction. Returns whether anything moved."""
        upstream = self.session.bytes_to_send()
        if upstream:
            self.deliver(upstream)
        elif self._deliver_unread():
            return True
        downstream = self.transport.take()
        if downstream:
            for event in self.session.receive_data(downstream, self._server.clock.seconds()):
                self.events.append(event)
                if isinstance(event, MediaReceived):
                    self.frames += event.frames
        elif self.transport.closed and not self.connection.lost:
            self.connection.lose()
            return True
        return bool(upstream or downstream)


class _MemoryLink:
    """A connection in memory between a server and a client protocol, such as a destination's."""

    def __init__(self, connection: RawConnection, client: IProtocol, address: IAddress) -> None:
        self._connection = connection
        self._client = client
        self.client_transport = MemoryTransport(address)
        self._client_lost = False

    def pump(self) -> bool:
        """Move what waits, once in each direction. Returns whether anything moved."""
        upstream = b"" if self._client_lost else self.client_transport.take()
        if upstream and not self._connection.lost:
            self._connection.protocol.dataReceived(upstream)
        downstream = b"" if self._connection.lost else self._connection.transport.take()
        if downstream and not self._client_lost:
            self._client.dataReceived(downstream)
        return bool(upstream or downstream) or self._close()

    def _close(self) -> bool:
        """Close both ends if one has closed. Returns whether that happened now."""
        ended = self.client_transport.closed or self._connection.transport.closed or self._connection.lost
        if not ended or self._client_lost:
            return False
        self._client_lost = True
        self._connection.lose()
        self._client.connectionLost(Failure(ConnectionDone()))
        return True


@implementer(IStreamClientEndpoint)
class MemoryEndpoint:
    """An endpoint that leads to a server in memory. Set `failure` to be a network that does not work."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self.failure: Exception | None = None
        #: How many connections were attempted.
        self.attempts = 0

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:  # noqa: N803
        """Connect at once, or fail at once."""
        self.attempts += 1
        address = IPv4Address("TCP", "192.0.2.254", 1935)
        connection = None if self.failure is not None else self._server.open("192.0.2.2")
        if connection is None:
            return fail(self.failure or ConnectionRefusedError())
        client = protocolFactory.buildProtocol(address)
        assert client is not None, "the factory does not want the connection"
        link = _MemoryLink(connection, client, address)
        self._server.links.append(link)
        client.makeConnection(link.client_transport)
        return succeed(client)


@implementer(IEventSink)
class MemoryServer:
    """A server in memory, with a clock of its own and a list of all events."""

    def __init__(
        self,
        settings: ServerSettings | None = None,
        stream_limits: StreamLimits | None = None,
        clock: Clock | None = None,
        merging: Merging | None = None,
        authorizers: Sequence[IStreamAuthorizer] = (),
        guess_limits: GuessLimits | None = None,
        ban: Ban | None = None,
    ) -> None:
        """Args:
        merging: How frames are joined under load, on the same clock; without it nothing ever waits.
        authorizers: They decide who may publish and play.
        guess_limits, ban: How guessing keys is slowed down; without them it is not.
        """
        self.clock = clock or Clock()
        self.registry = StreamRegistry(stream_limits, merging)
        self.events: list[Event] = []
        bus = EventBus()
        bus.add_sink(self)
        guard = GuessGuard(self.clock, bus, guess_limits, ban) if guess_limits or ban else None
        gate = Gate(authorizers, self.clock, guard=guard)
        self.factory = RtmpServerFactory(self.clock, self.registry, bus, settings, gate)
        self._clients: list[MemoryClient] = []
        self.links: list[_MemoryLink] = []

    def event_happened(self, time: float, event: Event) -> None:
        self.events.append(event)

    def events_of(self, kind: type[_E]) -> list[_E]:
        """All events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def open(self, host: str = "192.0.2.1") -> RawConnection | None:
        """Connect, and send nothing; None if the server refuses."""
        address = IPv4Address("TCP", host, 50000)
        protocol = self.factory.buildProtocol(address)
        if not isinstance(protocol, RtmpServerProtocol):
            return None
        transport = MemoryTransport(address)
        protocol.makeConnection(transport)
        return RawConnection(protocol, transport)

    def connect(
        self,
        app: str = "live",
        chunk_size: int = 65536,
        use_digest: bool = True,
        properties: Mapping[str, AmfValue] | None = None,
    ) -> MemoryClient:
        """Connect to an application.

        Args:
            properties: More properties of `connect`.
        """
        connection = self.open()
        assert connection is not None, "the server refused the connection"
        session = ClientSession(
            app,
            f"rtmp://192.0.2.254/{app}",
            chunk_size=chunk_size,
            use_digest=use_digest,
            properties=properties,
        )
        client = MemoryClient(self, connection, session)
        self._clients.append(client)
        self.pump()
        return client

    def advance(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass, in steps, and move what waits after each."""
        left = seconds
        while left > 0:
            self.clock.advance(min(step, left))
            left -= step
            self.pump()

    def pump(self) -> None:
        """Move bytes in both directions until nothing moves."""
        moved = True
        while moved:
            moved = False
            for client in self._clients:
                moved = client.pump() or moved
            for link in self.links:
                moved = link.pump() or moved
