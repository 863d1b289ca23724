"""A publish that the operator of the server ends."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rtmprelay.events import ConnectionClosed, PublishStopped
from rtmprelay.testing import MemoryServer
from tests.helpers import group, keyframe, start_frames

REASON = "ended by the operator of this server"


def kick(server: MemoryServer, key: str = "live/test") -> None:
    """End a publish."""
    stream = server.registry.get(key)
    assert stream is not None
    assert stream.publisher is not None
    stream.publisher.publish_ended(REASON)
    server.pump()


class EndPublishTests(SynchronousTestCase):
    """The encoder and the players are told of the end, and the connection closes."""

    def test_the_encoder_reads_why_before_it_is_closed(self) -> None:
        """It has a second; what it sends meanwhile goes nowhere."""
        server = MemoryServer()
        encoder, player = server.connect(), server.connect()
        encoder.publish("test")
        encoder.send(*start_frames(), *group(0))
        player.play("test")
        kick(server)
        self.assertEqual(encoder.codes, ["NetStream.Publish.Denied"])
        self.assertFalse(encoder.connection.lost)
        got = len(player.frames)
        encoder.send(keyframe(400))
        self.assertEqual(len(player.frames), got)
        self.assertIn("NetStream.Play.UnpublishNotify", player.codes)
        server.advance(1.5, step=0.5)
        self.assertTrue(encoder.connection.lost)
        (stopped,) = server.events_of(PublishStopped)
        self.assertEqual((stopped.reason, stopped.clean), (REASON, True))
        (closed,) = server.events_of(ConnectionClosed)
        self.assertEqual(closed.reason, REASON)

    def test_an_encoder_that_goes_by_itself_leaves_no_timer(self) -> None:
        """As FFmpeg does when it has read why."""
        server = MemoryServer()
        encoder = server.connect()
        encoder.publish("test")
        kick(server)
        encoder.disconnect()
        self.assertEqual(server.clock.getDelayedCalls(), [])

    def test_the_key_is_free_at_once(self) -> None:
        """Another encoder need not wait until the first has gone."""
        server = MemoryServer()
        first, second = server.connect(), server.connect()
        first.publish("test")
        kick(server)
        second.publish("test")
        second.send(*start_frames())
        stream = server.registry.live("live/test")
        assert stream.publisher is not None
        self.assertEqual(stream.publisher.connection_id, "c000002")
        self.assertTrue(stream.publisher.address.startswith("192.0.2."))
