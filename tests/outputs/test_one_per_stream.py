"""Outputs of which each stream has one: when they begin, how long they are kept, when they end."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from rtmprelay.interfaces import IStreamOutput
from rtmprelay.outputs.base import OnePerStream
from rtmprelay.streams.frames import FrameBatch
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamRegistry
from tests.streams.helpers import FakePublisher, KeepingSubscriber, audio


@implementer(IStreamOutput)
class KeepingOutput(KeepingSubscriber):
    """Keeps what it gets, and why it ended."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key

    def end(self, reason: str) -> None:
        self.told.append(f"end: {reason}")


@implementer(IStreamOutput)
class BrokenOutput(KeepingOutput):
    def frames_arrived(self, batch: FrameBatch) -> None:
        raise ValueError("a bug")


class OnePerStreamTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.registry = StreamRegistry()
        self.made: list[KeepingOutput] = []
        self.kind = KeepingOutput
        self.publisher = FakePublisher()

    def outputs(self, keep_for: float = 0.0) -> OnePerStream[KeepingOutput]:
        outputs = OnePerStream(self.registry, self.make, self.clock, keep_for)
        outputs.start()
        return outputs

    def make(self, stream: LiveStream) -> KeepingOutput | None:
        if stream.key.startswith("private/"):
            return None
        self.made.append(self.kind(stream.key))
        return self.made[-1]

    def publish(self, key: str = "live/cam") -> LiveStream:
        return self.registry.publish(key, self.publisher, self.clock.seconds())

    def send(self, stream: LiveStream, timestamp_ms: int) -> None:
        stream.publish_frames([audio(timestamp_ms)], self.clock.seconds())

    def unpublish(self, stream: LiveStream, clean: bool = True) -> None:
        self.registry.unpublish(stream, self.publisher, clean)

    def test_each_stream_gets_one_output_from_its_first_frame_on(self) -> None:
        outputs = self.outputs()
        cam, desk = self.publish("live/cam"), self.publish("live/desk")
        self.send(cam, 40)
        self.send(desk, 80)
        self.assertEqual([output.key for output in outputs], ["live/cam", "live/desk"])
        self.assertEqual([output.frames for output in outputs], [[audio(40)], [audio(80)]])
        self.assertIs(outputs.get("live/cam"), self.made[0])

    def test_a_stream_for_which_nothing_is_made_has_no_output(self) -> None:
        outputs = self.outputs()
        stream = self.publish("private/cam")
        self.assertIsNone(outputs.get("private/cam"))
        self.unpublish(stream)
        self.assertEqual(stream.subscribers, ())

    def test_streams_that_were_live_before_the_start_get_an_output_then(self) -> None:
        outputs = OnePerStream(self.registry, self.make, self.clock)
        self.publish()
        self.assertEqual(list(outputs), [])
        outputs.start()
        self.assertEqual([output.key for output in outputs], ["live/cam"])

    def test_an_output_ends_with_its_publisher_and_says_how_that_went(self) -> None:
        for clean, reason in ((True, "the publisher ended"), (False, "the publisher was lost")):
            outputs = self.outputs()
            self.unpublish(self.publish(), clean)
            self.assertEqual(self.made[-1].told, ["begin", "left", f"end: {reason}"])
            self.assertEqual(list(outputs), [])
            self.assertIsNone(self.registry.get("live/cam"))
            outputs.stop("done")

    def test_an_output_that_is_kept_goes_on_with_the_publisher_that_returns(self) -> None:
        outputs = self.outputs(keep_for=30)
        stream = self.publish()
        self.send(stream, 40)
        self.unpublish(stream, clean=False)
        self.clock.advance(29)
        self.send(self.publish(), 0)
        (output,) = outputs
        self.assertEqual(output.told, ["begin", "left", "returned", "begin"])
        # The timeline went on while nobody published.
        self.assertEqual(output.frames, [audio(40), audio(29_040)])
        self.clock.advance(60)
        self.assertEqual(list(outputs), [output])

    def test_an_output_that_is_kept_ends_when_nobody_returns(self) -> None:
        outputs = self.outputs(keep_for=30)
        self.unpublish(self.publish())
        self.clock.advance(29.9)
        self.assertEqual(self.made[0].told, ["begin", "left"])
        self.clock.advance(0.1)
        self.assertEqual(self.made[0].told, ["begin", "left", "end: the publisher ended"])
        self.assertEqual(list(outputs), [])
        self.assertIsNone(self.registry.get("live/cam"))

    def test_one_output_can_be_ended_while_its_stream_goes_on(self) -> None:
        outputs = self.outputs()
        stream = self.publish()
        output = outputs.end("live/cam", "on request")
        self.send(stream, 40)
        self.assertIs(output, self.made[0])
        self.assertEqual(self.made[0].frames, [])
        self.assertEqual(self.made[0].told, ["begin", "end: on request"])
        self.assertIsNone(outputs.end("live/cam", "on request"))

    def test_a_stop_ends_all_outputs_and_no_timer_is_left(self) -> None:
        outputs = self.outputs(keep_for=30)
        self.publish("live/desk")
        self.unpublish(self.publish())
        outputs.stop("the server stops")
        self.publish("live/late")
        self.assertEqual([output.told[-1] for output in self.made], ["end: the server stops"] * 2)
        self.assertEqual(list(outputs), [])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_output_that_failed_is_made_anew_for_the_next_publisher(self) -> None:
        outputs = self.outputs(keep_for=30)
        self.kind = BrokenOutput
        stream = self.publish()
        self.send(stream, 40)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.unpublish(stream)
        self.kind = KeepingOutput
        self.send(self.publish(), 80)
        self.assertEqual(self.made[0].told[-1], "end: an internal error")
        self.assertIs(outputs.get("live/cam"), self.made[1])
        self.assertEqual(self.made[1].frames, [audio(80)])
