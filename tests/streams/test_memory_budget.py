"""What gives way when memory is scarce, in this order: new publishers, caches, the largest queues."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock
from zope.interface import implementer

from rtmprelay.errors import LimitExceededError
from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.memory import MemoryPool
from rtmprelay.quantities import MEBIBYTE
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.limits import QueueLimits, StreamLimits
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.memory_budget import MemoryBudget, MemoryLimits, Scarcity
from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.wire.chunk_writer import encode_standalone
from rtmprelay.wire.chunks import ChunkReader, RawMessage
from tests.helpers import inter, keyframe
from tests.streams.helpers import FakePublisher

KIB = 1024


@implementer(IFrameSubscriber)
class Stalled(Consumer):
    """A player that takes nothing."""

    def publisher_left(self) -> None: ...

    def publisher_returned(self) -> None: ...


def send_group(stream: LiveStream, at: int, size: int) -> None:
    """A group of pictures with so many bytes, in frames of ordinary sizes."""
    piece = 250 * KIB
    frames = [keyframe(at, piece), *(inter(at + number, piece) for number in range(1, size // piece))]
    stream.publish_frames(frames, at / 1_000)


class World:
    """A relay with a budget, and no sockets."""

    def __init__(self, budget: int) -> None:
        self.clock = Clock()
        self.registry = StreamRegistry(StreamLimits())
        self.strangers, self.publishers = MemoryPool("strangers"), MemoryPool("memory_budget")
        self.budget = MemoryBudget(
            MemoryLimits(budget), self.registry, self.clock, (self.strangers, self.publishers)
        )

    @property
    def scarcity(self) -> Scarcity:
        return self.budget.scarcity

    def stream(self, name: str, size: int = 0) -> LiveStream:
        """A stream whose cache has so many bytes."""
        stream = self.registry.publish(name, FakePublisher(), 0.0)
        if size:
            send_group(stream, 0, size)
        return stream

    def stalled(self, stream: LiveStream) -> Consumer:
        """A player that takes nothing."""
        player = Stalled(limits=QueueLimits(max_ms=1_000_000))
        player.attach(lambda _: None, encoder=None)  # type: ignore[arg-type]
        player.transport_full()
        stream.subscribe(player)
        return player


def test_nothing_is_cut_back_while_there_is_enough_memory() -> None:
    world = World(100 * MEBIBYTE)
    stream = world.stream("a", MEBIBYTE)
    world.budget.look()
    assert world.scarcity is Scarcity.NONE
    assert not world.budget.refuses_publishers
    assert world.budget.used.caches == pytest.approx(MEBIBYTE, rel=0.05)
    assert stream.cache_bytes > 0.9 * MEBIBYTE


def test_new_publishers_are_refused_first_and_taken_again_later() -> None:
    world = World(100 * MEBIBYTE)
    streams = [world.stream(f"{number}", 6 * MEBIBYTE) for number in range(10)]
    world.budget.look()
    seen = [world.scarcity]
    assert all(stream.cache_bytes > 5 * MEBIBYTE for stream in streams)
    for stream in streams[:7]:
        publisher = stream.publisher
        assert publisher is not None
        world.registry.unpublish(stream, publisher, clean=True)
    world.budget.look()
    assert [*seen, world.scarcity] == [Scarcity.NO_NEW_PUBLISHERS, Scarcity.NONE]


def test_publishers_that_have_gone_since_the_last_look_keep_nobody_out() -> None:
    world = World(48 * MEBIBYTE)
    while world.budget.take_publisher():
        pass
    assert not world.budget.take_publisher(), "a flood of attempts does not look each time"
    world.clock.advance(0.1)
    assert world.budget.take_publisher(), "none of them has made a stream"


def test_room_for_the_next_frames_of_publishers_is_kept_free() -> None:
    """They are 40, each sends a keyframe of a megabyte now and then: nobody cuts one off in the middle of it."""
    world = World(100 * MEBIBYTE)
    for number in range(40):
        world.stream(f"{number}")
        assert number >= 37 or world.budget.take_publisher()
    assert not world.budget.take_publisher()
    world.budget.look()
    assert world.budget.used.total == 0
    assert world.budget.refuses_publishers


def test_caches_shrink_before_queues_drop_and_grow_again() -> None:
    world = World(100 * MEBIBYTE)
    streams = [world.stream(f"{number}", 9 * MEBIBYTE) for number in range(10)]
    world.budget.look()
    seen = [world.scarcity]
    player = world.stalled(streams[0])
    for stream in streams:
        send_group(stream, 1_000, 9 * MEBIBYTE)
    assert player.bytes_queued > 8 * MEBIBYTE
    world.budget.look()
    assert player.bytes_queued > 8 * MEBIBYTE, "the queue was not touched: the caches were enough"
    player.close()
    for at in range(12):
        for stream in streams:
            send_group(stream, 2_000 + 100 * at, MEBIBYTE)
        world.budget.look()
    assert [*seen, world.scarcity] == [Scarcity.CACHES_SHRINK, Scarcity.NONE]
    assert {stream.cache_bytes >= 0.9 * MEBIBYTE for stream in streams} == {True}


def test_largest_queues_drop_last_and_whole_groups() -> None:
    world = World(100 * MEBIBYTE)
    large, small = world.stream("large"), world.stream("small")
    players = [world.stalled(large) for _ in range(5)]
    modest = world.stalled(small)
    small.publish_frames([keyframe(0, 100 * KIB)], 0.0)
    for second in range(10):
        frames = [keyframe(second * 1_000, MEBIBYTE), inter(second * 1_000 + 40, 4 * MEBIBYTE)]
        large.publish_frames(frames, float(second))
        world.budget.look()
    assert world.budget.used.total <= 100 * MEBIBYTE
    assert modest.messages_queued == 1, "only the largest queues drop"
    for player in players:
        assert player.is_balanced
        assert player.account.messages_dropped > 0


def test_stalled_players_of_one_stream_share_its_frames() -> None:
    world = World(1000 * MEBIBYTE)
    stream = world.stream("a")
    for _ in range(500):
        world.stalled(stream)
    stream.publish_frames([keyframe(0, 2 * MEBIBYTE)], 0.0)
    world.budget.look()
    assert world.budget.used.queues < 80 * MEBIBYTE


def test_assembly_is_counted_as_it_arrives_and_never_goes_over_the_budget() -> None:
    world = World(10 * MEBIBYTE)
    readers = []
    for _ in range(20):
        reader = ChunkReader()
        reader.limit_assembly(32 * MEBIBYTE, "assembly_size", world.publishers)
        readers.append(reader)
    cut = 0
    for reader in readers:
        data = encode_standalone(RawMessage(9, 0, 1, bytes(900 * KIB)), 4, 128)
        try:
            reader.feed(data[: len(data) // 2 + 300 * KIB])
        except LimitExceededError as error:
            cut += error.limit == "memory_budget"
            reader.forget()
        assert world.publishers.used <= 10 * MEBIBYTE
    assert 0 < cut < 10
    for reader in readers:
        reader.forget()
    assert world.publishers.used == 0


def test_memory_of_outputs_counts_against_the_budget() -> None:
    world = World(10 * MEBIBYTE)
    world.budget.add_output(lambda: 9 * MEBIBYTE)
    world.budget.look()
    assert world.budget.used.outputs == 9 * MEBIBYTE
    assert world.budget.refuses_publishers


def test_looks_are_closer_together_while_memory_is_scarce() -> None:
    world = World(10 * MEBIBYTE)
    world.budget.start()
    world.strangers.used = 9 * MEBIBYTE
    world.clock.advance(0.5)
    refused = [world.budget.refuses_publishers]
    world.strangers.used = 0
    world.clock.advance(0.1)
    refused.append(world.budget.refuses_publishers)
    assert refused == [True, False]
    world.budget.stop()
    assert not world.clock.getDelayedCalls()
