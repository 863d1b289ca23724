"""A server on real sockets, in a reactor that takes its steps one by one: what epoll says is real, time is not."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import socket
import struct
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.internet.interfaces import IProtocolFactory
from twisted.internet.task import Clock
from twisted.internet.tcp import Connection
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.event_bus import EventBus
from rtmprelay.events import ConnectionClosed, Event, PublishStopped
from rtmprelay.media import MediaFrame
from rtmprelay.rtmp.server import RtmpServerProtocol
from rtmprelay.rtmp.server_factory import RtmpServerFactory, ServerSettings
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import (
    ConnectAccepted,
    MediaReceived,
    PlayAccepted,
    PublishAccepted,
    SessionReport,
    StatusReceived,
)
from rtmprelay.streams.registry import StreamRegistry
from tests.helpers import EventList, group, inter, start_frames
from tests.streams.merging_helpers import FixedMerging

#: Seconds for which sockets are left to fill; a fraction that adds up without rest.
WINDOW = 1 / 16
PART = 1 / 64

#: The announcement of chunks of no size.
GARBAGE = b"\x02\x00\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00\x00\x00\x00\x00"

#: With this a closed socket does not say goodbye: the peer gets a reset.
_NO_GOODBYE = struct.pack("ii", 1, 0)


class PacedServer:
    """A server whose windows are as wide as the test says."""

    def __init__(self, viewer: float = 0.0, server: float = 0.0, reading: float = 0.0) -> None:
        self.clock = Clock()
        self.reactor: Any = EPollReactor()
        self.merging = FixedMerging(self.clock, viewer, server, reading)
        self.registry = StreamRegistry(merging=self.merging)
        self.told = EventList()
        bus = EventBus()
        bus.add_sink(self.told)
        self.factory = RtmpServerFactory(self.clock, self.registry, bus, ServerSettings())
        self.clients: list[PacedClient] = []
        self._own_readers = set(self.reactor.getReaders())
        self._own_timers = set(self.clock.getDelayedCalls())

    # -- connections -----------------------------------------------------------------------------------------

    def connect(
        self, family: socket.AddressFamily = socket.AF_INET, factory: IProtocolFactory | None = None
    ) -> PacedClient:
        """A client that has sent `connect` and got its answer."""
        client = PacedClient(self, *self.open(family, factory))
        self.clients.append(client)
        client.until(ConnectAccepted)
        return client

    def open(
        self, family: socket.AddressFamily = socket.AF_INET, factory: IProtocolFactory | None = None
    ) -> tuple[socket.socket, RtmpServerProtocol]:
        """The client's end of a new connection, and the server's protocol."""
        theirs, ours = _pair(family)
        before = set(self.factory.connections)
        # The transport has a descriptor of its own.
        self.reactor.adoptStreamConnection(ours.fileno(), family, factory or self.factory)
        ours.close()
        (protocol,) = set(self.factory.connections) - before
        return theirs, protocol

    def publisher(self, name: str = "cam", **how: Any) -> PacedClient:
        """Somebody who publishes."""
        client = self.connect(**how)
        client.session.publish(name)
        client.until(PublishAccepted)
        return client

    def player(self, name: str = "cam", **how: Any) -> PacedClient:
        """Somebody who watches."""
        client = self.connect(**how)
        client.session.play(name)
        client.until(PlayAccepted)
        return client

    # -- what happens ----------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Let the reactor do what there is to do now, without waiting, until there is nothing more."""
        for _ in range(20):
            self.reactor.runUntilCurrent()
            self.reactor.doIteration(0)

    def advance(self, seconds: float) -> None:
        """Let time pass for the server."""
        self.clock.advance(seconds)
        self.turn()

    # -- how it is -------------------------------------------------------------------------------------------

    @property
    def paused(self) -> int:
        """How many publishers are left unread just now."""
        return len(self.factory.reading_pace._paused)

    @property
    def readers(self) -> list[object]:
        """The connections that the reactor looks at."""
        return [reader for reader in self.reactor.getReaders() if isinstance(reader, Connection)]

    def told_of(self, client: PacedClient) -> list[Event]:
        """The events of one connection."""
        connection = client.protocol.connection_id
        return [event for event in self.told.events if getattr(event, "connection", None) == connection]

    def close(self) -> None:
        """Close all connections, and cancel all timers."""
        for client in self.clients:
            client.socket.close()
        for selectable in self.reactor.removeAll():
            if isinstance(selectable, Connection):
                selectable.abortConnection()
        self.reactor.runUntilCurrent()
        self.reactor.waker.connectionLost(None)
        self.reactor._poller.close()


class PacedClient:
    """A client at the other end of a real socket, moved by the test."""

    def __init__(self, server: PacedServer, own_end: socket.socket, protocol: RtmpServerProtocol) -> None:
        self.server = server
        self.socket = own_end
        self.protocol = protocol
        self.session = ClientSession("live", "rtmp://127.0.0.1/live")
        self.events: list[SessionReport] = []
        self.frames: list[MediaFrame] = []
        #: How many reads of the server brought something, and how much.
        self.reads: list[int] = []
        received = protocol.dataReceived

        def count(data: bytes) -> None:
            self.reads.append(len(data))
            received(data)

        protocol.dataReceived = count  # type: ignore[method-assign]

    @property
    def transport(self) -> Any:
        """The server's end."""
        return self.protocol.transport

    def send(self, *frames: MediaFrame) -> None:
        """Send media; the server may read it, or not."""
        self.write(
            self.session.bytes_to_send() + b"".join(self.session.send_media(frame) for frame in frames)
        )

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if data:
            # The server reads in this very thread: what does not fit into the socket would wait for ever.
            self.socket.settimeout(10)
            self.socket.sendall(data)
            self.socket.setblocking(False)
        self.server.turn()

    def pump(self) -> None:
        """Send what the session has to say, and read what the server said."""
        self.write(self.session.bytes_to_send())
        while data := self._read():
            for event in self.session.receive_data(data, 0.0):
                self.events.append(event)
                if isinstance(event, MediaReceived):
                    self.frames += event.frames

    def _read(self) -> bytes:
        try:
            return self.socket.recv(1 << 20)
        except (BlockingIOError, ConnectionResetError):
            return b""

    def until(self, kind: type[SessionReport]) -> None:
        """Go on until an event of this kind has come."""
        for _ in range(20):
            self.pump()
            if any(isinstance(event, kind) for event in self.events):
                self.pump()
                return
        raise AssertionError(f"no {kind.__name__} came")

    @property
    def codes(self) -> list[str]:
        """The codes of all `onStatus` but those that start something."""
        return [event.code for event in self.events if isinstance(event, StatusReceived)]

    def reset(self) -> None:
        """Go without a goodbye."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_GOODBYE)
        self.socket.close()
        self.server.turn()

    def hang_up(self) -> None:
        """Close the connection."""
        self.socket.close()
        self.server.turn()


def _pair(family: socket.AddressFamily) -> tuple[socket.socket, socket.socket]:
    if family != socket.AF_INET:
        theirs, ours = socket.socketpair(family, socket.SOCK_STREAM)
    else:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            theirs = socket.create_connection(listener.getsockname())
            ours, _ = listener.accept()
        theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    theirs.setblocking(False)
    ours.setblocking(False)
    return theirs, ours


class PacedTests(SynchronousTestCase):
    """Has a server whose viewers may wait."""

    @override
    def setUp(self) -> None:
        self.server = self.new_server(viewer=WINDOW)

    def new_server(self, viewer: float = 0.0, server: float = 0.0, reading: float = 0.0) -> PacedServer:
        made = PacedServer(viewer, server, reading)
        self.addCleanup(made.close)
        return made

    def watched(
        self, server: PacedServer | None = None, family: socket.AddressFamily = socket.AF_INET
    ) -> tuple[PacedClient, PacedClient]:
        """A publisher and a viewer; whatever is sent next is left in the socket."""
        server = server or self.server
        publisher = server.publisher(family=family)
        publisher.send(*start_frames(), *group(0))
        viewer = server.player()
        publisher.send(inter(200))
        server.advance(WINDOW)
        viewer.pump()
        viewer.frames.clear()
        publisher.reads.clear()
        return publisher, viewer


def reasons(told: list[Event]) -> list[tuple[str, str]]:
    """How publishes and connections ended."""
    return [
        (event.name, event.reason) for event in told if isinstance(event, PublishStopped | ConnectionClosed)
    ]
