"""A new configuration is applied while streams are live."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import Any

from twisted.internet.error import ConnectionRefusedError
from typing_extensions import override

from rtmprelay import events
from rtmprelay.destinations.manager import Changes
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationState as State
from rtmprelay.errors import ConfigError
from tests.destinations.harness import DestinationTestCase, destination
from tests.helpers import group


class ReloadTests(DestinationTestCase):
    @override
    def setUp(self) -> None:
        super().setUp()
        self.stubs = [self.relay.add_stub(name) for name in ("a", "b", "c")]
        self.apply(self.of("a"), self.of("b"))
        self.encoder = self.live()

    def of(self, name: str, **more: Any) -> DestinationSettings:
        return destination(name, f"rtmp://{name}/live/key", **more)

    def apply(self, *wanted: DestinationSettings) -> Changes:
        changes = self.destinations.apply(wanted)
        self.relay.pump()
        return changes

    def connections(self) -> list[int]:
        return [len(stub.connections) for stub in self.stubs]

    def test_same_configuration_changes_nothing(self) -> None:
        assert self.apply(self.of("a"), self.of("b")) == Changes((), (), ())
        assert self.apply(self.of("b"), self.of("a")) == Changes((), (), ())
        assert self.connections() == [1, 1, 0]

    def test_only_changed_destinations_are_touched(self) -> None:
        changes = self.apply(self.of("c"), self.of("b", match="live/*"))
        assert changes == Changes(added=("c",), removed=("a",), changed=("b",))
        self.relay.advance(1)
        assert self.connections() == [1, 2, 1]
        assert self.stubs[0].last.lost
        assert self.stubs[0].last.order[-2:] == ["FCUnpublish", "deleteStream"]
        assert {one.name for one in self.destinations} == {"b", "c"}
        self.relay.send(self.encoder, *group(200))
        assert self.stubs[2].last.frames[-10:] == group(200)
        assert self.stubs[1].last.frames[-10:] == group(200)

    def test_unchanged_destination_keeps_its_connection(self) -> None:
        before = self.relay.outlet("b")
        self.apply(self.of("b"))
        assert self.relay.outlet("b") == before

    def test_settings_that_a_connection_can_live_with_keep_it(self) -> None:
        before = self.relay.outlet("b")
        for more in (
            {"metadata": {"note": "new"}},
            {"linger": 3.0},
            {"max_retries": 7},
            {"failures_before_backup": 2},
            {"metadata": {"note": "newer"}, "linger": 4.0, "max_retries": 8, "failures_before_backup": 1},
        ):
            changes = self.apply(self.of("a"), self.of("b", **more))
            assert changes == Changes((), (), ("b",)), more
            assert self.relay.outlet("b") == before
        assert self.connections() == [1, 1, 0]
        assert [one.name for one in self.destinations] == ["a", "b"]
        assert self.relay.status("b").metadata == {"note": "newer"}
        assert self.relay.events_of(events.DestinationClosed) == []
        self.encoder.disconnect(clean=False)
        (lingers,) = {
            held.linger for held in self.relay.events_of(events.DestinationHeld) if held.destination == "b"
        }
        assert lingers == 4.0

    def test_settings_of_the_connection_make_a_new_one(self) -> None:
        backup = (destination(url="rtmp://c/live/key").url,)
        for more in ({"backup": backup}, {"verify": False}, {"ca_file": "x"}, {"match": "l*"}):
            self.apply(self.of("a", linger=3.0, **more))
            self.relay.advance(1)
        assert self.connections() == [5, 1, 0]
        self.apply(self.of("a", linger=3.0, enabled=False))
        assert self.relay.status("a").state is State.DISABLED

    def test_new_max_retries_counts_the_failures_so_far(self) -> None:
        self.stubs[0].failure = ConnectionRefusedError()
        self.stubs[0].lose_all()
        self.relay.advance(4)
        attempts = self.stubs[0].attempts
        self.apply(self.of("a", max_retries=attempts))
        assert self.stubs[0].attempts == attempts
        self.relay.advance(200)
        assert self.stubs[0].attempts == attempts + 1
        assert self.relay.outlet("a").given_up
        # A new note does not make it try again; more retries do.
        self.apply(self.of("a", max_retries=attempts, metadata={"note": "new"}))
        self.relay.advance(200)
        assert self.stubs[0].attempts == attempts + 1
        self.stubs[0].failure = None
        self.apply(self.of("a"))
        self.relay.advance(1)
        assert self.relay.status("a").state is State.CONNECTED

    def test_new_failures_before_backup_counts_at_the_next_failure(self) -> None:
        backup = (destination(url="rtmp://c/live/key").url,)
        self.apply(self.of("a", backup=backup, failures_before_backup=9))
        self.relay.advance(1)
        self.stubs[0].failure = ConnectionRefusedError()
        self.apply(self.of("a", backup=backup, failures_before_backup=1))
        self.stubs[0].lose_all()
        self.relay.advance(2)
        assert self.connections() == [2, 1, 1]

    def test_empty_configuration_removes_all_destinations(self) -> None:
        assert self.apply() == Changes((), ("a", "b"), ())
        assert len(self.destinations) == 0

    def test_configuration_with_duplicates_changes_nothing(self) -> None:
        with self.assertRaises(ConfigError):
            self.apply(self.of("c"), self.of("c"))
        assert [one.name for one in self.destinations] == ["a", "b"]
        assert self.connections() == [1, 1, 0]

    def test_changed_destination_connects_after_its_old_connection_has_gone(self) -> None:
        """The server refuses a key that is in use."""
        server = self.relay.add_server("d")
        self.apply(self.of("d"))
        self.apply(self.of("d", match="live/*"))
        self.relay.advance(1)
        assert server.events_of(events.PublishRefused) == []
        assert self.relay.status("d").state is State.CONNECTED

    def test_changed_destination_waits_for_a_server_that_is_slow_to_close(self) -> None:
        slow = self.stubs[0].last
        slow.transport.stalled = True
        self.apply(self.of("a", match="live/*"))
        assert self.connections() == [1, 1, 0]
        self.relay.advance(2.5)
        assert slow.lost
        assert self.connections() == [2, 1, 0]
        assert self.relay.status("a").state is State.CONNECTED

    def test_renamed_destination_connects_after_its_old_connection_has_gone(self) -> None:
        slow = self.stubs[0].last
        slow.transport.stalled = True
        self.apply(destination("renamed", "rtmp://a/live/key"), self.of("b"))
        self.relay.advance(2.5)
        assert slow.lost
        assert self.relay.status("renamed").state is State.CONNECTED
