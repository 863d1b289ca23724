"""Which stream is sent to which destination."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from rtmprelay import events
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationState as State
from tests.destinations.harness import DestinationTestCase, destination
from tests.helpers import group


class RoutingTests(DestinationTestCase):
    def test_second_stream_gets_a_key_when_the_first_has_ended(self) -> None:
        stub = self.relay.add_stub()
        self.relay.add_destination()
        first = self.live("first")
        second = self.live("second")
        assert len(stub.connections) == 1
        (refused,) = self.relay.events_of(events.DestinationSourceRefused)
        assert (refused.destination, refused.stream, refused.holder) == ("one", "live/second", "live/first")
        sent = len(stub.last.media)
        self.relay.send(second, *group(200))
        assert len(stub.last.media) == sent, "the second must not be mixed in"
        first.end()
        self.relay.pump()
        assert len(stub.connections) == 2
        assert stub.connections[0].order[-2:] == ["FCUnpublish", "deleteStream"]
        assert self.relay.outlet().stream == "live/second"
        assert stub.last.frames[3:] == group(200)
        self.relay.assert_balanced()

    def test_held_stream_keeps_its_key(self) -> None:
        stub = self.relay.add_stub()
        self.relay.add_destination(linger=5.0)
        first = self.live("first")
        self.live("second")
        first.disconnect(clean=False)
        self.relay.advance(4.5)
        assert self.relay.outlet().stream == "live/first"
        self.relay.advance(0.5)
        assert self.relay.outlet().stream == "live/second"
        assert len(stub.connections) == 2

    def test_end_of_a_refused_stream_changes_nothing(self) -> None:
        stub = self.relay.add_stub()
        self.relay.add_destination()
        first = self.live("first")
        self.live("second").end()
        self.relay.send(first, *group(200))
        first.end()
        self.relay.pump()
        assert len(stub.connections) == 1
        assert self.relay.status().state is State.IDLE

    def test_refusal_is_reported_once(self) -> None:
        self.relay.add_stub()
        self.relay.add_stub("two")
        self.relay.add_destination()
        self.live("first")
        self.live("second")
        self.relay.add_destination("two", "rtmp://two/live")
        self.destinations.enable("two")
        assert len(self.relay.events_of(events.DestinationSourceRefused)) == 1

    def test_refusal_of_a_new_publisher_is_reported_again(self) -> None:
        self.relay.add_stub()
        self.relay.add_destination()
        self.live("first")
        second = self.live("second")
        second.end()
        second.publish("second")
        assert len(self.relay.events_of(events.DestinationSourceRefused)) == 2

    def assert_one_gets_it(self, *settings: DestinationSettings) -> None:
        """Check that the first destination gets the stream, and the second when the first is removed."""
        self.setUp()
        server = self.relay.add_server("one")
        for one in settings:
            self.destinations.add(one)
        first, second = (one.name for one in settings)
        encoder = self.live()
        self.relay.advance(20)
        assert server.events_of(events.PublishRefused) == []
        assert self.relay.status(first).messages_sent == 13
        assert self.relay.status(second).outlets == ()
        (refused,) = self.relay.events_of(events.DestinationSourceRefused)
        assert (refused.destination, refused.stream, refused.holder) == (
            second,
            "live/cam",
            f"live/cam through {first}",
        )
        self.destinations.remove(first)
        self.relay.advance(1)
        self.relay.send(encoder, *group(200))
        assert self.relay.outlet(second).messages_sent == 23
        assert server.events_of(events.PublishRefused) == []
        assert len(self.relay.events_of(events.DestinationSourceRefused)) == 1

    def test_one_of_two_destinations_with_the_same_address_gets_the_stream(self) -> None:
        for one, other in (
            (destination("a", match="live/*"), destination("b", match="*")),
            (destination("a", "rtmp://one/app"), destination("b", "rtmp://one/app/{name}")),
            (destination("a", "rtmp://one/app/{name}"), destination("b", "rtmp://one:1935/app")),
            (destination("a", "rtmp://one/{app}/key"), destination("b", "rtmp://one/live/key")),
        ):
            self.assert_one_gets_it(one, other)

    def test_second_stream_for_a_key_is_refused_through_another_destination(self) -> None:
        server = self.relay.add_server("one")
        self.relay.add_destination("a", match="live/*")
        self.relay.add_destination("b", match="show/*")
        first = self.live("cam")
        self.live("cam", "show")
        self.relay.advance(20)
        assert server.events_of(events.PublishRefused) == []
        (refused,) = self.relay.events_of(events.DestinationSourceRefused)
        assert (refused.stream, refused.holder) == ("show/cam", "live/cam through a")
        first.end()
        self.relay.advance(1)
        assert self.relay.outlet("b").messages_sent == 13
        assert server.events_of(events.PublishRefused) == []

    def test_disabled_destination_frees_its_key(self) -> None:
        self.relay.add_stub()
        self.relay.add_destination("a", match="live/*")
        self.relay.add_destination("b")
        self.live()
        self.destinations.disable("a")
        self.relay.pump()
        assert self.relay.status("b").state is State.CONNECTED
        self.destinations.enable("a")
        self.relay.pump()
        assert self.relay.status("a").outlets == ()
        assert [
            (event.destination, event.holder)
            for event in self.relay.events_of(events.DestinationSourceRefused)
        ] == [("b", "live/cam through a"), ("a", "live/cam through b")]

    def test_destination_without_a_key_takes_many_streams(self) -> None:
        for url, keys, apps in (
            ("rtmp://one/app", ["a", "b"], ["app", "app"]),
            ("rtmp://one/{app}/x-{name}", ["x-a", "x-b"], ["live", "live"]),
            ("rtmp://one/{name}/key", ["key", "key"], ["a", "b"]),
        ):
            self.setUp()
            stub = self.relay.add_stub()
            self.relay.add_destination(url=url)
            self.live("a")
            self.live("b")
            assert self.keys(stub) == keys
            assert self.apps(stub) == apps
            assert len(self.relay.status().outlets) == 2
            assert self.relay.status().messages_sent == 26
            assert self.relay.events_of(events.DestinationSourceRefused) == []

    def test_match_chooses_the_streams(self) -> None:
        stub = self.relay.add_stub()
        self.relay.add_destination(url="rtmp://one/app", match="live/cam*")
        self.live("cam1")
        self.live("other")
        self.live("cam1", "show")
        self.live("cam2")
        assert self.keys(stub) == ["cam1", "cam2"]

    def test_app_of_several_parts_is_filled_in(self) -> None:
        stub = self.relay.add_stub()
        self.relay.add_destination(url="rtmp://one/{app}")
        self.live("cam", "live/inner")
        assert (self.apps(stub), self.keys(stub)) == (["live/inner"], ["cam"])

    def test_status_adds_up_the_streams_of_a_destination(self) -> None:
        self.relay.add_stub()
        self.relay.add_destination(url="rtmp://one/app")
        self.live("a")
        self.relay.advance(5)
        b = self.live("b")
        status = self.relay.status()
        assert (status.connect_time, status.last_sent_time) == (0.0, 5.0)
        self.relay.stubs["one"].refuse_publish = ("NetStream.Publish.BadName", "no")
        self.live("c")
        status = self.relay.status()
        assert (status.state, status.error_class) == (State.ERROR, "refused")
        assert status.next_attempt_time == 15.0
        b.end()
        self.relay.pump()
        assert self.relay.status().messages_sent == 26
        assert self.relay.status().bytes_sent == status.bytes_sent
