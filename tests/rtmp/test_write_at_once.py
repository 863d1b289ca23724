"""Bytes that go to the kernel at once, on real transports over real sockets and over one that does as it is told."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import errno
import socket
from typing import Any, cast

from OpenSSL.SSL import Connection as TlsState
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import IProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import Certificate, KeyPair, PrivateCertificate, optionsForClientTLS
from twisted.internet.tcp import Connection
from twisted.internet.testing import StringTransport
from twisted.internet.unix import Server as UnixServer
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.rtmp.transport_buffers import DirectWriter, unsent_bytes
from tests.certificates import self_signed


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
        DirectWriter(self.transport).write(b"frame")
        assert self.received() == b"frame"
        assert self.reactor.writers == set()
        assert unsent_bytes(self.transport) == 0

    def test_what_the_kernel_refuses_waits_in_order(self) -> None:
        """A frame larger than the socket's buffer is sent in part; the rest and what follows come behind it."""
        large = bytes(range(256)) * 20_000
        DirectWriter(self.transport).write(large)
        waiting = unsent_bytes(self.transport)
        assert waiting is not None
        assert waiting > 0
        assert waiting < len(large)
        DirectWriter(self.transport).write(b"next")
        assert self.drain() == large + b"next"

    def test_nothing_overtakes_what_waits(self) -> None:
        """Bytes that were written the ordinary way go first."""
        self.transport.write(b"first ")
        DirectWriter(self.transport).write(b"second")
        assert self.received() == b""
        assert self.drain() == b"first second"

    def test_a_lost_connection_is_left_to_the_reactor(self) -> None:
        """Writing to a peer that has gone raises nothing; the next ordinary write tells."""
        self.peer.close()
        DirectWriter(self.transport).write(b"frame")
        assert self.transport in self.reactor.writers
        assert isinstance(self.transport.doWrite(), ConnectionLost)

    def test_other_transports_are_written_to_as_usual(self) -> None:
        """TLS, unix sockets and transports in memory get an ordinary write."""
        transport = StringTransport()
        DirectWriter(transport).write(b"frame")
        assert transport.value() == b"frame"


# -- a kernel that does as it is told ------------------------------------------------------------------------


class ToldSocket:
    """A socket whose answers are given: numbers of bytes that it takes, or errors."""

    def __init__(self, *answers: int | OSError) -> None:
        self._answers = list(answers)
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> int:
        answer = self._answers.pop(0) if self._answers else len(data)
        if isinstance(answer, OSError):
            raise answer
        taken = min(answer, len(data))
        self.sent.append(bytes(data[:taken]))
        return taken

    def setblocking(self, blocking: bool) -> None:
        assert not blocking

    def fileno(self) -> int:
        return -1


class ToldProducer:
    """Remembers whether it was asked to wait."""

    def __init__(self) -> None:
        self.paused = 0
        self.resumed = 0

    def pauseProducing(self) -> None:
        self.paused += 1

    def resumeProducing(self) -> None:
        self.resumed += 1


def told(*answers: int | OSError) -> tuple[Connection, ToldSocket, ReactorStub]:
    """A transport on such a socket."""
    reactor = ReactorStub()
    told_socket = ToldSocket(*answers)
    transport = Connection(cast(socket.socket, told_socket), Protocol(), cast(Any, reactor))
    transport.connected = True
    return transport, told_socket, reactor


class AnswersOfTheKernelTests(SynchronousTestCase):
    """Each answer that a socket may give."""

    def test_it_takes_everything(self) -> None:
        transport, kernel, reactor = told()
        data = bytes(300_000)
        DirectWriter(transport).write(data)
        assert kernel.sent == [data]
        assert reactor.writers == set()

    def test_it_takes_a_part(self) -> None:
        """The rest goes the ordinary way, and nothing is sent twice or left out."""
        transport, kernel, reactor = told(3)
        DirectWriter(transport).write(b"abcdefgh")
        assert kernel.sent == [b"abc"]
        assert transport in reactor.writers
        assert unsent_bytes(transport) == 5
        DirectWriter(transport).write(b"ij")
        assert kernel.sent == [b"abc"], "the second overtook the first"
        transport.doWrite()
        assert b"".join(kernel.sent) == b"abcdefghij"
        assert unsent_bytes(transport) == 0
        # From here on it is sent at once again.
        DirectWriter(transport).write(b"kl")
        assert b"".join(kernel.sent) == b"abcdefghijkl"

    def test_it_takes_a_part_of_the_rest(self) -> None:
        """While the transport is in the middle of what waits, nothing overtakes that either."""
        transport, kernel, _ = told(3, 2)
        DirectWriter(transport).write(b"abcdefgh")
        transport.doWrite()
        assert transport.offset == 2
        DirectWriter(transport).write(b"ij")
        assert b"".join(kernel.sent) == b"abcde"
        transport.doWrite()
        assert b"".join(kernel.sent) == b"abcdefghij"

    def test_it_takes_nothing_now(self) -> None:
        for number in (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS, errno.EINTR):
            transport, kernel, reactor = told(OSError(number, "later"))
            DirectWriter(transport).write(b"frame")
            assert transport in reactor.writers
            assert unsent_bytes(transport) == 5
            assert transport.doWrite() is None
            assert kernel.sent == [b"frame"]

    def test_it_says_that_the_peer_has_gone(self) -> None:
        for number in (errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.EHOSTUNREACH):
            gone = OSError(number, "gone")
            transport, kernel, reactor = told(gone, gone)
            DirectWriter(transport).write(b"frame")
            # The reactor finds out, and tells the protocol: not in the middle of a write.
            assert transport in reactor.writers
            assert isinstance(transport.doWrite(), ConnectionLost)
            assert kernel.sent == []

    def test_a_full_buffer_asks_the_producer_to_wait(self) -> None:
        transport, _, _ = told(1000)
        producer = ToldProducer()
        transport.registerProducer(cast(Any, producer), True)
        DirectWriter(transport).write(bytes(50_000))
        assert producer.paused == 0
        DirectWriter(transport).write(bytes(50_000))
        assert producer.paused == 1
        transport.doWrite()
        assert producer.resumed == 1

    def test_what_is_sent_at_once_asks_for_nothing(self) -> None:
        transport, _, _ = told()
        producer = ToldProducer()
        transport.registerProducer(cast(Any, producer), True)
        DirectWriter(transport).write(bytes(500_000))
        assert (producer.paused, producer.resumed) == (0, 0)

    def test_nothing_is_sent_behind_a_goodbye(self) -> None:
        """The transport is about to close: it sends what waits, and takes what the ordinary way takes."""
        transport, kernel, _ = told()
        transport.write(b"goodbye")
        transport.loseConnection()
        DirectWriter(transport).write(b"frame")
        assert kernel.sent == []

    def test_nothing_is_sent_at_once_when_it_closes_with_nothing_to_say(self) -> None:
        transport, kernel, _ = told()
        transport.loseConnection()
        DirectWriter(transport).write(b"frame")
        assert kernel.sent == []

    def test_nothing_is_sent_to_a_connection_that_has_gone(self) -> None:
        transport, kernel, reactor = told()
        transport.connected = False
        DirectWriter(transport).write(b"frame")
        assert kernel.sent == []
        assert reactor.writers == set()

    def test_nothing_is_sent_past_tls(self) -> None:
        """TLS may be started on a transport: then what it has is no place for plain bytes."""
        transport, kernel, _ = told()
        encrypting = StringTransport()
        transport.TLS = True
        transport.protocol = cast(IProtocol, encrypting)
        DirectWriter(transport).write(b"frame")
        assert kernel.sent == []
        assert encrypting.value() == b"frame"


# -- real transports -----------------------------------------------------------------------------------------


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

    def test_order_and_completeness(self) -> None:
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

    def test_a_peer_that_has_gone_is_told_once_and_later(self) -> None:
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

    def test_tls(self) -> None:
        """What is written over TLS is encrypted, in order, and waits as TLS lets it wait."""
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
        transport = cast(Any, server.transport)
        assert isinstance(transport.getHandle(), TlsState)
        expected = b""
        for number in range(30):
            data = bytes([number]) * (9 if number % 3 else 100_000)
            expected += data
            DirectWriter(transport).write(data)
        for _ in range(10_000):
            self.reactor.runUntilCurrent()
            self.reactor.doIteration(0.001)
            if len(client.data) >= len(expected):
                break
        assert client.data == expected
        transport.abortConnection()
        cast(Any, client.transport).abortConnection()
        self.turn()


#: How certificates are written in files, as OpenSSL numbers it.
_PEM = 1
