"""`rtmprelay.client`, which programs use."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import cast
from unittest import mock

from twisted.internet.defer import Deferred
from twisted.internet.error import (
    ConnectionAborted,
)
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay import client
from rtmprelay.errors import (
    ConfigError,
)
from rtmprelay.media import MediaFrame
from rtmprelay.rtmp.client import (
    RtmpClientProtocol,
    RtmpPlayClientProtocol,
    RtmpPublisherProtocol,
)
from rtmprelay.rtmp.endpoint import TlsTrust
from rtmprelay.testing import MemoryEndpoint, MemoryServer
from tests.helpers import keyframe


class FunctionTests(SynchronousTestCase):
    """`rtmprelay.client`, which programs use."""

    def test_address_of_another_scheme_is_a_config_error(self) -> None:
        for function in (client.publish, client.play):
            self.assertRaises(ConfigError, function, MemoryReactorClock(), "http://host/app")

    def connect(self, server: MemoryServer, function: str, url: str) -> Deferred[RtmpClientProtocol]:
        with mock.patch.object(client, "transport_endpoint", return_value=MemoryEndpoint(server)) as made:
            asking = getattr(client, function)(server.clock, url, TlsTrust(verify=False))
        self.assertEqual(made.call_args.args[2], TlsTrust(verify=False))
        server.pump()
        return cast("Deferred[RtmpClientProtocol]", asking)

    def test_frames_published_by_one_client_are_played_by_another(self) -> None:
        server = MemoryServer()
        publisher = self.successResultOf(self.connect(server, "publish", "rtmp://host/app/cam"))
        player = self.successResultOf(self.connect(server, "play", "rtmp://host/app/cam"))
        assert isinstance(publisher, RtmpPublisherProtocol)
        assert isinstance(player, RtmpPlayClientProtocol)
        frames: list[MediaFrame] = []
        player.deliver_to(frames.extend)
        publisher.send(keyframe(5))
        server.pump()
        self.assertEqual(frames, [keyframe(5)])
        publisher.end()
        player.end()
        server.pump()
        self.successResultOf(publisher.when_lost)
        self.successResultOf(player.when_lost)

    def test_aborted_connection_keeps_the_reason_of_the_transport(self) -> None:
        """An aborted connection says why, whatever the transport calls it."""
        server = MemoryServer()
        publisher = self.successResultOf(self.connect(server, "publish", "rtmp://host/app/cam"))
        publisher.connectionLost(Failure(ConnectionAborted()))
        self.assertEqual(publisher.loss.type, ConnectionAborted)
