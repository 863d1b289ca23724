"""What one message costs, counted in work and not in time: a slow machine changes nothing about it.

Each bound is a little above what it takes today. A change that needs more has to say why, here.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from twisted.internet.task import Clock

from rtmprelay.media import MediaFrame
from rtmprelay.streams.merging import Merging
from rtmprelay.wire.chunk_writer import StandaloneEncoder
from tests.destinations.harness import MemoryRelay
from tests.helpers import audio, inter, keyframe, start_frames
from tests.rtmp.counted_server import CountedClient, CountedServer, calls_of
from tests.streams.merging_helpers import FixedMerging

#: An ordinary message: 2.5 Mbit/s in 73 messages a second.
SIZE = 4300
FRAMES_PER_SECOND = 73


def messages(count: int, begin_ms: int, size: int = SIZE) -> list[MediaFrame]:
    """Pictures with sound between them, as an encoder sends them."""
    return [
        audio(begin_ms + 14 * number, size) if number % 2 else inter(begin_ms + 14 * number, size)
        for number in range(count)
    ]


def publishing(server: CountedServer, chunk_size: int = 65536) -> CountedClient:
    """A publisher whose stream is under way."""
    publisher = server.publisher(chunk_size=chunk_size)
    publisher.arrive(publisher.encoded(*start_frames(), keyframe(0)))
    for begin in (100, 200, 300):
        publisher.arrive(publisher.encoded(*messages(4, begin)))
    return publisher


# -- calls ---------------------------------------------------------------------------------------------------

# Python 3.12 and later call fewer functions for the same: a comprehension is none there. The bounds are for 3.11.


def ingest_calls(chunk_size: int, together: int) -> int:
    """The calls that one read with so many messages takes, of a stream that nobody gets."""
    publisher = publishing(CountedServer(), chunk_size)
    data = publisher.encoded(*messages(together, 1000))
    return calls_of(lambda: publisher.arrive(data))


@pytest.mark.parametrize(
    ("chunk_size", "first", "further"),
    [
        # FFmpeg takes our chunk size over: one chunk for most messages.
        (65536, 27, 4),
        # OBS. Two chunks in such a message.
        (4096, 28, 5),
        # DJI, and old encoders. A chunk must cost no call of its own: there are 34 of them in such a message.
        (128, 28, 5),
    ],
)
def test_reading_a_message_takes_few_calls(chunk_size: int, first: int, further: int) -> None:
    one, five = ingest_calls(chunk_size, 1), ingest_calls(chunk_size, 5)
    assert one <= first, f"a read with one message takes {one} calls; {first} were enough"
    each = (five - one) / 4
    assert each <= further, f"each further message of a read takes {each} calls; {further} were enough"


def fan_out_calls(players: int, together: int) -> int:
    """The calls that one read with so many messages takes, for so many players."""
    server = CountedServer()
    publisher = publishing(server)
    audience = [server.player() for _ in range(players)]
    publisher.arrive(publisher.encoded(*messages(1, 900)))
    data = publisher.encoded(*messages(together, 1000))
    count = calls_of(lambda: publisher.arrive(data))
    assert all(player.socket.sends for player in audience)
    return count


@pytest.mark.parametrize("together", [1, 4, 12])
def test_one_more_player_takes_few_calls(together: int) -> None:
    """It gets the bytes that everybody gets: what that takes does not depend on how many messages they are."""
    ten, thirty = fan_out_calls(10, together), fan_out_calls(30, together)
    each = (thirty - ten) / 20
    # frames_arrived, DirectWriter.write, and the send of this test's socket.
    assert each <= 3, f"one more player costs {each} calls for each write; 3 were enough"


def relay_calls(destinations: int, together: int) -> int:
    """The calls that one read with so many messages takes, for so many destinations."""
    server = MemoryRelay()
    for number in range(destinations):
        server.add_stub(f"host{number}")
        server.add_destination(f"host{number}", f"rtmp://host{number}/live/key")
    encoder = server.publish()
    server.send(encoder, *start_frames(), keyframe(0))
    server.send(encoder, *messages(4, 100))
    data = b"".join(encoder.session.send_media(frame) for frame in messages(together, 1000))
    before = sum(status.messages_sent for status in server.destinations.statuses())
    count = calls_of(lambda: encoder.deliver(data))
    after = sum(status.messages_sent for status in server.destinations.statuses())
    assert after - before == destinations * together
    return count


@pytest.mark.parametrize("together", [1, 4, 12])
def test_one_more_destination_takes_few_calls(together: int) -> None:
    """Its record of what was delivered is worked out once for all."""
    five, fifteen = relay_calls(5, together), relay_calls(15, together)
    each = (fifteen - five) / 10
    # As a player, and: sent, the time, the summary, DeliveryRecord.add.
    assert each <= 7, f"one more destination costs {each} calls for each write; 7 were enough"


def test_a_window_costs_little_where_there_is_none() -> None:
    """Joining that is switched on and not used: the share of a frame that goes to nobody."""
    figures: list[int] = []
    for server in (CountedServer(), CountedServer(lambda clock: Merging(clock, 0.04))):
        publisher = publishing(server)
        server.player()
        data = publisher.encoded(*messages(1, 1000))
        figures.append(calls_of(lambda: publisher.arrive(data)))  # noqa: B023
    plain, joining = figures
    assert joining == plain, f"a window that is closed costs {joining - plain} calls a read"


# -- sends, reads, encodings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [1, 4, 12])
def test_one_send_for_each_read(together: int) -> None:
    """What one read brought is one write to each player: no more, no fewer."""
    server = CountedServer()
    publisher = publishing(server)
    players = [server.player() for _ in range(20)]
    for number in range(10):
        publisher.arrive(publisher.encoded(*messages(together, 1000 + 500 * number)))
    assert [player.socket.sends for player in players] == [10] * 20
    assert server.reactor.writers == {}, "a player waits for the reactor although its socket takes everything"


@contextmanager
def counted_encodings() -> Iterator[list[int]]:
    """How many messages were encoded, each time that it was done."""
    counts: list[int] = []
    original = StandaloneEncoder.encode

    def counting(self: StandaloneEncoder, frames: Sequence[MediaFrame]) -> bytes:
        counts.append(len(frames))
        return original(self, frames)

    StandaloneEncoder.encode = counting  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        StandaloneEncoder.encode = original  # type: ignore[method-assign]


def test_frames_for_all_players_are_encoded_once() -> None:
    server = CountedServer()
    publisher = publishing(server)
    for _ in range(20):
        server.player()
    with counted_encodings() as encodings:
        for number in range(5):
            publisher.arrive(publisher.encoded(*messages(3, 1000 + 100 * number)))
    assert encodings == [3] * 5


def test_frames_for_all_destinations_are_encoded_once() -> None:
    server = MemoryRelay()
    for number in range(10):
        server.add_stub(f"host{number}")
        server.add_destination(f"host{number}", f"rtmp://host{number}/live/key")
    encoder = server.publish()
    server.send(encoder, *start_frames(), keyframe(0))
    with counted_encodings() as encodings:
        server.send(encoder, *messages(3, 1000))
    assert encodings == [3]


def second_of_frames(publisher: CountedClient, server: CountedServer) -> None:
    """73 messages, each as it is made."""
    for number, frame in enumerate(messages(FRAMES_PER_SECOND, 5000)):
        publisher.arrive(publisher.encoded(frame))
        server.clock.advance((number + 1) / FRAMES_PER_SECOND + 10 - server.clock.seconds())
    server.clock.advance(1)


@pytest.mark.parametrize("watched", [True, False])
def test_reads_and_sends_with_the_window_open(watched: bool) -> None:
    """40 ms are room for three messages: a third of the reads, and for each player a third of the sends."""

    def merging(clock: Clock) -> FixedMerging:
        return FixedMerging(clock, viewer=0.04, reading=0.04)

    server = CountedServer(merging)
    publisher = publishing(server)
    players = [server.player() for _ in range(5)] if watched else []
    server.clock.advance(10 - server.clock.seconds())
    publisher.arrive(publisher.encoded(*messages(1, 4900)))
    server.clock.advance(0)
    publisher.socket.reads = 0
    for player in players:
        player.socket.sends = 0
    before = server.registry.live("live/cam").counters.messages
    second_of_frames(publisher, server)
    delivered = server.registry.live("live/cam").counters.messages - before
    assert delivered >= FRAMES_PER_SECOND
    reads = publisher.socket.reads
    assert reads <= 28, f"{reads} reads for {delivered} messages; with 40 ms there should be about 25"
    for player in players:
        assert player.socket.sends <= 28, f"{player.socket.sends} sends for {delivered} messages"


# -- memory --------------------------------------------------------------------------------------------------


def test_delivered_message_leaves_no_memory() -> None:
    """Beyond the frames since the last keyframe, which late joiners need."""
    server = CountedServer(lambda clock: Merging(clock, 0.04))
    publisher = publishing(server)
    players = [server.player() for _ in range(50)]
    groups = [
        [
            publisher.encoded(keyframe(10_000 * number + 1000)),
            publisher.encoded(*messages(50, 10_000 * number + 1014)),
        ]
        for number in range(8)
    ]

    def deliver(some: list[list[bytes]]) -> None:
        for pieces in some:
            for piece in pieces:
                publisher.arrive(piece)

    deliver(groups[:2])
    gc.collect()
    before = sys.getallocatedblocks()
    deliver(groups[2:])
    gc.collect()
    grown = sys.getallocatedblocks() - before
    delivered = 6 * 51 * len(players)
    assert grown < delivered * 0.02, (
        f"{grown} blocks stay behind {delivered} deliveries; there should be next to none"
    )


def test_payloads_are_not_copied_for_each_player() -> None:
    """A large picture for a hundred players: it, its chunks and a few copies on the way, however many they are."""
    peaks: list[int] = []
    size = 1_000_000
    for players in (10, 100):
        server = CountedServer()
        publisher = publishing(server)
        for _ in range(players):
            server.player()
        data = publisher.encoded(inter(1000, size))
        gc.collect()
        tracemalloc.start()
        try:
            publisher.arrive(data)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] - peaks[0] < size / 10, (
        f"90 more players take {peaks[1] - peaks[0]} bytes for a picture of {size}"
    )
    assert peaks[1] < 6 * size, f"a picture of {size} bytes takes {peaks[1]} on its way"


def test_memory_of_one_more_player() -> None:
    """With its transport, session, queue and report; what the kernel keeps for its socket comes on top."""
    server = CountedServer(lambda clock: Merging(clock, 0.04))
    publisher = publishing(server)
    players = [server.player() for _ in range(50)]
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        players += [server.player() for _ in range(300)]
        for begin in range(1000, 2000, 100):
            publisher.arrive(publisher.encoded(*messages(5, begin)))
        gc.collect()
        each = (tracemalloc.get_traced_memory()[0] - before) / 300
    finally:
        tracemalloc.stop()
    assert each < 14_000, (
        f"one more player takes {each:.0f} bytes; 10,500 were enough, and 60,000 are promised"
    )
