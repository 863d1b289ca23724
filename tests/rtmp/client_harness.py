"""The harness of the RTMP clients: a server in memory that does as the test says, and a clock."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.rtmp.client import (
    ClientSettings,
    RtmpPublisherProtocol,
)
from rtmprelay.rtmp.endpoint import negotiate
from rtmprelay.wire.url import RtmpUrl
from tests.destinations.stub_server import StubServer

URL = "rtmp://host/app/KEYMARK?token=QUERYMARK"


class ClientTests(SynchronousTestCase):
    """A server that does what the test says."""

    @override
    def setUp(self) -> None:
        self.clock = Clock()
        self.server = StubServer()
        self.steps: list[str] = []

    def ask(self, url: str = URL, timeout: float = 10.0) -> Deferred[RtmpPublisherProtocol]:
        """Start to publish."""
        settings = ClientSettings(negotiation_timeout=timeout, progress=self.steps.append)
        asking = Deferred.fromCoroutine(
            negotiate(
                RtmpPublisherProtocol,
                RtmpUrl.parse(url),
                cast(IStreamClientEndpoint, self.server),
                self.clock,
                settings,
            )
        )
        self.pump()
        return asking

    def publish(self, url: str = URL) -> RtmpPublisherProtocol:
        """Publish, and have it accepted."""
        return self.successResultOf(self.ask(url))

    def pump(self) -> None:
        while self.server.pump():
            pass

    def reason(self, asking: Deferred[RtmpPublisherProtocol], kind: type[Exception]) -> str:
        """Why it failed; also checks that nothing is left and no secret is shown."""
        failure = self.failureResultOf(asking, kind)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        for mark in ("KEYMARK", "QUERYMARK", "PASSWORDMARK"):
            self.assertNotIn(mark, str(failure.value))
        return str(failure.value)
