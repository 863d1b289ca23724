"""Large frames for receivers that do not read: they share the bytes, and get them whole and in order in the end."""

# Twisted's transports have no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, cast

from twisted.internet.testing import StringTransport

from rtmprelay.media import MediaFrame
from rtmprelay.rtmp.transport_buffers import DirectWriter
from rtmprelay.wire.chunks import ChunkReader
from tests.helpers import inter, keyframe, start_frames
from tests.rtmp.counted_server import CountedServer, CountedSocket

KEYFRAME = 1_000_000
PLAYERS = 40


class SmallTransport(StringTransport):
    """Is full when it holds this many bytes, as a socket's transport is."""

    buffer_size = 100_000

    def __init__(self) -> None:
        super().__init__()
        self.writer = DirectWriter(self)
        self.largest_write = 0

    def write(self, data: bytes) -> None:
        super().write(data)
        self.largest_write = max(self.largest_write, len(data))
        if len(self.value()) > self.buffer_size:
            self.writer.transport_full()

    def send_all(self) -> bytes:
        """The socket takes what the transport holds."""
        data: bytes = self.value()
        self.clear()
        return data


def test_writer_keeps_what_a_full_transport_does_not_take() -> None:
    transport = SmallTransport()
    writer = transport.writer
    data = bytes(range(250)) * 4000
    writer.write(data)
    assert len(transport.value()) + writer.bytes_kept == len(data) == writer.bytes_out
    assert writer.bytes_kept > len(data) // 2
    # Nothing overtakes the rest.
    writer.write(b"second")
    writer.write_buffered(b"third")
    got = transport.send_all()
    while not writer.transport_ready():
        got += transport.send_all()
    assert got + transport.send_all() == data + b"secondthird"
    assert writer.bytes_kept == 0
    assert transport.largest_write < 100_000


def test_writer_hands_over_everything_when_nothing_more_comes() -> None:
    transport = SmallTransport()
    data = bytes(range(250)) * 4000
    transport.writer.write(data)
    transport.writer.finish()
    assert transport.send_all() == data
    assert transport.writer.bytes_kept == 0


def test_writer_without_an_owner_that_reports_hands_over_everything() -> None:
    transport = StringTransport()
    DirectWriter(transport).write(bytes(500_000))
    assert len(transport.value()) == 500_000


def growth_of(action: Callable[[], None]) -> int:
    """The bytes that are allocated when an action is over and were not before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        action()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


class SlowSocket(CountedSocket):
    """Takes as many bytes as there is room for."""

    def __init__(self) -> None:
        super().__init__()
        self.room = 0

    def send(self, data: bytes) -> int:
        if self.room == 0:
            raise BlockingIOError(11, "full")
        taken = super().send(bytes(data[: self.room]))
        self.room -= taken
        return taken


class Crowd:
    """Players that read slowly, of a stream that is live."""

    def __init__(self) -> None:
        self.server = CountedServer()
        self.publisher = self.server.publisher()
        self.publish(*start_frames(), keyframe(0))
        self.players = [self.server.player() for _ in range(PLAYERS)]
        self.sockets = [SlowSocket() for _ in self.players]
        for player, socket in zip(self.players, self.sockets, strict=True):
            player.socket = socket
            player.transport.socket = cast(Any, socket)

    def publish(self, *frames: MediaFrame) -> None:
        self.publisher.arrive(self.publisher.encoded(*frames))

    def read(self, size: int) -> None:
        """Each player reads so much."""
        for player, socket in zip(self.players, self.sockets, strict=True):
            socket.room += size
            while socket.room and player.transport in self.server.reactor.writers:
                player.transport.doWrite()

    def payloads(self) -> Iterator[list[bytes]]:
        """What each player has got so far."""
        for socket in self.sockets:
            reader = ChunkReader()
            reader.chunk_size = 65536
            yield [message.payload for message in reader.feed(b"".join(socket.kept))]


#: The payload, its encoded form, and two pieces of 64 KiB in the transport of each player.
MOST = 4 * KEYFRAME + PLAYERS * 3 * 65536


def test_players_share_the_rest_of_a_large_keyframe() -> None:
    """The sockets take its beginning."""
    crowd = Crowd()
    large, last = keyframe(40, KEYFRAME), inter(80)
    crowd.read(20_000)
    grown = growth_of(lambda: crowd.publish(large, last))
    assert grown < MOST, f"{grown / 1e6:.1f} MB"
    crowd.read(2 * KEYFRAME)
    for payloads in crowd.payloads():
        assert payloads == [large.payload, last.payload]


def test_players_share_a_large_keyframe_from_their_queues() -> None:
    """The sockets were full when it came, and take its beginning later."""
    crowd = Crowd()
    frames = (inter(20, 200_000), inter(30), keyframe(40, KEYFRAME), inter(80))

    def publish_and_read_a_little() -> None:
        for frame in frames:
            crowd.publish(frame)
        crowd.read(300_000)

    grown = growth_of(publish_and_read_a_little)
    kept = sum(len(part) for socket in crowd.sockets for part in socket.kept)
    assert grown - kept < MOST, f"{(grown - kept) / 1e6:.1f} MB"
    crowd.read(2 * KEYFRAME)
    for payloads in crowd.payloads():
        assert payloads == [frame.payload for frame in frames]


def test_closing_sends_the_rest_of_a_large_frame() -> None:
    crowd = Crowd()
    large = keyframe(40, KEYFRAME)
    crowd.publish(large)
    crowd.players[0].protocol.shut_down()
    crowd.read(2 * KEYFRAME)
    assert next(crowd.payloads())[0] == large.payload
