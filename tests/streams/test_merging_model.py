"""Whatever happens, joining frames changes nothing but the time: two streams, one with windows and one without."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)
from twisted.internet.task import Clock

from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.streams.merging import Pace
from rtmprelay.streams.registry import StreamRegistry
from tests.rounds import rounds
from tests.streams.helpers import FakePublisher
from tests.streams.merging_helpers import FixedMerging, Receiver

#: The windows that may be set; 0 is an idle server.
WINDOWS = st.sampled_from([0.0, 0.014, 0.04, 0.12])
LONGEST = 0.12

#: First bytes of each kind of frame: keyframe, picture, sound, the two headers, metadata, a cue.
KINDS: list[tuple[MediaKind, bytes]] = [
    (MediaKind.VIDEO, b"\x17\x01"),
    (MediaKind.VIDEO, b"\x27\x01"),
    (MediaKind.VIDEO, b"\x27\x01"),
    (MediaKind.AUDIO, b"\xaf\x01"),
    (MediaKind.AUDIO, b"\xaf\x01"),
    (MediaKind.VIDEO, b"\x17\x00"),
    (MediaKind.AUDIO, b"\xaf\x00"),
    (MediaKind.DATA, b"\x02\x00\x0aonMetaData"),
    (MediaKind.DATA, b"\x02\x00\x05onCue"),
]


@attrs.frozen(eq=False)
class Pair:
    """The same subscriber on both streams."""

    joined: Receiver
    plain: Receiver

    def each(self) -> tuple[Receiver, Receiver]:
        return self.joined, self.plain


class Side:
    """One of the two servers."""

    def __init__(self, registry: StreamRegistry) -> None:
        self.registry = registry
        self.publisher: FakePublisher | None = None
        self.number = 0

    def publish(self, now: float) -> None:
        self.number += 1
        self.publisher = FakePublisher(f"c{self.number:06d}")
        self.stream = self.registry.publish("live/cam", self.publisher, now)

    def unpublish(self, clean: bool) -> None:
        assert self.publisher is not None
        self.registry.unpublish(self.stream, self.publisher, clean)
        self.publisher = None


class MergingMachine(RuleBasedStateMachine):
    """Does the same to both, and compares."""

    #: So much that nothing is dropped: what is dropped depends on when a transport is full.
    limits = QueueLimits(max_bytes=1 << 40, max_ms=1 << 30, max_frames=1 << 30)
    pairs = Bundle("pairs")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.merging = FixedMerging(self.clock, 0.0, 0.0)
        self.with_windows = Side(StreamRegistry(merging=self.merging))
        self.plain = Side(StreamRegistry())
        self.sides = (self.with_windows, self.plain)
        self.there: list[Pair] = []
        self.gone: list[Pair] = []
        self.count = 0
        self.timestamp = 0

    # -- what may happen -------------------------------------------------------------------------------------

    @initialize(viewer=WINDOWS, server=WINDOWS)
    def begin(self, viewer: float, server: float) -> None:
        self.load(viewer, server)
        # Somebody stays from the first frame to the last, at each pace, so that the stream is never forgotten.
        self.publisher_comes()
        for pace in Pace:
            self.subscribe(pace)

    @rule(viewer=WINDOWS, server=WINDOWS)
    def load(self, viewer: float, server: float) -> None:
        self.merging.viewer.seconds = viewer
        self.merging.server.seconds = server

    @precondition(lambda self: self.plain.publisher is not None)
    @rule(
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=5),
        size=st.sampled_from([0, 10, 1000, 40_000]),
        passed=st.integers(0, 40),
    )
    def publish(self, kinds: Sequence[tuple[MediaKind, bytes]], size: int, passed: int) -> None:
        frames: list[MediaFrame] = []
        for kind, first_bytes in kinds:
            self.count += 1
            self.timestamp += passed
            frames.append(
                MediaFrame(kind, self.timestamp, first_bytes + self.count.to_bytes(4) + bytes(size))
            )
        for side in self.sides:
            side.stream.publish_frames(frames, self.clock.seconds())

    @rule(target=pairs, pace=st.sampled_from(list(Pace)))
    def subscribe(self, pace: Pace) -> Pair:
        pair = Pair(Receiver(self.limits), Receiver(self.limits))
        for side, receiver in zip(self.sides, pair.each(), strict=True):
            side.stream.subscribe(receiver, pace)
        self.there.append(pair)
        return pair

    @rule(pair=consumes(pairs))
    def unsubscribe(self, pair: Pair) -> None:
        for side, receiver in zip(self.sides, pair.each(), strict=True):
            receiver.close()
            side.registry.leave(side.stream, receiver)
        self.there.remove(pair)
        self.gone.append(pair)

    @rule(seconds=st.sampled_from([0.001, 0.01, 0.02, 0.04, 0.5]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(pair=pairs)
    def transport_full(self, pair: Pair) -> None:
        for receiver in pair.each():
            receiver.transport_full()

    @rule(pair=pairs)
    def transport_ready(self, pair: Pair) -> None:
        for receiver in pair.each():
            receiver.transport_ready()

    @precondition(lambda self: self.plain.publisher is not None)
    @rule(clean=st.booleans())
    def publisher_leaves(self, clean: bool) -> None:
        for side in self.sides:
            side.unpublish(clean)

    @precondition(lambda self: self.plain.publisher is None)
    @rule()
    def publisher_comes(self) -> None:
        for side in self.sides:
            side.publish(self.clock.seconds())

    @precondition(lambda self: self.plain.publisher is not None)
    @rule()
    def publisher_is_superseded(self) -> None:
        self.clock.advance(5.5)
        self.publisher_leaves_by_silence()

    def publisher_leaves_by_silence(self) -> None:
        for side in self.sides:
            silent = side.publisher
            side.publish(self.clock.seconds())
            assert silent is not None
            assert silent.superseded == 1

    # -- what must hold --------------------------------------------------------------------------------------

    @invariant()
    def everything_is_accounted_for(self) -> None:
        for pair in (*self.there, *self.gone):
            assert pair.joined.is_balanced
            assert pair.plain.is_balanced
            assert pair.joined.account.messages_sent == len(pair.joined.frames)

    @invariant()
    def joined_frames_are_later_and_differ_in_nothing(self) -> None:
        for pair in (*self.there, *self.gone):
            joined, plain = pair.joined.frames, pair.plain.frames
            assert joined == plain[: len(joined)]

    @invariant()
    def no_timer_is_left(self) -> None:
        assert len(self.clock.getDelayedCalls()) <= 2
        if self.plain.publisher is None or not self.there:
            assert self.clock.getDelayedCalls() == []

    def teardown(self) -> None:
        self.clock.advance(LONGEST)
        assert self.clock.getDelayedCalls() == []
        for pair in self.there:
            for receiver in pair.each():
                receiver.transport_ready()
                assert receiver.messages_queued == 0
            # In order, with what was told of the publisher in between, apart from those whose transport was full.
            assert pair.joined.frames == pair.plain.frames
            assert pair.joined.account == pair.plain.account or self._same_figures(pair)
        self.everything_is_accounted_for()

    @staticmethod
    def _same_figures(pair: Pair) -> bool:
        joined, plain = pair.joined.account, pair.plain.account
        return (joined.messages_in, joined.messages_sent, joined.bytes_sent, joined.reasons()) == (
            plain.messages_in,
            plain.messages_sent,
            plain.bytes_sent,
            plain.reasons(),
        )


class SmallQueuesMachine(MergingMachine):
    """With queues that overflow, what is lost depends on the moment; that it is accounted for does not."""

    limits = QueueLimits(max_bytes=50_000, max_ms=300, max_frames=20)

    @invariant()
    def joined_frames_are_later_and_differ_in_nothing(self) -> None:
        for pair in (*self.there, *self.gone):
            for receiver in pair.each():
                assert len(set(receiver.frames)) == len(receiver.frames), "a frame came twice"

    def teardown(self) -> None:
        self.clock.advance(LONGEST)
        for pair in self.there:
            for receiver in pair.each():
                receiver.transport_ready()
        self.everything_is_accounted_for()


class OrderMachine(MergingMachine):
    """With transports that are never full, even what is told of the publisher comes at the same place."""

    @rule()
    def transport_full(self) -> None:
        pass

    @invariant()
    def everything_is_told_at_the_same_place(self) -> None:
        for pair in self.there:
            joined, plain = pair.joined.log, pair.plain.log
            assert joined == plain[: len(joined)]


_SETTINGS = settings(max_examples=rounds(15, full=60), stateful_step_count=40)
TestMerging = MergingMachine.TestCase
TestMerging.settings = _SETTINGS
TestSmallQueues = SmallQueuesMachine.TestCase
TestSmallQueues.settings = _SETTINGS
TestOrder = OrderMachine.TestCase
TestOrder.settings = _SETTINGS
