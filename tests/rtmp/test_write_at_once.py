"""Bytes that go to the kernel at once, on real transports over real sockets and over one that does as it is told."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import errno
import socket
from typing import Any, cast

from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import IProtocol
from twisted.internet.protocol import Protocol
from twisted.internet.tcp import Connection
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay.rtmp.transport_buffers import DirectWriter, unsent_bytes


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

    def test_bytes_are_sent_without_the_reactor(self) -> None:
        """With an empty buffer and a ready socket, the peer has it at once."""
        DirectWriter(self.transport).write(b"frame")
        assert self.received() == b"frame"
        assert self.reactor.writers == set()
        assert unsent_bytes(self.transport) == 0

    def test_bytes_that_the_kernel_refuses_wait_in_order(self) -> None:
        """A frame larger than the socket's buffer is sent in part; the rest and what follows come after it."""
        large = bytes(range(256)) * 20_000
        DirectWriter(self.transport).write(large)
        waiting = unsent_bytes(self.transport)
        assert waiting is not None
        assert waiting > 0
        assert waiting < len(large)
        DirectWriter(self.transport).write(b"next")
        assert self.drain() == large + b"next"

    def test_direct_write_goes_after_the_bytes_that_wait(self) -> None:
        """Bytes that were written the ordinary way go first."""
        self.transport.write(b"first ")
        DirectWriter(self.transport).write(b"second")
        assert self.received() == b""
        assert self.drain() == b"first second"

    def test_a_lost_connection_is_left_to_the_reactor(self) -> None:
        """Writing to a peer that has gone raises nothing; the next ordinary write reports it."""
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

    def test_kernel_that_takes_everything_leaves_nothing_to_write(self) -> None:
        transport, kernel, reactor = told()
        data = bytes(300_000)
        DirectWriter(transport).write(data)
        assert kernel.sent == [data]
        assert reactor.writers == set()

    def test_rest_of_a_write_waits_for_the_reactor(self) -> None:
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

    def test_rest_of_a_rest_waits_for_the_reactor(self) -> None:
        """While the transport is in the middle of what waits, nothing overtakes that either."""
        transport, kernel, _ = told(3, 2)
        DirectWriter(transport).write(b"abcdefgh")
        transport.doWrite()
        assert transport.offset == 2
        DirectWriter(transport).write(b"ij")
        assert b"".join(kernel.sent) == b"abcde"
        transport.doWrite()
        assert b"".join(kernel.sent) == b"abcdefghij"

    def test_kernel_that_would_block_leaves_all_to_the_reactor(self) -> None:
        for number in (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS, errno.EINTR):
            transport, kernel, reactor = told(OSError(number, "later"))
            DirectWriter(transport).write(b"frame")
            assert transport in reactor.writers
            assert unsent_bytes(transport) == 5
            assert transport.doWrite() is None
            assert kernel.sent == [b"frame"]

    def test_lost_peer_is_left_to_the_reactor(self) -> None:
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

    def test_direct_write_neither_pauses_nor_resumes_the_producer(self) -> None:
        transport, _, _ = told()
        producer = ToldProducer()
        transport.registerProducer(cast(Any, producer), True)
        DirectWriter(transport).write(bytes(500_000))
        assert (producer.paused, producer.resumed) == (0, 0)

    def test_nothing_is_sent_after_a_goodbye(self) -> None:
        """The transport is about to close: it sends what waits, and takes what the ordinary way takes."""
        transport, kernel, _ = told()
        transport.write(b"goodbye")
        transport.loseConnection()
        DirectWriter(transport).write(b"frame")
        assert kernel.sent == []

    def test_direct_write_after_a_close_sends_nothing(self) -> None:
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
