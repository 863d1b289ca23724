"""A server whose sockets only count: real protocols on real Twisted transports, no kernel, no time."""

# Twisted's transports have no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IAddress
from twisted.internet.task import Clock
from twisted.internet.tcp import Connection

from rtmprelay.media import MediaFrame
from rtmprelay.rtmp.server import RtmpServerProtocol
from rtmprelay.rtmp.server_factory import RtmpServerFactory
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import ConnectAccepted, PlayAccepted, PublishAccepted, SessionReport
from rtmprelay.streams.merging import Merging
from rtmprelay.streams.registry import StreamRegistry

ADDRESS = IPv4Address("TCP", "192.0.2.1", 50000)


class CountedSocket:
    """Takes everything at once, and counts."""

    #: Sockets of this family are never left to the kernel's judgement of what is much.
    family = socket.AF_UNIX

    def __init__(self) -> None:
        self.sends = 0
        self.reads = 0
        self.kept: list[bytes] = []
        #: Whether what is sent is kept for the client.
        self.keeps = True
        self.inbox = b""

    def send(self, data: bytes) -> int:
        self.sends += 1
        if self.keeps:
            self.kept.append(data)
        return len(data)

    def recv(self, size: int) -> bytes:
        self.reads += 1
        if not self.inbox:
            raise BlockingIOError(11, "nothing there")
        data, self.inbox = self.inbox[:size], self.inbox[size:]
        return data

    def setblocking(self, blocking: bool) -> None: ...
    def setsockopt(self, *_: object) -> None: ...
    def shutdown(self, how: int) -> None: ...
    def close(self) -> None: ...
    def fileno(self) -> int:
        return -1


class CountedReactor:
    """Keeps the transports that want to read and to write."""

    def __init__(self, clock: Clock) -> None:
        self.callLater = clock.callLater
        self.readers: dict[object, None] = {}
        self.writers: dict[object, None] = {}

    def addReader(self, reader: object) -> None:  # noqa: N802
        self.readers[reader] = None

    def removeReader(self, reader: object) -> None:  # noqa: N802
        self.readers.pop(reader, None)

    def addWriter(self, writer: object) -> None:  # noqa: N802
        self.writers[writer] = None

    def removeWriter(self, writer: object) -> None:  # noqa: N802
        self.writers.pop(writer, None)


class CountedTransport(Connection):
    """What a listening port makes, without one."""

    def getPeer(self) -> IAddress:  # noqa: N802
        return ADDRESS

    def getHost(self) -> IAddress:  # noqa: N802
        return ADDRESS


class CountedClient:
    """A client of such a server."""

    def __init__(self, server: CountedServer, app: str = "live", chunk_size: int = 65536) -> None:
        self._server = server
        self.socket = CountedSocket()
        protocol = server.factory.buildProtocol(ADDRESS)
        assert isinstance(protocol, RtmpServerProtocol)
        self.protocol = protocol
        self.transport = CountedTransport(cast(Any, self.socket), protocol, cast(Any, server.reactor))
        self.transport.connected = True
        protocol.makeConnection(self.transport)
        self.transport.startReading()
        self.session = ClientSession(
            app, f"rtmp://192.0.2.254/{app}", chunk_size=chunk_size, use_digest=False
        )

    def until(self, kind: type[SessionReport]) -> None:
        """Exchange bytes with the server until this report has come."""
        for _ in range(20):
            self.arrive(self.session.bytes_to_send())
            while self.transport in self._server.reactor.writers:
                self.transport.doWrite()
            said, self.socket.kept = b"".join(self.socket.kept), []
            events = self.session.receive_data(said, 0.0)
            if any(isinstance(event, kind) for event in events):
                return
        raise AssertionError(f"no {kind.__name__} came")

    def arrive(self, data: bytes) -> None:
        """Bytes come to the server's socket; the reactor sees that, unless it does not watch the socket."""
        self.socket.inbox += data
        while self.socket.inbox and self.transport in self._server.reactor.readers:
            self.transport.doRead()

    def encoded(self, *frames: MediaFrame) -> bytes:
        """What a publisher sends."""
        return self.session.bytes_to_send() + b"".join(self.session.send_media(frame) for frame in frames)


class CountedServer:
    """The server."""

    def __init__(self, merging: Callable[[Clock], Merging] | None = None) -> None:
        self.clock = Clock()
        self.reactor = CountedReactor(self.clock)
        self.registry = StreamRegistry(merging=merging(self.clock) if merging else None)
        self.factory = RtmpServerFactory(self.clock, self.registry)

    def publisher(self, name: str = "cam", chunk_size: int = 65536) -> CountedClient:
        client = CountedClient(self, chunk_size=chunk_size)
        client.until(ConnectAccepted)
        client.session.publish(name)
        client.until(PublishAccepted)
        return client

    def player(self, name: str = "cam") -> CountedClient:
        client = CountedClient(self)
        client.until(ConnectAccepted)
        client.session.play(name)
        client.until(PlayAccepted)
        client.socket.keeps = False
        client.socket.kept.clear()
        client.socket.sends = 0
        # What the client keeps is no business of the server's.
        del client.session
        return client


def profile(action: Callable[[], object], note: Callable[[FrameType, str, object], None]) -> None:
    """Pass every call and return during an action to `note`."""
    # Finalizers of what other tests left would be counted if they ran meanwhile.
    gc.disable()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
        gc.enable()


def calls_of(action: Callable[[], object]) -> int:
    """How many Python functions are called while something is done."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    profile(action, note)
    return count
