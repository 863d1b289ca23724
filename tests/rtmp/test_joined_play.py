"""RTMP players of a stream whose frames are joined: what they are told comes where it belongs."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.rtmp.server import RtmpServerProtocol
from rtmprelay.session.reports import MediaReceived, StatusReceived
from rtmprelay.testing import MemoryClient, MemoryServer
from tests.helpers import group, inter, keyframe, start_frames
from tests.streams.merging_helpers import FixedMerging

WINDOW = 0.04


class JoinedPlayTests(SynchronousTestCase):
    """Has a server that joins, an encoder and a player."""

    @override
    def setUp(self) -> None:
        clock = Clock()
        self.server = MemoryServer(clock=clock, merging=FixedMerging(clock, WINDOW, WINDOW))
        self.encoder = self.server.connect()
        self.encoder.publish("cam")
        self.encoder.send(*start_frames(), *group(0))
        self.player = self.server.connect()
        self.player.play("cam")
        self.player.frames.clear()
        self.player.events.clear()

    def order(self, client: MemoryClient) -> list[str]:
        """What came, in order: frames, or the code of a status."""
        found: list[str] = []
        for event in client.events:
            if isinstance(event, MediaReceived):
                found.append("frames")
            elif isinstance(event, StatusReceived):
                found.append(event.code)
        return found

    def test_frames_of_a_window_arrive_together(self) -> None:
        self.encoder.send(inter(200))
        self.encoder.send(inter(240))
        assert self.player.frames == []
        self.server.advance(WINDOW)
        assert self.player.frames == [inter(200), inter(240)]
        assert self.order(self.player) == ["frames"]

    def test_end_is_reported_after_the_last_frames(self) -> None:
        self.encoder.send(inter(200))
        self.encoder.end()
        assert self.player.frames == [inter(200)]
        assert self.order(self.player) == ["frames", "NetStream.Play.UnpublishNotify"]

    def test_loss_is_reported_after_the_last_frames(self) -> None:
        self.encoder.send(inter(200))
        self.encoder.disconnect(clean=False)
        assert self.order(self.player) == ["frames", "NetStream.Play.UnpublishNotify"]

    def test_player_is_notified_of_a_return_before_the_first_frames(self) -> None:
        self.encoder.send(inter(200))
        self.encoder.disconnect(clean=False)
        encoder = self.server.connect()
        encoder.publish("cam")
        encoder.send(*start_frames(), keyframe(0))
        self.server.advance(WINDOW)
        assert self.order(self.player) == [
            "frames",
            "NetStream.Play.UnpublishNotify",
            "NetStream.Play.PublishNotify",
            "frames",
        ]

    def test_a_player_that_stops_leaves_no_timer(self) -> None:
        before = len(self.server.clock.getDelayedCalls())
        self.encoder.send(inter(200))
        assert len(self.server.clock.getDelayedCalls()) == before + 1
        self.player.end()
        assert len(self.server.clock.getDelayedCalls()) == before

    def test_account_of_a_stalled_player_balances_and_no_frame_is_lost(self) -> None:
        self.player.transport.stalled = True
        for number in range(40):
            self.encoder.send(inter(200 + 40 * number, 5000))
            self.server.clock.advance(WINDOW / 3)
            self.assert_balanced()
        self.player.transport.stalled = False
        self.server.pump()
        self.server.advance(WINDOW)
        self.assert_balanced()
        assert [frame.timestamp_ms for frame in self.player.frames] == [
            200 + 40 * number for number in range(40)
        ]

    def assert_balanced(self) -> None:
        protocol = self.player.connection.protocol
        assert isinstance(protocol, RtmpServerProtocol)
        (player,) = protocol.consumers()
        assert player.is_balanced
