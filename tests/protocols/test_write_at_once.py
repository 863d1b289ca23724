"""Bytes that go to the kernel at once, on a real TCP transport over a socket pair."""

from __future__ import annotations

import socket
from typing import Any

from twisted.internet.error import ConnectionLost
from twisted.internet.protocol import Protocol
from twisted.internet.tcp import Connection
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay.protocols.transport_buffers import unsent_bytes, write_at_once


class ReactorStub:
    """Remembers who wants to write."""

    def __init__(self) -> None:
        self.writers: set[object] = set()

    def addWriter(self, writer: object) -> None:  # noqa: N802
        self.writers.add(writer)

    def removeWriter(self, writer: object) -> None:  # noqa: N802
        self.writers.discard(writer)

    def removeReader(self, reader: object) -> None:  # noqa: N802
        pass


class WriteAtOnceTests(SynchronousTestCase):
    """What is sent at once, what waits, and that the order stays."""

    def setUp(self) -> None:
        ours, self.peer = socket.socketpair()
        self.addCleanup(self.peer.close)
        self.addCleanup(ours.close)
        ours.setblocking(False)
        self.peer.setblocking(False)
        self.reactor = ReactorStub()
        reactor: Any = self.reactor
        self.transport = Connection(ours, Protocol(), reactor)
        self.transport.connected = True

    def received(self) -> bytes:
        """Everything that has arrived at the peer."""
        parts: list[bytes] = []
        while True:
            try:
                part = self.peer.recv(1 << 20)
            except BlockingIOError:
                return b"".join(parts)
            if not part:
                return b"".join(parts)
            parts.append(part)

    def drain(self) -> bytes:
        """Let the transport write as the reactor would, until all has arrived."""
        parts = [self.received()]
        while self.transport in self.reactor.writers:
            self.transport.doWrite()
            parts.append(self.received())
        return b"".join(parts)

    def test_it_is_sent_without_the_reactor(self) -> None:
        """With an empty buffer and a ready socket, the peer has it at once."""
        write_at_once(self.transport, b"frame")
        assert self.received() == b"frame"
        assert self.reactor.writers == set()
        assert unsent_bytes(self.transport) == 0

    def test_what_the_kernel_refuses_waits_in_order(self) -> None:
        """A frame larger than the socket's buffer is sent in part; the rest and what follows come behind it."""
        large = bytes(range(256)) * 20_000
        write_at_once(self.transport, large)
        waiting = unsent_bytes(self.transport)
        assert waiting is not None
        assert waiting > 0
        assert waiting < len(large)
        write_at_once(self.transport, b"next")
        assert self.drain() == large + b"next"

    def test_nothing_overtakes_what_waits(self) -> None:
        """Bytes that were written the ordinary way go first."""
        self.transport.write(b"first ")
        write_at_once(self.transport, b"second")
        assert self.received() == b""
        assert self.drain() == b"first second"

    def test_a_lost_connection_is_left_to_the_reactor(self) -> None:
        """Writing to a peer that has gone raises nothing; the next ordinary write tells."""
        self.peer.close()
        write_at_once(self.transport, b"frame")
        assert self.transport in self.reactor.writers
        assert isinstance(self.transport.doWrite(), ConnectionLost)

    def test_other_transports_are_written_to_as_usual(self) -> None:
        """TLS, unix sockets and transports in memory get an ordinary write."""
        transport = StringTransport()
        write_at_once(transport, b"frame")
        assert transport.value() == b"frame"
