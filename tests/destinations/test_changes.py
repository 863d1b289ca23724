"""Destinations are added, removed, enabled, disabled and reconnected while streams are live."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.error import ConnectionRefusedError
from typing_extensions import override

from rtmprelay import events
from rtmprelay.destinations.status import DestinationState as State
from rtmprelay.errors import ConfigError
from tests.destinations.harness import DestinationTestCase
from tests.helpers import group, start_frames


class ChangeTests(DestinationTestCase):
    """One destination changes; a second one, a player and the publisher notice nothing."""

    @override
    def setUp(self) -> None:
        super().setUp()
        self.server = self.relay.add_stub()
        self.bystander = self.relay.add_stub("two")
        self.relay.add_destination()
        self.relay.add_destination("two", "rtmp://two/live/key")
        self.encoder = self.live()
        self.player = self.relay.server.connect("live")
        self.player.play("cam")
        self.time = 200

    def go_on(self) -> None:
        """Send more frames, and check that the second destination and the player got everything."""
        self.relay.send(self.encoder, *group(self.time))
        self.time += 200
        self.relay.assert_balanced()
        expected = [*start_frames()]
        for begin in range(0, self.time, 200):
            expected += group(begin)
        assert len(self.bystander.connections) == 1
        assert self.bystander.last.frames == expected
        other = self.relay.outlet("two")
        assert (other.messages_in, other.messages_sent, other.messages_dropped) == (
            len(expected),
            len(expected),
            0,
        )
        assert self.player.frames == expected
        assert not self.encoder.connection.lost

    def test_disabled_destination_ends_and_starts_again_when_enabled(self) -> None:
        done = self.destinations.disable("one")
        self.assertNoResult(done)
        assert self.relay.status().state is State.DISABLED
        self.relay.pump()
        self.successResultOf(done)
        assert self.server.last.order[-2:] == ["FCUnpublish", "deleteStream"]
        assert self.server.last.lost
        self.go_on()
        status = self.relay.status()
        assert (status.state, status.enabled, status.outlets) == (State.DISABLED, False, ())
        assert status.messages_sent == 13
        self.destinations.enable("one")
        self.relay.pump()
        assert self.relay.status().state is State.CONNECTED
        assert self.server.last.frames[3:] == group(200)
        self.go_on()
        assert self.relay.status().messages_sent == 13 + 13 + 10

    def test_destination_enabled_during_its_goodbye_connects_after_it(self) -> None:
        self.server.last.transport.stalled = True
        self.destinations.disable("one")
        self.destinations.enable("one")
        self.go_on()
        self.relay.advance(3)
        assert self.relay.status().state is State.CONNECTED
        assert len(self.server.connections) == 2

    def test_destination_configured_as_disabled_connects_when_enabled(self) -> None:
        stub = self.relay.add_stub("three")
        self.relay.add_destination("three", "rtmp://three/live/key", enabled=False)
        assert self.relay.status("three").state is State.DISABLED
        assert stub.attempts == 0
        self.destinations.enable("three")
        self.relay.pump()
        assert self.relay.status("three").state is State.CONNECTED
        self.go_on()

    def test_reconnect_makes_a_second_connection(self) -> None:
        self.destinations.reconnect("one")
        self.go_on()
        assert len(self.server.connections) == 2

    def test_removed_destination_says_goodbye(self) -> None:
        done = self.destinations.remove("one")
        self.relay.pump()
        self.successResultOf(done)
        assert self.server.last.order[-2:] == ["FCUnpublish", "deleteStream"]
        assert "one" not in self.destinations
        assert [status.name for status in self.destinations.statuses()] == ["two"]
        self.go_on()
        self.live("another")
        assert len(self.server.connections) == 1
        (closed,) = self.relay.events_of(events.DestinationClosed)
        assert (closed.destination, closed.reason) == ("one", "the destination was removed")

    def test_destination_added_while_live_gets_the_stream(self) -> None:
        stub = self.relay.add_stub("three")
        self.relay.add_destination("three", "rtmp://three/live/key")
        assert stub.last.frames == [*start_frames(), *group(0)]
        assert len(self.destinations) == 3
        self.go_on()

    def test_failing_destination_disturbs_nobody_else(self) -> None:
        def refuse() -> None:
            self.server.refuse_publish = ("NetStream.Publish.BadName", "no")
            self.server.lose_all()

        def stall() -> None:
            self.server.last.transport.stalled = True

        def garble() -> None:
            self.server.last.say_bytes(b"\x02\x00\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00\x00\x00\x00\x00")

        def vanish() -> None:
            self.server.black_hole = True
            self.server.lose_all()

        def close_port() -> None:
            self.server.failure = ConnectionRefusedError()
            self.server.lose_all()

        for happen in (refuse, stall, garble, vanish, close_port):
            self.setUp()
            happen()
            for _ in range(25):
                self.go_on()
                self.relay.advance(0.5)

    def test_unknown_name_is_a_config_error(self) -> None:
        steer: list[Callable[[str], object]] = [
            self.destinations.remove,
            self.destinations.enable,
            self.destinations.disable,
            self.destinations.reconnect,
        ]
        for function in steer:
            with self.assertRaisesRegex(ConfigError, "there is no destination 'three'"):
                function("three")

    def test_duplicates_are_refused(self) -> None:
        with self.assertRaisesRegex(ConfigError, "two destinations called 'one'"):
            self.relay.add_destination("one", "rtmp://three/live/key")
        for same in ("rtmp://one/live/key", "rtmp://one:1935/live/key", "rtmp://ONE/live/key"):
            with self.assertRaisesRegex(ConfigError, "'one' and 'three' go to the same place") as caught:
                self.relay.add_destination("three", same)
            assert "live/key" not in str(caught.exception)
        assert len(self.destinations) == 2
        self.go_on()
        self.relay.add_destination("three", "rtmp://one/live/key", match="no/*")

    def test_manager_contains_destinations_by_name(self) -> None:
        assert "one" in self.destinations
        assert "three" not in self.destinations
        assert [one.name for one in self.destinations] == ["one", "two"]
