"""Draining a relay in memory: who is asked to connect anew, who is sent away when, and who may still come in."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.drain import Drain
from rtmprelay.node import start_drain
from rtmprelay.testing import MemoryClient, MemoryServer
from rtmprelay.wire.commands import CAN_RECONNECT, StatusCode
from tests.helpers import group, start_frames


def gone(client: MemoryClient) -> bool:
    """Whether a client was sent away."""
    return client.transport.closed


class DrainTests(SynchronousTestCase):
    @override
    def setUp(self) -> None:
        self.server = MemoryServer()
        self.encoder = self.server.connect()
        self.encoder.publish("cam")
        self.encoder.send(*start_frames(), *group(0))
        self.player = self.server.connect()
        self.player.play("cam")

    def drain(self, seconds: float) -> Drain:
        drain = start_drain(self.server.factory, None, None, seconds)
        self.server.pump()
        return drain

    def advance(self, seconds: float) -> None:
        for _ in range(int(seconds * 20)):
            self.server.clock.advance(0.05)
            self.server.pump()

    def modern(self) -> MemoryClient:
        """A player that says in `connect` that it understands a request to reconnect."""
        client = self.server.connect(properties={"capsEx": float(CAN_RECONNECT)})
        client.play("cam")
        return client

    def test_clients_that_know_reconnect_request_are_asked_and_no_others(self) -> None:
        modern = self.modern()
        self.drain(10)
        assert StatusCode.RECONNECT_REQUEST in modern.codes
        assert StatusCode.RECONNECT_REQUEST not in self.player.codes
        assert StatusCode.RECONNECT_REQUEST not in self.encoder.codes

    def test_nobody_is_sent_away_in_the_first_second_and_viewers_go_before_their_encoder(self) -> None:
        drain = self.drain(5)
        self.advance(0.95)
        self.encoder.send(*group(200))
        self.server.pump()
        assert len(self.player.frames) == len(start_frames()) + 20
        assert not gone(self.player)
        self.advance(2.5)
        assert gone(self.player)
        assert not gone(self.encoder)
        self.assertNoResult(drain.finished)
        self.advance(2.5)
        assert gone(self.encoder)
        self.successResultOf(drain.finished)

    def test_newcomers_are_told_to_connect_again(self) -> None:
        self.drain(10)
        late = self.server.connect()
        late.play("cam")
        other = self.server.connect()
        other.publish("other")
        self.server.pump()
        assert "NetStream.Play.Failed" in late.codes
        assert "NetStream.Publish.Denied" in other.codes
