"""A publisher whose server reads slowly, or not at all."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.internet.error import (
    ConnectionLost,
)
from typing_extensions import override

from rtmprelay.destinations.failures import FailureClass, classify
from rtmprelay.errors import (
    LimitExceededError,
)
from rtmprelay.rtmp.encoding import shared_encoder
from rtmprelay.streams.accounting import DropReason
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.frames import FrameBatch, live_frame
from rtmprelay.streams.limits import QueueLimits
from tests.helpers import assert_decodable, group, keyframe, start_frames
from tests.rtmp.client_harness import ClientTests


class StallTests(ClientTests):
    @override
    def setUp(self) -> None:
        super().setUp()
        self.publisher = self.publish()
        session = self.publisher.session
        encoder = shared_encoder(session.channel.chunk_size, session.stream_id, True)
        self.consumer = self.publisher.consumer = Consumer(self.publisher.write_media, encoder)
        self.transport = self.server.last.transport

    def feed(self, count: int, size: int = 20_000) -> None:
        for number in range(count):
            self.consumer.send(FrameBatch.of([live_frame(keyframe(number, size))]))

    def test_a_server_that_stops_reading_is_given_up_after_ten_seconds(self) -> None:
        self.clock.advance(7)
        self.transport.stalled = True
        self.feed(10)
        self.assertGreater(self.consumer.messages_queued, 0)
        self.clock.pump([1] * 9)
        self.pump()
        self.assertNoResult(self.publisher.when_lost)
        self.clock.pump([1])
        self.pump()
        self.successResultOf(self.publisher.when_lost)
        self.assertTrue(self.transport.aborted)
        self.assertIsInstance(self.publisher.loss.value, LimitExceededError)
        failure = classify(self.publisher.loss)
        self.assertIs(failure.kind, FailureClass.NETWORK)
        self.assertIn("took no byte for 10 s", failure.sentence)

    def test_server_that_reads_on_in_time_is_kept(self) -> None:
        for _ in range(4):
            self.transport.stalled = True
            self.feed(10)
            self.clock.pump([1] * 9)
            self.transport.stalled = False
            self.pump()
        self.clock.pump([1] * 30)
        self.pump()
        self.assertNoResult(self.publisher.when_lost)
        self.assertEqual(self.consumer.messages_queued, 0)
        self.assertEqual(len(self.server.last.media), 40)

    def test_nothing_to_send_is_no_stall(self) -> None:
        self.transport.stalled = True
        self.clock.pump([1] * 100)
        self.pump()
        self.assertNoResult(self.publisher.when_lost)
        # The time without anything to send is no part of a later stall.
        self.feed(10)
        self.clock.pump([1] * 9)
        self.pump()
        self.assertNoResult(self.publisher.when_lost)
        self.clock.pump([1] * 2)
        self.pump()
        self.successResultOf(self.publisher.when_lost)
        self.assertIsInstance(self.publisher.loss.value, LimitExceededError)


class SlowServerTests(ClientTests):
    """Frames sent one by one to a server that does not read."""

    @override
    def setUp(self) -> None:
        super().setUp()
        self.publisher = self.publish()
        self.transport = self.server.last.transport

    def own(self) -> Consumer:
        assert self.publisher.consumer is not None
        return self.publisher.consumer

    def test_queue_is_bounded_and_what_arrives_can_be_decoded(self) -> None:
        frames = list(start_frames())
        self.transport.stalled = True
        for begin in range(0, 60_000, 200):
            frames += group(begin, size=20_000)
        for frame in frames:
            self.publisher.send(frame)
        limits = QueueLimits()
        self.assertLess(self.transport.unread_size, 200_000)
        self.assertLess(self.own().bytes_queued, limits.max_bytes)
        account = self.own().account
        self.assertEqual(account.messages_in, len(frames))
        self.assertGreater(account.dropped_by_reason[DropReason.QUEUE_FULL], 0)
        self.assertTrue(self.own().is_balanced)
        self.transport.stalled = False
        self.pump()
        self.assertEqual(self.own().messages_queued, 0)
        arrived = self.server.last.frames
        self.assertEqual(len(arrived), account.messages_sent)
        assert_decodable(arrived, frames)

    def test_server_that_reads_again_gets_everything_in_order(self) -> None:
        frames = [*start_frames(), *group(0, size=20_000), *group(200, size=20_000)]
        self.transport.stalled = True
        for frame in frames:
            self.publisher.send(frame)
        self.assertGreater(self.own().messages_queued, 0)
        self.transport.stalled = False
        self.pump()
        self.assertEqual(self.server.last.frames, frames)

    def test_queued_frames_are_sent_before_the_goodbye(self) -> None:
        frames = [*start_frames(), *group(0, size=20_000), *group(200, size=20_000)]
        self.transport.stalled = True
        for frame in frames:
            self.publisher.send(frame)
        self.assertGreater(self.own().messages_queued, 0)
        self.publisher.end()
        self.transport.stalled = False
        self.pump()
        self.assertEqual(self.server.last.frames, frames)
        self.assertEqual(self.server.last.order[-3:], ["media", "FCUnpublish", "deleteStream"])
        self.successResultOf(self.publisher.when_lost)
        self.assertEqual(self.own().account.messages_sent, len(frames))

    def test_queued_frames_of_a_lost_server_are_counted_as_dropped(self) -> None:
        self.transport.stalled = True
        for frame in group(0, size=50_000):
            self.publisher.send(frame)
        queued = self.own().messages_queued
        self.assertGreater(queued, 0)
        self.server.last.close(ConnectionLost())
        self.assertEqual((self.own().messages_queued, self.own().account.messages_dropped), (0, queued))
        self.publisher.send(keyframe(1000))
        self.assertEqual(self.own().account.messages_dropped, queued + 1)
        self.assertTrue(self.own().is_balanced)

    def test_first_frame_for_a_lost_server_is_counted_as_dropped(self) -> None:
        self.server.last.close(ConnectionLost())
        self.publisher.send(keyframe(0))
        self.assertEqual((self.own().account.messages_sent, self.own().account.messages_dropped), (0, 1))

    def test_first_frame_waits_while_the_transport_is_full(self) -> None:
        self.publisher.pauseProducing()
        self.publisher.send(keyframe(0))
        self.assertEqual(self.own().messages_queued, 1)
        self.publisher.resumeProducing()
        self.pump()
        self.assertEqual(self.server.last.frames, [keyframe(0)])

    def test_server_that_stops_reading_single_frames_is_given_up(self) -> None:
        self.transport.stalled = True
        for number in range(10):
            self.publisher.send(keyframe(number, 20_000))
        self.clock.pump([1] * 11)
        self.pump()
        self.successResultOf(self.publisher.when_lost)
        self.assertIsInstance(self.publisher.loss.value, LimitExceededError)
