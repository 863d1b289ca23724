"""A client that publishes: its frames, its goodbye, and what the server says meanwhile."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.internet.error import (
    ConnectionLost,
)

from rtmprelay.destinations.failures import FailureClass, classify
from rtmprelay.errors import (
    LocalProtocolError,
)
from rtmprelay.flv.script import with_set_data_frame
from rtmprelay.rtmp.encoding import shared_encoder
from rtmprelay.session.channel import SMALLEST_WINDOW
from rtmprelay.streams.consumer import Consumer
from rtmprelay.wire import commands
from rtmprelay.wire.messages import (
    Acknowledgement,
    Command,
    SetChunkSize,
    UserControl,
    UserControlType,
    WindowAcknowledgementSize,
)
from tests.helpers import group, inter, keyframe, metadata, start_frames
from tests.rtmp.client_harness import ClientTests


class PublishingTests(ClientTests):
    def test_frames_go_out_on_the_message_stream_that_the_server_gave(self) -> None:
        self.server.stream_id = 77
        publisher = self.publish()
        frames = [*start_frames(), *group(0)]
        for frame in frames:
            publisher.send(frame)
        self.pump()
        self.assertEqual({raw.stream_id for raw in self.server.last.media}, {77})
        self.assertEqual(self.server.last.frames, frames)
        self.assertEqual(self.server.last.command("publish").stream_id, 77)

    def test_metadata_goes_in_the_envelope_that_servers_want(self) -> None:
        publisher = self.publish()
        publisher.send(metadata(width=1.0))
        self.pump()
        (raw,) = self.server.last.media
        self.assertEqual(raw.payload, with_set_data_frame(metadata(width=1.0).payload))

    def test_a_consumer_that_is_there_is_used(self) -> None:
        publisher = self.publish()
        session = publisher.session
        encoder = shared_encoder(session.channel.chunk_size, session.stream_id, True)
        publisher.consumer = consumer = Consumer(publisher.write_media, encoder)
        publisher.send(keyframe(0))
        self.pump()
        self.assertIs(publisher.consumer, consumer)
        self.assertEqual(consumer.account.messages_sent, 1)
        self.assertEqual(self.server.last.frames, [keyframe(0)])

    def test_end_unpublishes_and_closes_politely(self) -> None:
        self.server.stream_id = 3
        publisher = self.publish()
        publisher.send(keyframe(0))
        publisher.end()
        self.pump()
        self.assertEqual(self.server.last.order[-3:], ["media", "FCUnpublish", "deleteStream"])
        self.assertEqual(self.server.last.command("FCUnpublish").arguments[0], "KEYMARK?token=QUERYMARK")
        self.assertEqual(self.server.last.command("deleteStream").arguments[0], 3.0)
        self.assertTrue(self.server.last.lost)
        self.assertFalse(self.server.last.transport.aborted)
        self.successResultOf(publisher.when_lost)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_second_end_changes_nothing(self) -> None:
        publisher = self.publish()
        publisher.end()
        publisher.end()
        publisher.loseConnection()
        self.pump()
        self.assertEqual(self.server.last.commands.count("FCUnpublish"), 1)

    def test_sending_after_the_end_is_an_error(self) -> None:
        publisher = self.publish()
        publisher.end()
        self.assertRaises(LocalProtocolError, publisher.send, keyframe(0))

    def test_goodbye_that_is_not_read_is_cut_off_after_two_seconds(self) -> None:
        publisher = self.publish()
        self.server.last.transport.stalled = True
        publisher.end()
        self.clock.advance(1.9)
        self.pump()
        self.assertNoResult(publisher.when_lost)
        self.clock.advance(0.1)
        self.pump()
        self.successResultOf(publisher.when_lost)
        self.assertTrue(self.server.last.transport.aborted)

    def test_abort_says_no_goodbye(self) -> None:
        publisher = self.publish()
        publisher.abortConnection()
        self.pump()
        self.successResultOf(publisher.when_lost)
        self.assertNotIn("FCUnpublish", self.server.last.commands)

    def test_server_that_goes_later_is_the_reason_of_the_loss(self) -> None:
        publisher = self.publish()
        self.server.last.close(ConnectionLost())
        self.successResultOf(publisher.when_lost)
        self.assertEqual(publisher.loss.type, ConnectionLost)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_later_error_status_is_a_refusal_with_the_key_masked(self) -> None:
        for said in ("KEYMARK has expired", "authmod=adobe KEYMARK"):
            publisher = self.publish()
            self.server.last.say(commands.on_status(1, "error", "NetStream.Publish.Failed", said))
            self.pump()
            self.successResultOf(publisher.when_lost)
            failure = classify(publisher.loss)
            self.assertIs(failure.kind, FailureClass.REFUSED)
            self.assertIn("***", failure.sentence)
            self.assertNotIn("KEYMARK", failure.sentence)

    def test_other_status_leaves_the_publish_alone(self) -> None:
        publisher = self.publish()
        self.server.last.say(commands.on_status(1, "status", "NetStream.Data.Start", "x"))
        self.server.last.say(commands.on_status(1, "warning", "NetStream.Odd", "x"))
        self.pump()
        self.assertNoResult(publisher.when_lost)
        publisher.send(keyframe(0))
        self.pump()
        self.assertEqual(self.server.last.frames, [keyframe(0)])

    def test_protocol_error_of_the_server_ends_the_publish(self) -> None:
        publisher = self.publish()
        self.server.last.say(SetChunkSize(0))
        self.pump()
        self.successResultOf(publisher.when_lost)
        self.assertIs(classify(publisher.loss).kind, FailureClass.PROTOCOL)

    def test_pings_and_acknowledgements_are_answered_while_publishing(self) -> None:
        self.publish()
        connection = self.server.last
        connection.say(UserControl(UserControlType.PING_REQUEST, 4711))
        connection.say(Command("ping", 9.0, None, ()))
        connection.say(WindowAcknowledgementSize(SMALLEST_WINDOW))
        connection.say(*[UserControl(UserControlType.STREAM_BEGIN, 1)] * SMALLEST_WINDOW)
        self.pump()
        self.assertIn(UserControl(UserControlType.PING_RESPONSE, 4711), connection.messages)
        self.assertIn("_result", connection.commands)
        self.assertTrue(any(isinstance(message, Acknowledgement) for message in connection.messages))

    def test_media_that_a_server_sends_to_a_publisher_is_ignored(self) -> None:
        publisher = self.publish()
        before = publisher.session.channel.bytes_received
        said = publisher.session.send_media(keyframe(0, 5000))
        self.server.last.say_bytes(said)
        self.server.last.say(Command("onStatus", 0.0, None, ("no object",)))
        self.pump()
        self.assertGreater(publisher.session.channel.bytes_received, before + len(said), "it was read")
        self.assertNoResult(publisher.when_lost)
        # Nothing of it is kept, counted as sent, or sent back, and the publish goes on.
        self.assertEqual(self.server.last.media, [])
        publisher.send(inter(40))
        self.pump()
        self.assertEqual(self.server.last.frames, [inter(40)])
        assert publisher.consumer is not None
        self.assertEqual(publisher.consumer.account.messages_in, 1)
