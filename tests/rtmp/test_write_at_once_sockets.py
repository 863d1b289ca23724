"""Bytes that go to the kernel at once, on the real transports of Twisted."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import socket
from typing import Any, cast

from OpenSSL.SSL import Connection as TlsState
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.error import ConnectionLost
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import Certificate, KeyPair, PrivateCertificate, optionsForClientTLS
from twisted.internet.tcp import Connection
from twisted.internet.unix import Server as UnixServer
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.rtmp.transport_buffers import DirectWriter, unsent_bytes
from tests.certificates import self_signed

# -- real transports -----------------------------------------------------------------------------------------

#: The PEM format, as OpenSSL numbers it.
_PEM = 1


class Noting(Protocol):
    """Keeps what comes, and how it ended."""

    def __init__(self) -> None:
        self.data = b""
        self.losses: list[Failure] = []

    @override
    def dataReceived(self, data: bytes) -> None:
        self.data += data

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.losses.append(reason)


class RealTransportTests(SynchronousTestCase):
    """TCP, unix sockets and TLS, each as a server of Twisted has them."""

    @override
    def setUp(self) -> None:
        self.reactor: Any = EPollReactor()
        self.addCleanup(self._close)

    def _close(self) -> None:
        for selectable in self.reactor.removeAll():
            if isinstance(selectable, Connection):
                selectable.abortConnection()
        self.reactor.runUntilCurrent()
        self.reactor.waker.connectionLost(None)
        self.reactor._poller.close()

    def turn(self) -> None:
        for _ in range(20):
            self.reactor.runUntilCurrent()
            self.reactor.doIteration(0)

    def adopted(self, family: socket.AddressFamily, ours: socket.socket, tls: Any = None) -> Noting:
        """A protocol on one end of a connection."""
        protocol = Noting()
        factory: Any = Factory()
        factory.buildProtocol = lambda _: protocol
        self.reactor.adoptStreamConnection(ours.fileno(), family, factory if tls is None else tls(factory))
        ours.close()
        return protocol

    def pair(self, family: socket.AddressFamily) -> tuple[Noting, socket.socket]:
        """A server's protocol, and the plain socket of its peer."""
        if family == socket.AF_UNIX:
            ours, peer = socket.socketpair(family, socket.SOCK_STREAM)
        else:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                peer = socket.create_connection(listener.getsockname())
                ours, _ = listener.accept()
        for each in (ours, peer):
            each.setblocking(False)
        self.addCleanup(peer.close)
        return self.adopted(family, ours), peer

    def received(self, peer: socket.socket, size: int) -> bytes:
        """So many bytes, as they come."""
        parts: list[bytes] = []
        for _ in range(10_000):
            if sum(map(len, parts)) >= size:
                break
            self.reactor.doIteration(0.001)
            try:
                parts.append(peer.recv(1 << 20))
            except BlockingIOError:
                continue
        return b"".join(parts)

    def test_peer_gets_all_bytes_in_the_order_they_were_written(self) -> None:
        """Small, large, and ordinary writes in any order: the peer gets them as they were written."""
        for family in (socket.AF_INET, socket.AF_UNIX):
            server, peer = self.pair(family)
            transport = cast(Any, server.transport)
            assert isinstance(transport, UnixServer) == (family == socket.AF_UNIX)
            expected: list[bytes] = []
            for number in range(60):
                data = bytes([number]) * (7 if number % 5 else 400_000)
                expected.append(data)
                if number % 7 == 3:
                    transport.write(data)
                else:
                    DirectWriter(transport).write(data)
            wanted = b"".join(expected)
            assert self.received(peer, len(wanted)) == wanted
            assert unsent_bytes(transport) == 0
            assert server.losses == []

    def test_a_small_frame_needs_no_turn_of_the_reactor(self) -> None:
        for family in (socket.AF_INET, socket.AF_UNIX):
            server, peer = self.pair(family)
            DirectWriter(cast(Any, server.transport)).write(b"frame")
            assert server.transport not in self.reactor.getWriters()
            assert self.received(peer, 5) == b"frame"

    def test_lost_peer_is_reported_once_and_by_the_reactor(self) -> None:
        for family in (socket.AF_INET, socket.AF_UNIX):
            server, peer = self.pair(family)
            cast(Any, server.transport).pauseProducing()
            peer.close()
            for _ in range(5):
                DirectWriter(cast(Any, server.transport)).write(b"frame")
            assert server.losses == [], "it was told in the middle of a write"
            for _ in range(50):
                self.reactor.doIteration(0.001)
            assert [loss.check(ConnectionLost) for loss in server.losses] == [ConnectionLost]
            # And after that it is of no consequence.
            DirectWriter(cast(Any, server.transport)).write(b"frame")

    def tls_pair(self) -> tuple[Noting, Noting]:
        """A server's protocol and a client's, which have just begun to shake hands."""
        private, signed = self_signed("127.0.0.1")
        certificate = PrivateCertificate.fromCertificateAndKeyPair(
            Certificate.loadPEM(signed), KeyPair.load(private, _PEM)
        )
        with socket.create_server(("127.0.0.1", 0)) as listener:
            theirs = socket.create_connection(listener.getsockname())
            ours, _ = listener.accept()
        for each in (ours, theirs):
            each.setblocking(False)
        trust = optionsForClientTLS("127.0.0.1", Certificate.loadPEM(signed))
        clock = self.reactor
        server = self.adopted(
            socket.AF_INET,
            ours,
            lambda factory: TLSMemoryBIOFactory(certificate.options(), False, factory, clock),
        )
        client = self.adopted(
            socket.AF_INET, theirs, lambda factory: TLSMemoryBIOFactory(trust, True, factory, clock)
        )
        assert isinstance(cast(Any, server.transport).getHandle(), TlsState)
        self.addCleanup(self.abort, server, client)
        return server, client

    def abort(self, *protocols: Noting) -> None:
        for protocol in protocols:
            if not protocol.losses:
                cast(Any, protocol.transport).abortConnection()
        self.turn()

    def until_received(self, client: Noting, size: int) -> None:
        for _ in range(10_000):
            self.reactor.runUntilCurrent()
            self.reactor.doIteration(0.001)
            if len(client.data) >= size or client.losses:
                break

    def shaken(self) -> tuple[Noting, Noting]:
        """The same, after they have shaken hands."""
        server, client = self.tls_pair()
        cast(Any, client.transport).write(b"hello")
        self.until_received(server, 5)
        # The tickets for a later connection leave too.
        self.turn()
        return server, client

    def test_what_is_written_over_tls_comes_in_its_order_from_the_first_byte_on(self) -> None:
        """Before the hands are shaken, in the same turn as Twisted's own writes, and after the socket is full."""
        server, client = self.tls_pair()
        transport = cast(Any, server.transport)
        writer = DirectWriter(transport)
        expected = b""
        for number in range(150):
            data = bytes([number]) * (9 if number % 3 else 100_000)
            expected += data
            if number % 7 == 3:
                transport.write(data)
            else:
                writer.write(data)
            if number in (30, 31, 60, 100):
                self.turn()
        self.until_received(client, len(expected))
        assert client.data == expected
        assert writer.bytes_out == len(expected) - sum(
            9 if number % 3 else 100_000 for number in range(150) if number % 7 == 3
        )

    def test_a_frame_over_tls_needs_no_turn_of_the_reactor(self) -> None:
        server, client = self.shaken()
        transport = cast(Any, server.transport)
        writer = DirectWriter(transport)
        timers = len(self.reactor.getDelayedCalls())
        for size in (5, 16_384, 60_000):
            writer.write(bytes(size))
        assert len(self.reactor.getDelayedCalls()) == timers
        assert transport.transport not in self.reactor.getWriters()
        self.until_received(client, 76_389)
        assert len(client.data) == 76_389

    def test_peer_that_reads_nothing_over_tls_is_not_encrypted_for(self) -> None:
        """What is encrypted is for one peer alone: of large frames no more than a few pieces wait in that form."""
        server, client = self.shaken()
        cast(Any, client.transport).transport.pauseProducing()
        transport = cast(Any, server.transport)
        writer = DirectWriter(transport)

        class Producer:
            """As a connection does."""

            def pauseProducing(self) -> None:
                writer.transport_full()

            def resumeProducing(self) -> None:
                writer.transport_ready()

            def stopProducing(self) -> None: ...

        transport.registerProducer(Producer(), True)
        frame = bytes(range(250)) * 4_000
        written = 0
        while not writer.bytes_kept:
            writer.write(frame)
            written += 1
            assert written < 100
        writer.write(frame)
        written += 1
        assert (unsent_bytes(transport) or 0) < 300_000
        assert writer.bytes_kept > 1_000_000
        cast(Any, client.transport).transport.resumeProducing()
        self.until_received(client, written * len(frame))
        assert client.data == frame * written
        transport.unregisterProducer()

    def test_connection_that_is_closing_takes_nothing_more_over_tls(self) -> None:
        server, client = self.shaken()
        writer = DirectWriter(cast(Any, server.transport))
        writer.write(b"last")
        cast(Any, server.transport).loseConnection()
        writer.write(b"too late")
        self.until_received(client, 5)
        assert client.data == b"last"
        writer.write(b"much too late")
        self.turn()
        assert client.data == b"last"
