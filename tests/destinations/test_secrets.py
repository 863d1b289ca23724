"""Keys, passwords and queries of addresses are shown nowhere."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import io
from unittest import mock

from twisted.logger import ILogObserver, LogEvent, eventAsText, globalLogPublisher
from typing_extensions import override
from zope.interface import provider

from rtmprelay.errors import ConfigError
from rtmprelay.event_bus import LogSink
from rtmprelay.rtmp.client import RtmpPublisherProtocol
from tests.destinations.harness import DestinationTestCase
from tests.destinations.stub_server import StubServer
from tests.helpers import group

MARKS = ("KeyMaRk", "PaSsMaRk", "QuErYmArK")


class SecretTests(DestinationTestCase):
    """The key, the password and the query of the address."""

    @override
    def setUp(self) -> None:
        super().setUp()
        self.lines: list[str] = []

        @provider(ILogObserver)
        def observe(event: LogEvent) -> None:
            self.lines.append(eventAsText(event, includeSystem=True))
            self.lines.append(repr(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.relay.server.factory.events.add_sink(LogSink())

    def assert_clean(self, what: str, url: str) -> None:
        texts = [*self.lines, *(repr(event) for event in self.relay.server.events)]
        texts += [repr(event.fields()) for event in self.relay.server.events]
        texts += [repr(status) for status in self.destinations.statuses()]
        texts += [repr(one.settings) + str(one.settings.url) + repr(one) for one in self.destinations]
        assert len(texts) > 3
        # A server may name keys that the address does not have.
        for mark in (mark for mark in MARKS if mark in url):
            for text in texts:
                assert mark not in text, f"{what}: {text}"

    def test_nothing_shows_a_secret_of_the_address(self) -> None:
        def accept(stub: StubServer) -> None:
            pass

        def refuse(stub: StubServer) -> None:
            stub.refuse_publish = ("NetStream.Publish.BadName", "app/KeyMaRk?sig=QuErYmArK is taken, KeyMaRk")

        def refuse_connect(stub: StubServer) -> None:
            stub.refuse_connect = lambda command: f"no: {command.command_object!r} PaSsMaRk QuErYmArK"

        def want_authentication(stub: StubServer) -> None:
            stub.refuse_connect = lambda command: (
                f"authmod=adobe {command.command_object!r} ?salt=s&challenge=KeyMaRk&reason=authfailed"
            )

        def garble(stub: StubServer) -> None:
            stub.greets_with = b"KeyMaRk " * 300

        def fail(stub: StubServer) -> None:
            stub.failure = OSError(111, "no way")

        def go_wrong(stub: StubServer) -> None:
            stub.failure = ValueError("rtmp://u:PaSsMaRk@one/app/KeyMaRk")

        for url in (
            "rtmp://user:PaSsMaRk@one/app/KeyMaRk?sig=QuErYmArK",
            "rtmp://user:PaSsMaRk@one/app/KeyMaRk?sig=1&QuErYmArK",
            "rtmp://user:PaSsMaRk@one/app?sig=QuErYmArK",
        ):
            for behave in (accept, refuse, refuse_connect, want_authentication, garble, fail, go_wrong):
                self.setUp()
                stub = self.relay.add_stub()
                behave(stub)
                self.relay.add_destination(url=url, max_retries=2)
                encoder = self.live()
                self.relay.advance(2)
                stub.lose_all()
                self.relay.send(encoder, *group(400))
                self.relay.advance(40)
                self.assert_clean(behave.__name__, url)
                self.destinations.reconnect("one")
                self.relay.pump()
                if stub.connections:
                    stub.last.say_bytes(b"")
                encoder.end()
                self.relay.pump()
                with self.assertRaises(ConfigError) as caught:
                    self.relay.add_destination("again", url)
                self.lines.append(str(caught.exception))
                self.assert_clean(behave.__name__, url)

    def test_traceback_of_a_bug_shows_no_secret(self) -> None:
        stub = self.relay.add_stub()
        url = "rtmp://user:PaSsMaRk@one/app/KeyMaRk?sig=QuErYmArK"
        self.relay.add_destination(url=url)
        with mock.patch.object(RtmpPublisherProtocol, "_request", side_effect=RuntimeError("a bug")):
            self.live()
        self.relay.advance(1)
        (failure,) = self.flushLoggedErrors(RuntimeError)
        text = io.StringIO()
        failure.printTraceback(text)
        self.lines.append(text.getvalue())
        self.assert_clean("a bug", url)
        assert stub.attempts >= 1
