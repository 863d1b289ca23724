"""Destinations are stopped, and programs react to their events."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.error import ConnectionRefusedError
from zope.interface import implementer

from rtmprelay import events
from rtmprelay.destinations.status import DestinationState as State
from rtmprelay.interfaces import IEventSink, IStreamObserver
from tests.destinations.harness import DestinationTestCase
from tests.helpers import group


class StopTests(DestinationTestCase):
    def test_stop_says_goodbye_to_all_servers(self) -> None:
        stubs = [self.relay.add_stub(name) for name in ("a", "b")]
        for name in ("a", "b"):
            self.relay.add_destination(name, f"rtmp://{name}/live/key")
        self.live()
        stopping = self.destinations.stop()
        self.assertNoResult(stopping)
        self.relay.pump()
        self.successResultOf(stopping)
        for stub in stubs:
            assert stub.last.order[-2:] == ["FCUnpublish", "deleteStream"]
            assert stub.last.lost
        assert {event.reason for event in self.relay.events_of(events.DestinationClosed)} == {
            "the server stops"
        }

    def test_stop_ends_destinations_in_any_state(self) -> None:
        names = ["stalled", "silent", "hole", "gone", "given-up", "held"]
        stubs = {name: self.relay.add_stub(name) for name in names}
        stubs["silent"].silent_about = {"publish"}
        stubs["hole"].black_hole = True
        stubs["gone"].failure = stubs["given-up"].failure = ConnectionRefusedError()
        for name in names:
            self.relay.add_destination(
                name, f"rtmp://{name}/live/key", max_retries=1 if name == "given-up" else 0
            )
        self.live()
        self.relay.advance(3)
        stubs["stalled"].last.transport.stalled = True
        stopping = self.destinations.stop()
        self.relay.advance(1.5)
        self.assertNoResult(stopping)
        self.relay.advance(0.5)
        self.successResultOf(stopping)
        assert stubs["hole"].cancelled == 1
        assert stubs["silent"].last.lost
        self.relay.advance(100)
        assert [stub.attempts for stub in stubs.values()] == [1, 1, 1, 3, 2, 1]
        assert all(status.state is State.IDLE for status in self.destinations.statuses())

    def test_nothing_connects_between_stop_and_start(self) -> None:
        stub = self.relay.add_stub()
        self.relay.add_destination()
        self.successResultOf(self.destinations.stop())
        encoder = self.live()
        self.relay.add_destination("two", "rtmp://one/other/key")
        assert stub.attempts == 0
        # It starts again with the streams that are live.
        self.destinations.start()
        self.relay.pump()
        assert stub.attempts == 2
        self.relay.send(encoder, *group(200))
        assert self.relay.outlet().messages_sent == 23

    def test_stopping_twice_ends_each_destination_once(self) -> None:
        self.relay.add_stub()
        self.relay.add_destination()
        self.live()
        first, second = self.destinations.stop(), self.destinations.stop()
        self.relay.pump()
        self.successResultOf(first)
        self.successResultOf(second)
        assert len(self.relay.events_of(events.DestinationClosed)) == 1

    def test_stop_waits_for_removed_destinations(self) -> None:
        stub = self.relay.add_stub()
        self.relay.add_destination()
        self.live()
        stub.last.transport.stalled = True
        self.destinations.remove("one")
        stopping = self.destinations.stop()
        self.relay.advance(1)
        self.assertNoResult(stopping)
        self.relay.advance(1)
        self.successResultOf(stopping)
        assert stub.open_connections == []
        assert len(self.relay.events_of(events.DestinationClosed)) == 1


class ReactionTests(DestinationTestCase):
    """Programs that react to an event at once."""

    def react(self, kind: type[events.Event], reaction: Callable[[], object]) -> None:
        relay = self.relay

        @implementer(IEventSink)
        class Reacting:
            def event_happened(self, time: float, event: events.Event) -> None:
                if isinstance(event, kind) and "one" in relay.destinations:
                    reaction()

        self.relay.server.factory.events.add_sink(Reacting())

    def test_program_may_remove_a_destination_at_any_event(self) -> None:
        for kind in (
            events.DestinationConnecting,
            events.DestinationConnected,
            events.DestinationFailed,
            events.DestinationReconnecting,
            events.DestinationDropped,
            events.DestinationClosed,
            events.DestinationHeld,
        ):
            self.setUp()
            stub = self.relay.add_stub()
            self.react(kind, lambda: self.destinations.remove("one"))
            self.relay.add_destination()
            encoder = self.live()
            self.relay.send(encoder, *group(200))
            for connection in stub.connections[:1]:
                connection.close()
            self.relay.send(encoder, *group(400)[1:])
            self.relay.advance(5)
            encoder.disconnect(clean=False)
            self.relay.advance(20)
            assert "one" not in self.destinations, kind.__name__
            assert all(connection.lost for connection in stub.connections), kind.__name__
            assert self.flushLoggedErrors() == [], kind.__name__
            assert len(self.relay.events_of(events.DestinationClosed)) == 1, kind.__name__

    def test_program_may_reconnect_or_disable_a_destination_at_any_event(self) -> None:
        for kind in events.event_types():
            if not issubclass(kind, events.DestinationEvent):
                continue
            for reaction in (self.destinations.reconnect, self.destinations.disable):
                with self.subTest(event=kind.__name__, reaction=reaction.__name__):
                    self.run_through_failures(kind, reaction.__name__)

    def run_through_failures(self, kind: type[events.Event], reaction: str) -> None:
        """Lose the server, the publisher and the server again; react to the first event of this kind."""
        self.setUp()
        stub = self.relay.add_stub()
        reacted: list[bool] = []

        def react() -> None:
            if not reacted:
                reacted.append(True)
                getattr(self.destinations, reaction)("one")

        self.react(kind, react)
        self.relay.add_destination(max_retries=1)
        encoder = self.live()
        self.relay.advance(6)
        stub.failure = ConnectionRefusedError()
        stub.lose_all()
        # The first group is lost, the second one is sent with the next connection.
        self.relay.send(encoder, *group(200), *group(400))
        self.relay.advance(10)
        stub.failure = None
        self.destinations.reconnect("one")
        self.relay.advance(60)
        encoder.disconnect(clean=False)
        self.relay.advance(1)
        encoder = self.live()
        encoder.disconnect(clean=False)
        self.relay.advance(20)
        assert self.flushLoggedErrors() == []
        assert self.relay.status().outlets == ()
        assert stub.open_connections == []
        assert reacted or kind is events.DestinationSourceRefused

    def test_destination_removed_before_its_turn_gets_no_stream(self) -> None:
        stubs = [self.relay.add_stub(), self.relay.add_stub("two")]
        self.react(
            events.DestinationConnecting,
            lambda: "two" in self.destinations and self.destinations.remove("two"),
        )
        self.relay.add_destination()
        self.relay.add_destination("two", "rtmp://two/live/key")
        self.live()
        assert [stub.attempts for stub in stubs] == [1, 0]

    def test_program_may_disable_a_destination_that_was_given_up(self) -> None:
        self.relay.add_stub().failure = ConnectionRefusedError()
        self.react(events.DestinationGivenUp, lambda: self.destinations.disable("one"))
        self.relay.add_destination(max_retries=1)
        self.live()
        self.relay.advance(5)
        assert self.relay.status().state is State.DISABLED
        assert self.relay.status().outlets == ()

    def test_program_may_reconnect_a_destination_that_was_given_up(self) -> None:
        stub = self.relay.add_stub()
        stub.failure = ConnectionRefusedError()
        self.react(events.DestinationGivenUp, lambda: self.destinations.reconnect("one"))
        self.relay.add_destination(max_retries=1)
        self.live()
        self.relay.advance(2)
        stub.failure = None
        self.relay.advance(5)
        assert self.relay.status().state is State.CONNECTED
        assert len(self.relay.events_of(events.DestinationGivenUp)) > 0

    def test_failing_observer_of_streams_disturbs_no_destination(self) -> None:
        @implementer(IStreamObserver)
        class Broken:
            def stream_started(self, stream: object) -> None:
                raise ValueError("broken")

            def stream_stopped(self, stream: object, clean: bool) -> None:
                raise ValueError("broken")

        self.relay.server.registry.add_observer(Broken())
        self.relay.add_stub()
        self.relay.add_destination()
        self.live().end()
        self.relay.pump()
        assert self.relay.status().messages_sent == 13
        assert len(self.flushLoggedErrors(ValueError)) == 2
