"""Progress of a peer, seen in the buffers of real Twisted transports."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import socket
from typing import cast

from twisted.internet.abstract import FileDescriptor
from twisted.internet.interfaces import IReactorFDSet, IReadDescriptor, ITransport, IWriteDescriptor
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.tcp import Connection
from twisted.internet.testing import StringTransport
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.rtmp.transport_buffers import DirectWriter, StallWatch, unsent_bytes, untaken_bytes


@implementer(IReactorFDSet)
class NoReactor:
    """Watches no file descriptors: the test does the writing."""

    def addReader(self, reader: object) -> None: ...  # noqa: N802
    def addWriter(self, writer: object) -> None: ...  # noqa: N802
    def removeReader(self, reader: object) -> None: ...  # noqa: N802
    def removeWriter(self, writer: object) -> None: ...  # noqa: N802
    def removeAll(self) -> list[IReadDescriptor | IWriteDescriptor]:  # noqa: N802
        return []

    def getReaders(self) -> list[IReadDescriptor]:  # noqa: N802
        return []

    def getWriters(self) -> list[IWriteDescriptor]:  # noqa: N802
        return []


class SlowDescriptor(FileDescriptor):
    """Takes as many bytes as the test allows."""

    allowed = 0
    connected = True

    @override
    def writeSomeData(self, data: bytes) -> int:
        taken = min(self.allowed, len(data))
        self.allowed -= taken
        return taken


class UnsentBytesTests(SynchronousTestCase):
    def test_unsent_bytes_count_all_three_buffers_of_a_descriptor(self) -> None:
        descriptor = SlowDescriptor(NoReactor())
        assert unsent_bytes(descriptor) == 0
        descriptor.write(b"x" * 1000)
        descriptor.writeSequence([b"y" * 500, b"z" * 500])
        assert unsent_bytes(descriptor) == 2000
        descriptor.allowed = 300
        descriptor.doWrite()
        assert unsent_bytes(descriptor) == 1700
        descriptor.write(b"w" * 100)
        assert unsent_bytes(descriptor) == 1800
        descriptor.allowed = 5000
        while unsent_bytes(descriptor):
            descriptor.doWrite()
        assert descriptor.allowed == 5000 - 1800

    def test_bytes_of_a_real_socket_are_counted_until_they_are_read(self) -> None:
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        ours.setblocking(False)
        theirs.setblocking(False)
        connection = Connection(ours, Protocol(), NoReactor())
        connection.connected = True
        connection.write(bytes(4_000_000))
        while connection.doWrite() is None and (unsent_bytes(connection) or 0) == 4_000_000:
            pass
        for _ in range(100):
            connection.doWrite()
        stuck = unsent_bytes(connection)
        assert stuck is not None
        assert 0 < stuck < 4_000_000
        connection.doWrite()
        assert unsent_bytes(connection) == stuck
        received = 0
        while received < 100_000:
            received += len(theirs.recv(65536))
        connection.doWrite()
        now = unsent_bytes(connection)
        assert now is not None
        assert now < stuck

    def test_unsent_bytes_are_those_of_the_transport_below_all_wrappers(self) -> None:
        """TLS and the PROXY protocol are such wrappers: what they are given waits in the transport below."""
        descriptor = SlowDescriptor(NoReactor())
        descriptor.write(bytes(700))
        wrapper = ProtocolWrapper(WrappingFactory(Factory()), Protocol())
        wrapper.transport = descriptor
        outer = ProtocolWrapper(WrappingFactory(Factory()), Protocol())
        outer.transport = cast(ITransport, wrapper)
        assert unsent_bytes(outer) == 700

    def test_unsent_bytes_of_an_unknown_transport_are_none(self) -> None:
        assert unsent_bytes(object()) is None


class StallWatchTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.watch = StallWatch()
        self.descriptor = SlowDescriptor(NoReactor())
        self.writer = DirectWriter(self.descriptor)
        self.writer.write(bytes(100_000))

    def take(self, size: int) -> None:
        """The peer takes so many bytes."""
        self.descriptor.allowed = size
        self.descriptor.doWrite()

    def test_transport_that_is_not_full_has_no_stall(self) -> None:
        self.watch.look(self.writer, 10.0)
        assert self.watch.stuck_since is None

    def test_without_progress_the_stall_lasts_from_the_beginning(self) -> None:
        self.watch.transport_full(self.writer, 1.0)
        self.watch.transport_full(self.writer, 2.0)
        for now in (10.0, 20.0, 30.0):
            self.watch.look(self.writer, now)
            assert self.watch.stuck_since == 1.0

    def test_slow_progress_moves_the_beginning(self) -> None:
        self.watch.transport_full(self.writer, 1.0)
        self.watch.look(self.writer, 10.0)
        for now in (20.0, 30.0, 40.0):
            self.take(1)
            self.watch.look(self.writer, now)
            assert self.watch.stuck_since == now
        self.watch.look(self.writer, 50.0)
        assert self.watch.stuck_since == 40.0

    def test_empty_transport_ends_the_stall(self) -> None:
        self.watch.transport_full(self.writer, 1.0)
        self.watch.look(self.writer, 10.0)
        self.watch.transport_ready()
        assert self.watch.stuck_since is None
        self.watch.transport_full(self.writer, 20.0)
        assert self.watch.stuck_since == 20.0

    def test_new_stall_is_not_measured_against_the_last_one(self) -> None:
        self.watch.transport_full(self.writer, 1.0)
        self.watch.look(self.writer, 10.0)
        self.watch.transport_ready()
        self.take(100_000)
        self.writer.write(bytes(70_000))
        self.watch.transport_full(self.writer, 20.0)
        self.watch.look(self.writer, 30.0)
        assert self.watch.stuck_since == 20.0

    def test_transport_that_does_not_say_how_much_waits_has_until_it_is_empty(self) -> None:
        silent = DirectWriter(StringTransport())
        self.watch.transport_full(silent, 1.0)
        self.watch.look(silent, 10.0)
        self.watch.look(silent, 20.0)
        assert self.watch.stuck_since == 1.0

    def test_first_look_has_something_to_compare_with(self) -> None:
        """Progress between the moment of being full and the first look counts."""
        self.watch.transport_full(self.writer, 1.0)
        self.take(1)
        self.watch.look(self.writer, 10.0)
        assert self.watch.stuck_since == 10.0

    def test_bytes_that_are_added_meanwhile_hide_no_progress(self) -> None:
        """More is written than is taken; the peer is slow, not stalled."""
        self.watch.transport_full(self.writer, 1.0)
        self.take(10)
        self.writer.write_buffered(bytes(500))
        self.watch.look(self.writer, 10.0)
        assert self.watch.stuck_since == 10.0

    def test_bytes_in_the_kernel_count_as_not_taken(self) -> None:
        """The kernel holds what the peer has not read; only when the peer reads is that progress."""
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        ours.setblocking(False)
        connection = Connection(ours, Protocol(), NoReactor())
        connection.connected = True
        connection.write(bytes(1000))
        connection.doWrite()
        assert unsent_bytes(connection) == 0
        before = untaken_bytes(connection)
        assert before is not None
        assert before >= 1000
        theirs.recv(1000)
        assert untaken_bytes(connection) == 0
