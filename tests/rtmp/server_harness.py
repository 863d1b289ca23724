"""The harness of the RTMP server: a server in memory, with publishers and players."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rtmprelay.testing import MemoryClient, MemoryServer
from rtmprelay.wire.messages import ControlMessage


class ServerTests(SynchronousTestCase):
    """A server in memory, and clients for it."""

    def setUp(self) -> None:
        self.server = MemoryServer()

    def publisher(self, name: str = "cam") -> MemoryClient:
        encoder = self.server.connect()
        encoder.publish(name)
        return encoder

    def player(self, name: str = "cam") -> MemoryClient:
        player = self.server.connect()
        player.play(name)
        return player

    def controls_of(self, client: MemoryClient) -> list[ControlMessage]:
        """What control messages the client gets from now on."""
        received: list[ControlMessage] = []
        self.patch(client.session.channel, "handle_control", received.append)
        return received
