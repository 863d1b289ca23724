"""Closing: politely, with everybody told, and in time whatever a peer does."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rtmprelay import events
from rtmprelay.testing import MemoryClient, MemoryServer
from tests.helpers import group, keyframe


class ShutDownTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.server = MemoryServer()

    def client(self) -> MemoryClient:
        return self.server.connect()

    def test_shutdown_ends_every_publish_and_play_with_its_reason(self) -> None:
        for publisher_first in (True, False):
            with self.subTest(publisher_first=publisher_first):
                self.server = MemoryServer()
                first, second = self.client(), self.client()
                encoder, player = (first, second) if publisher_first else (second, first)
                encoder.publish("cam")
                player.play("cam")
                encoder.send(keyframe(0))
                stopped = self.server.factory.shut_down()
                self.assertNoResult(stopped)
                self.server.pump()
                self.successResultOf(stopped)
                assert player.frames == [keyframe(0)]
                assert encoder.codes == ["NetStream.Unpublish.Success"]
                assert player.codes == ["NetStream.Play.Reset", "NetStream.Play.UnpublishNotify"]
                closed = self.server.events_of(events.ConnectionClosed)
                assert [event.reason for event in closed] == ["the server stops"] * 2
                (publish_stopped,) = self.server.events_of(events.PublishStopped)
                assert publish_stopped.clean
                assert len(self.server.events_of(events.PlayStopped)) == 1
                assert len(self.server.registry) == 0
                assert self.server.clock.getDelayedCalls() == []

    def test_server_without_connections_shuts_down_at_once(self) -> None:
        self.successResultOf(self.server.factory.shut_down())
        assert self.server.events == []
        assert self.server.clock.getDelayedCalls() == []
        assert self.server.open() is None

    def test_newcomers_are_refused_meanwhile_and_welcome_after_a_start(self) -> None:
        self.client()
        self.server.factory.shut_down()
        assert self.server.open() is None
        (refused,) = self.server.events_of(events.ConnectionRefused)
        assert refused.reason == "the server stops"
        self.server.pump()
        self.server.factory.doStart()
        assert self.server.open() is not None

    def test_a_peer_that_does_not_read_is_cut_off_after_two_seconds(self) -> None:
        encoder, player = self.client(), self.client()
        encoder.publish("cam")
        player.play("cam")
        player.transport.stalled = True
        encoder.send(*group(0, 10, 20_000))
        stopped = self.server.factory.shut_down()
        self.server.pump()
        assert encoder.connection.lost
        self.server.advance(1.9, 0.1)
        self.assertNoResult(stopped)
        self.assertFalse(player.transport.aborted)
        self.server.advance(0.2, 0.1)
        assert player.transport.aborted
        self.successResultOf(stopped)
        assert self.server.clock.getDelayedCalls() == []

    def test_a_connection_in_its_handshake_is_closed_too(self) -> None:
        connection = self.server.open()
        assert connection is not None
        stopped = self.server.factory.shut_down()
        assert connection.transport.closing
        self.server.clock.advance(2)
        assert connection.transport.aborted
        connection.lose()
        self.successResultOf(stopped)

    def test_second_request_to_shut_down_is_answered_too(self) -> None:
        self.client()
        first = self.server.factory.shut_down()
        second = self.server.factory.shut_down()
        self.assertNoResult(second)
        self.server.pump()
        self.successResultOf(first)
        self.successResultOf(second)
        assert len(self.server.events_of(events.ConnectionClosed)) == 1
        assert self.server.clock.getDelayedCalls() == []

    def test_data_of_a_closing_connection_is_ignored(self) -> None:
        encoder = self.client()
        encoder.publish("cam")
        self.server.factory.shut_down()
        encoder.deliver(encoder.session.send_media(keyframe(0)))
        encoder.deliver(b"\xff" * 100)
        self.server.pump()
        (closed,) = self.server.events_of(events.ConnectionClosed)
        assert closed.reason == "the server stops"

    def test_first_reason_to_close_is_the_one_that_is_reported(self) -> None:
        client = self.client()
        protocol = client.connection.protocol
        protocol.close_politely("first")
        protocol.close_politely("second")
        protocol.close_now("third")
        self.server.pump()
        assert client.transport.aborted
        (closed,) = self.server.events_of(events.ConnectionClosed)
        assert closed.reason == "first"
        assert self.server.clock.getDelayedCalls() == []

    def test_a_sink_may_close_what_has_just_opened(self) -> None:
        """The timer that cuts a slow peer off stays, whichever side closes."""
        closed_by_sink: list[str] = []

        class Bouncer(MemoryServer):
            def event_happened(bouncer, time: float, event: events.Event) -> None:  # noqa: N805
                if isinstance(event, events.ConnectionOpened):
                    (protocol,) = self.server.factory.connections
                    closed_by_sink.append(event.connection)
                    protocol.close_politely("not today")

        self.server.factory.events.add_sink(Bouncer())
        connection = self.server.open()
        assert connection is not None
        assert closed_by_sink == ["c000001"]
        (call,) = self.server.clock.getDelayedCalls()
        self.server.clock.advance(2)
        assert not call.active()
        assert connection.transport.aborted
