"""The endpoint that connects when the publish is accepted, alone and in a `ClientService`."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import cast
from unittest import mock

from twisted.application.internet import ClientService
from twisted.internet.error import (
    ConnectionLost,
)
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from typing_extensions import override

from rtmprelay.errors import (
    DestinationRefusedError,
)
from rtmprelay.rtmp.client import (
    RtmpPublisherProtocol,
)
from rtmprelay.rtmp.endpoint import RtmpPublishEndpoint
from rtmprelay.testing import MemoryEndpoint, MemoryServer
from rtmprelay.wire import commands
from rtmprelay.wire.url import RtmpUrl
from tests.rtmp.client_harness import URL, ClientTests


class Upper(Protocol):
    """What an endpoint builds on top."""

    lost: Failure | None = None

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = reason


class EndpointTests(ClientTests):
    @override
    def setUp(self) -> None:
        super().setUp()
        transport = cast(IStreamClientEndpoint, self.server)
        self.endpoint = RtmpPublishEndpoint(RtmpUrl.parse(URL), transport, self.clock)
        self.service = ClientService(
            self.endpoint, Factory.forProtocol(Upper), lambda attempt: float(attempt), self.clock
        )

    def test_endpoint_connects_only_when_the_publish_is_accepted(self) -> None:
        self.server.silent_about = {"publish"}
        connecting = self.endpoint.connect(Factory.forProtocol(Upper))
        self.pump()
        self.assertNoResult(connecting)
        self.server.last.say(commands.on_status(1, "status", "NetStream.Publish.Start", "now"))
        upper = self.successResultOf(connecting)
        assert isinstance(upper, Upper)
        self.assertIsInstance(upper.transport, RtmpPublisherProtocol)
        self.server.last.close(ConnectionLost())
        assert upper.lost is not None
        self.assertEqual(upper.lost.type, ConnectionLost)

    def test_refusal_is_a_failed_connection(self) -> None:
        self.server.refuse_publish = ("NetStream.Publish.BadName", "no")
        connecting = self.endpoint.connect(Factory.forProtocol(Upper))
        self.pump()
        failure = self.failureResultOf(connecting, DestinationRefusedError)
        self.assertEqual(str(failure.value), "the server refused: NetStream.Publish.BadName: no")
        self.assertTrue(self.server.last.lost)

    def test_factory_without_a_protocol_gets_a_polite_goodbye_sent(self) -> None:
        factory = Factory.forProtocol(Upper)
        with mock.patch.object(factory, "buildProtocol", return_value=None):
            connecting = self.endpoint.connect(factory)
            self.pump()
        self.failureResultOf(connecting, ConnectionAbortedError)
        self.assertEqual(self.server.last.order[-2:], ["FCUnpublish", "deleteStream"])
        self.assertTrue(self.server.last.lost)

    def test_stopped_service_says_goodbye(self) -> None:
        self.service.startService()
        self.pump()
        self.successResultOf(self.service.whenConnected())
        stopping = self.service.stopService()
        self.assertNoResult(stopping)
        self.pump()
        self.successResultOf(stopping)
        self.assertEqual(self.server.last.order[-2:], ["FCUnpublish", "deleteStream"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_service_stopped_while_negotiating_leaves_nothing_open(self) -> None:
        for silence in ("connect", "createStream", "publish"):
            self.server.silent_about = {silence}
            self.service.startService()
            self.pump()
            stopping = self.service.stopService()
            self.pump()
            self.successResultOf(stopping)
            self.assertTrue(self.server.last.lost)
            self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_service_tries_again_after_a_refusal_and_after_a_loss(self) -> None:
        self.server.refuse_publish = ("NetStream.Publish.BadName", "no")
        self.service.startService()
        self.pump()
        self.server.refuse_publish = None
        self.clock.advance(1)
        self.pump()
        self.successResultOf(self.service.whenConnected())
        self.server.last.close()
        self.clock.advance(1)
        self.pump()
        self.assertEqual(len(self.server.connections), 3)
        self.assertFalse(self.server.last.lost)
        self.service.stopService()
        self.pump()

    def test_our_own_server_refuses_a_second_publisher_without_naming_the_key(self) -> None:
        server = MemoryServer(clock=self.clock)
        endpoint = RtmpPublishEndpoint(RtmpUrl.parse(URL), MemoryEndpoint(server), self.clock)
        connecting = endpoint.connect(Factory.forProtocol(Upper))
        server.pump()
        self.successResultOf(connecting)
        second = endpoint.connect(Factory.forProtocol(Upper))
        server.pump()
        failure = self.failureResultOf(second, DestinationRefusedError)
        self.assertNotIn("KEYMARK", str(failure.value))
        self.assertIn("BadName", str(failure.value))
