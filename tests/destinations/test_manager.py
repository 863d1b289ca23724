"""All destinations together: routing, steering while live, reloading, stopping; and that secrets stay secret."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any
from unittest import mock

from twisted.internet.error import ConnectionRefusedError
from twisted.logger import ILogObserver, LogEvent, eventAsText, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override
from zope.interface import implementer, provider

from rtmprelay import events
from rtmprelay.destinations.manager import Changes
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationState as State
from rtmprelay.errors import ConfigError
from rtmprelay.event_bus import LogSink
from rtmprelay.interfaces import IEventSink, IStreamObserver
from rtmprelay.rtmp.client import RtmpPublisherProtocol
from rtmprelay.testing import MemoryClient
from tests.destinations.helpers import RelayWorld, StubServer, destination
from tests.helpers import group, start_frames


class ManagerTests(SynchronousTestCase):
    @override
    def setUp(self) -> None:
        self.world = RelayWorld()
        self.manager = self.world.manager

    def live(self, name: str = "cam", app: str = "live") -> MemoryClient:
        """An encoder that has sent its first frames."""
        encoder = self.world.encoder(name, app)
        self.world.send(encoder, *start_frames(), *group(0))
        return encoder

    def keys(self, stub: StubServer) -> list[object]:
        """What was published to a server, in order."""
        return [connection.command("publish").arguments[0] for connection in stub.connections]

    def apps(self, stub: StubServer) -> list[object]:
        """The applications that were asked for, in order."""
        objects = [connection.command("connect").command_object for connection in stub.connections]
        return [values["app"] for values in objects if isinstance(values, dict)]


# -- which stream goes where ---------------------------------------------------------------------------------


class RoutingTests(ManagerTests):
    def test_two_sources_for_one_key(self) -> None:
        stub = self.world.stub()
        self.world.add()
        first = self.live("first")
        second = self.live("second")
        self.assertEqual(len(stub.connections), 1)
        (refused,) = self.world.told(events.DestinationSourceRefused)
        self.assertEqual(
            (refused.destination, refused.stream, refused.holder), ("one", "live/second", "live/first")
        )
        sent = len(stub.last.media)
        self.world.send(second, *group(200))
        self.assertEqual(len(stub.last.media), sent, "the second must not be mixed in")
        first.end()
        self.world.pump()
        self.assertEqual(len(stub.connections), 2)
        self.assertEqual(stub.connections[0].order[-2:], ["FCUnpublish", "deleteStream"])
        self.assertEqual(self.world.outlet().stream, "live/second")
        self.assertEqual(stub.last.frames[3:], group(200))
        self.world.assert_balanced()

    def test_the_first_holds_it_while_it_is_waited_for(self) -> None:
        stub = self.world.stub()
        self.world.add(linger=5.0)
        first = self.live("first")
        self.live("second")
        first.disconnect(clean=False)
        self.world.advance(4.5)
        self.assertEqual(self.world.outlet().stream, "live/first")
        self.world.advance(0.5)
        self.assertEqual(self.world.outlet().stream, "live/second")
        self.assertEqual(len(stub.connections), 2)

    def test_one_that_was_refused_and_ends_is_nobody_s_loss(self) -> None:
        stub = self.world.stub()
        self.world.add()
        first = self.live("first")
        self.live("second").end()
        self.world.send(first, *group(200))
        first.end()
        self.world.pump()
        self.assertEqual(len(stub.connections), 1)
        self.assertIs(self.world.status().state, State.IDLE)

    def test_a_refusal_is_told_once(self) -> None:
        self.world.stub()
        self.world.stub("two")
        self.world.add()
        self.live("first")
        self.live("second")
        self.world.add("two", "rtmp://two/live")
        self.manager.enable("two")
        self.assertEqual(len(self.world.told(events.DestinationSourceRefused)), 1)

    def test_a_refusal_that_is_new_is_told_again(self) -> None:
        self.world.stub()
        self.world.add()
        self.live("first")
        second = self.live("second")
        second.end()
        second.publish("second")
        self.assertEqual(len(self.world.told(events.DestinationSourceRefused)), 2)

    def assert_one_gets_it(self, *settings: DestinationSettings) -> None:
        """One source, two ways to one place: the first has it, and the second when that one goes."""
        self.setUp()
        server = self.world.server("one")
        for one in settings:
            self.manager.add(one)
        first, second = (one.name for one in settings)
        encoder = self.live()
        self.world.advance(20)
        self.assertEqual(server.events_of(events.PublishRefused), [])
        self.assertEqual(self.world.status(first).messages_sent, 13)
        self.assertEqual(self.world.status(second).outlets, ())
        (refused,) = self.world.told(events.DestinationSourceRefused)
        self.assertEqual(
            (refused.destination, refused.stream, refused.holder),
            (second, "live/cam", f"live/cam through {first}"),
        )
        self.manager.remove(first)
        self.world.advance(1)
        self.world.send(encoder, *group(200))
        self.assertEqual(self.world.outlet(second).messages_sent, 23)
        self.assertEqual(server.events_of(events.PublishRefused), [])
        self.assertEqual(len(self.world.told(events.DestinationSourceRefused)), 1)

    def test_two_destinations_that_lead_to_one_place(self) -> None:
        for one, other in (
            (destination("a", match="live/*"), destination("b", match="*")),
            (destination("a", "rtmp://one/app"), destination("b", "rtmp://one/app/{name}")),
            (destination("a", "rtmp://one/app/{name}"), destination("b", "rtmp://one:1935/app")),
            (destination("a", "rtmp://one/{app}/key"), destination("b", "rtmp://one/live/key")),
        ):
            self.assert_one_gets_it(one, other)

    def test_two_sources_for_one_key_through_two_destinations(self) -> None:
        server = self.world.server("one")
        self.world.add("a", match="live/*")
        self.world.add("b", match="show/*")
        first = self.live("cam")
        self.live("cam", "show")
        self.world.advance(20)
        self.assertEqual(server.events_of(events.PublishRefused), [])
        (refused,) = self.world.told(events.DestinationSourceRefused)
        self.assertEqual((refused.stream, refused.holder), ("show/cam", "live/cam through a"))
        first.end()
        self.world.advance(1)
        self.assertEqual(self.world.outlet("b").messages_sent, 13)
        self.assertEqual(server.events_of(events.PublishRefused), [])

    def test_one_that_is_disabled_lets_go_of_it(self) -> None:
        self.world.stub()
        self.world.add("a", match="live/*")
        self.world.add("b")
        self.live()
        self.manager.disable("a")
        self.world.pump()
        self.assertIs(self.world.status("b").state, State.CONNECTED)
        self.manager.enable("a")
        self.world.pump()
        self.assertEqual(self.world.status("a").outlets, ())
        self.assertEqual(
            [(told.destination, told.holder) for told in self.world.told(events.DestinationSourceRefused)],
            [("b", "live/cam through a"), ("a", "live/cam through b")],
        )

    def test_without_a_key_all_are_served_at_once(self) -> None:
        for url, keys, apps in (
            ("rtmp://one/app", ["a", "b"], ["app", "app"]),
            ("rtmp://one/{app}/x-{name}", ["x-a", "x-b"], ["live", "live"]),
            ("rtmp://one/{name}/key", ["key", "key"], ["a", "b"]),
        ):
            self.setUp()
            stub = self.world.stub()
            self.world.add(url=url)
            self.live("a")
            self.live("b")
            self.assertEqual(self.keys(stub), keys)
            self.assertEqual(self.apps(stub), apps)
            self.assertEqual(len(self.world.status().outlets), 2)
            self.assertEqual(self.world.status().messages_sent, 26)
            self.assertEqual(self.world.told(events.DestinationSourceRefused), [])

    def test_what_matches(self) -> None:
        stub = self.world.stub()
        self.world.add(url="rtmp://one/app", match="live/cam*")
        self.live("cam1")
        self.live("other")
        self.live("cam1", "show")
        self.live("cam2")
        self.assertEqual(self.keys(stub), ["cam1", "cam2"])

    def test_an_application_of_several_parts(self) -> None:
        stub = self.world.stub()
        self.world.add(url="rtmp://one/{app}")
        self.live("cam", "live/inner")
        self.assertEqual((self.apps(stub), self.keys(stub)), (["live/inner"], ["cam"]))

    def test_a_status_of_many(self) -> None:
        self.world.stub()
        self.world.add(url="rtmp://one/app")
        self.live("a")
        self.world.advance(5)
        b = self.live("b")
        status = self.world.status()
        self.assertEqual((status.connect_time, status.last_sent_time), (0.0, 5.0))
        self.world.stubs["one"].refuse_publish = ("NetStream.Publish.BadName", "no")
        self.live("c")
        status = self.world.status()
        self.assertEqual((status.state, status.error_class), (State.ERROR, "refused"))
        self.assertEqual(status.next_attempt_time, 15.0)
        b.end()
        self.world.pump()
        self.assertEqual(self.world.status().messages_sent, 26)
        self.assertEqual(self.world.status().bytes_sent, status.bytes_sent)


# -- steering ------------------------------------------------------------------------------------------------


class SteeringTests(ManagerTests):
    """One destination is steered; a second one, a player and the publisher must not notice."""

    @override
    def setUp(self) -> None:
        super().setUp()
        self.server = self.world.stub()
        self.bystander = self.world.stub("two")
        self.world.add()
        self.world.add("two", "rtmp://two/live/key")
        self.encoder = self.live()
        self.player = self.world.relay.connect("live")
        self.player.play("cam")
        self.time = 200

    def go_on(self) -> None:
        """More frames; then nobody else may have noticed anything."""
        self.world.send(self.encoder, *group(self.time))
        self.time += 200
        self.world.assert_balanced()
        expected = [*start_frames()]
        for begin in range(0, self.time, 200):
            expected += group(begin)
        self.assertEqual(len(self.bystander.connections), 1)
        self.assertEqual(self.bystander.last.frames, expected)
        other = self.world.outlet("two")
        self.assertEqual(
            (other.messages_in, other.messages_sent, other.messages_dropped),
            (len(expected), len(expected), 0),
        )
        self.assertEqual(self.player.frames, expected)
        self.assertFalse(self.encoder.connection.lost)

    def test_disable_and_enable(self) -> None:
        done = self.manager.disable("one")
        self.assertNoResult(done)
        self.assertIs(self.world.status().state, State.DISABLED)
        self.world.pump()
        self.successResultOf(done)
        self.assertEqual(self.server.last.order[-2:], ["FCUnpublish", "deleteStream"])
        self.assertTrue(self.server.last.lost)
        self.go_on()
        status = self.world.status()
        self.assertEqual((status.state, status.enabled, status.outlets), (State.DISABLED, False, ()))
        self.assertEqual(status.messages_sent, 13)
        self.manager.enable("one")
        self.world.pump()
        self.assertIs(self.world.status().state, State.CONNECTED)
        self.assertEqual(self.server.last.frames[3:], group(200))
        self.go_on()
        self.assertEqual(self.world.status().messages_sent, 13 + 13 + 10)

    def test_enable_what_has_not_gone_yet(self) -> None:
        self.server.last.transport.stalled = True
        self.manager.disable("one")
        self.manager.enable("one")
        self.go_on()
        self.world.advance(3)
        self.assertIs(self.world.status().state, State.CONNECTED)
        self.assertEqual(len(self.server.connections), 2)

    def test_disabled_from_the_beginning(self) -> None:
        stub = self.world.stub("three")
        self.world.add("three", "rtmp://three/live/key", enabled=False)
        self.assertIs(self.world.status("three").state, State.DISABLED)
        self.assertEqual(stub.attempts, 0)
        self.manager.enable("three")
        self.world.pump()
        self.assertIs(self.world.status("three").state, State.CONNECTED)
        self.go_on()

    def test_reconnect(self) -> None:
        self.manager.reconnect("one")
        self.go_on()
        self.assertEqual(len(self.server.connections), 2)

    def test_remove(self) -> None:
        done = self.manager.remove("one")
        self.world.pump()
        self.successResultOf(done)
        self.assertEqual(self.server.last.order[-2:], ["FCUnpublish", "deleteStream"])
        self.assertNotIn("one", self.manager)
        self.assertEqual([status.name for status in self.manager.statuses()], ["two"])
        self.go_on()
        self.live("another")
        self.assertEqual(len(self.server.connections), 1)
        (closed,) = self.world.told(events.DestinationClosed)
        self.assertEqual((closed.destination, closed.reason), ("one", "the destination was removed"))

    def test_add_while_live(self) -> None:
        stub = self.world.stub("three")
        self.world.add("three", "rtmp://three/live/key")
        self.assertEqual(stub.last.frames, [*start_frames(), *group(0)])
        self.assertEqual(len(self.manager), 3)
        self.go_on()

    def test_whatever_happens_to_one(self) -> None:
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
                self.world.advance(0.5)

    def test_names_that_are_not_there(self) -> None:
        steer: list[Callable[[str], object]] = [
            self.manager.remove,
            self.manager.enable,
            self.manager.disable,
            self.manager.reconnect,
        ]
        for function in steer:
            with self.assertRaisesRegex(ConfigError, "there is no destination 'three'"):
                function("three")

    def test_duplicates_are_refused(self) -> None:
        with self.assertRaisesRegex(ConfigError, "two destinations called 'one'"):
            self.world.add("one", "rtmp://three/live/key")
        for same in ("rtmp://one/live/key", "rtmp://one:1935/live/key", "rtmp://ONE/live/key"):
            with self.assertRaisesRegex(ConfigError, "'one' and 'three' go to the same place") as caught:
                self.world.add("three", same)
            self.assertNotIn("live/key", str(caught.exception))
        self.assertEqual(len(self.manager), 2)
        self.go_on()
        self.world.add("three", "rtmp://one/live/key", match="no/*")

    def test_what_it_holds(self) -> None:
        self.assertIn("one", self.manager)
        self.assertNotIn("three", self.manager)
        self.assertEqual([one.name for one in self.manager], ["one", "two"])


# -- reloading -----------------------------------------------------------------------------------------------


class ApplyTests(ManagerTests):
    @override
    def setUp(self) -> None:
        super().setUp()
        self.stubs = [self.world.stub(name) for name in ("a", "b", "c")]
        self.apply(self.of("a"), self.of("b"))
        self.encoder = self.live()

    def of(self, name: str, **more: Any) -> DestinationSettings:
        return destination(name, f"rtmp://{name}/live/key", **more)

    def apply(self, *wanted: DestinationSettings) -> Changes:
        changes = self.manager.apply(wanted)
        self.world.pump()
        return changes

    def connections(self) -> list[int]:
        return [len(stub.connections) for stub in self.stubs]

    def test_nothing_new(self) -> None:
        self.assertEqual(self.apply(self.of("a"), self.of("b")), Changes((), (), ()))
        self.assertEqual(self.apply(self.of("b"), self.of("a")), Changes((), (), ()))
        self.assertEqual(self.connections(), [1, 1, 0])

    def test_only_the_difference(self) -> None:
        changes = self.apply(self.of("c"), self.of("b", match="live/*"))
        self.assertEqual(changes, Changes(added=("c",), removed=("a",), changed=("b",)))
        self.world.advance(1)
        self.assertEqual(self.connections(), [1, 2, 1])
        self.assertTrue(self.stubs[0].last.lost)
        self.assertEqual(self.stubs[0].last.order[-2:], ["FCUnpublish", "deleteStream"])
        self.assertEqual({one.name for one in self.manager}, {"b", "c"})
        self.world.send(self.encoder, *group(200))
        self.assertEqual(self.stubs[2].last.frames[-10:], group(200))
        self.assertEqual(self.stubs[1].last.frames[-10:], group(200))

    def test_one_that_stays_notices_nothing(self) -> None:
        before = self.world.outlet("b")
        self.apply(self.of("b"))
        self.assertEqual(self.world.outlet("b"), before)

    def test_what_is_not_of_the_connection_changes_under_it(self) -> None:
        before = self.world.outlet("b")
        for more in (
            {"metadata": {"note": "new"}},
            {"linger": 3.0},
            {"max_retries": 7},
            {"failures_before_backup": 2},
            {"metadata": {"note": "newer"}, "linger": 4.0, "max_retries": 8, "failures_before_backup": 1},
        ):
            changes = self.apply(self.of("a"), self.of("b", **more))
            self.assertEqual(changes, Changes((), (), ("b",)), more)
            self.assertEqual(self.world.outlet("b"), before)
        self.assertEqual(self.connections(), [1, 1, 0])
        self.assertEqual([one.name for one in self.manager], ["a", "b"])
        self.assertEqual(self.world.status("b").metadata, {"note": "newer"})
        self.assertEqual(self.world.told(events.DestinationClosed), [])
        self.encoder.disconnect(clean=False)
        (lingers,) = {
            held.linger for held in self.world.told(events.DestinationHeld) if held.destination == "b"
        }
        self.assertEqual(lingers, 4.0)

    def test_whatever_is_of_the_connection_makes_it_anew(self) -> None:
        backup = (destination(url="rtmp://c/live/key").url,)
        for more in ({"backup": backup}, {"verify": False}, {"ca_file": "x"}, {"match": "l*"}):
            self.apply(self.of("a", linger=3.0, **more))
            self.world.advance(1)
        self.assertEqual(self.connections(), [5, 1, 0])
        self.apply(self.of("a", linger=3.0, enabled=False))
        self.assertIs(self.world.status("a").state, State.DISABLED)

    def test_the_most_retries_count_from_where_they_are(self) -> None:
        self.stubs[0].failure = ConnectionRefusedError()
        self.stubs[0].lose_all()
        self.world.advance(4)
        attempts = self.stubs[0].attempts
        self.apply(self.of("a", max_retries=attempts))
        self.assertEqual(self.stubs[0].attempts, attempts)
        self.world.advance(200)
        self.assertEqual(self.stubs[0].attempts, attempts + 1)
        self.assertTrue(self.world.outlet("a").given_up)
        # A note does not bring it back, leave for more attempts does.
        self.apply(self.of("a", max_retries=attempts, metadata={"note": "new"}))
        self.world.advance(200)
        self.assertEqual(self.stubs[0].attempts, attempts + 1)
        self.stubs[0].failure = None
        self.apply(self.of("a"))
        self.world.advance(1)
        self.assertIs(self.world.status("a").state, State.CONNECTED)

    def test_fewer_failures_before_the_backup(self) -> None:
        backup = (destination(url="rtmp://c/live/key").url,)
        self.apply(self.of("a", backup=backup, failures_before_backup=9))
        self.world.advance(1)
        self.stubs[0].failure = ConnectionRefusedError()
        self.apply(self.of("a", backup=backup, failures_before_backup=1))
        self.stubs[0].lose_all()
        self.world.advance(2)
        self.assertEqual(self.connections(), [2, 1, 1])

    def test_none_at_all(self) -> None:
        self.assertEqual(self.apply(), Changes((), ("a", "b"), ()))
        self.assertEqual(len(self.manager), 0)

    def test_a_bad_list_changes_nothing(self) -> None:
        with self.assertRaises(ConfigError):
            self.apply(self.of("c"), self.of("c"))
        self.assertEqual([one.name for one in self.manager], ["a", "b"])
        self.assertEqual(self.connections(), [1, 1, 0])

    def test_a_changed_one_does_not_meet_itself(self) -> None:
        """The server refuses a key that is in use: the old connection must have gone before the new one comes."""
        server = self.world.server("d")
        self.apply(self.of("d"))
        self.apply(self.of("d", match="live/*"))
        self.world.advance(1)
        self.assertEqual(server.events_of(events.PublishRefused), [])
        self.assertIs(self.world.status("d").state, State.CONNECTED)

    def test_nor_if_the_server_is_slow_to_let_it_go(self) -> None:
        slow = self.stubs[0].last
        slow.transport.stalled = True
        self.apply(self.of("a", match="live/*"))
        self.assertEqual(self.connections(), [1, 1, 0])
        self.world.advance(2.5)
        self.assertTrue(slow.lost)
        self.assertEqual(self.connections(), [2, 1, 0])
        self.assertIs(self.world.status("a").state, State.CONNECTED)

    def test_a_rename_does_not_meet_itself_either(self) -> None:
        slow = self.stubs[0].last
        slow.transport.stalled = True
        self.apply(destination("renamed", "rtmp://a/live/key"), self.of("b"))
        self.world.advance(2.5)
        self.assertTrue(slow.lost)
        self.assertIs(self.world.status("renamed").state, State.CONNECTED)


# -- stopping ------------------------------------------------------------------------------------------------


class StopTests(ManagerTests):
    def test_all_are_ended_properly(self) -> None:
        stubs = [self.world.stub(name) for name in ("a", "b")]
        for name in ("a", "b"):
            self.world.add(name, f"rtmp://{name}/live/key")
        self.live()
        stopping = self.manager.stop()
        self.assertNoResult(stopping)
        self.world.pump()
        self.successResultOf(stopping)
        for stub in stubs:
            self.assertEqual(stub.last.order[-2:], ["FCUnpublish", "deleteStream"])
            self.assertTrue(stub.last.lost)
        self.assertEqual(
            {event.reason for event in self.world.told(events.DestinationClosed)}, {"the server stops"}
        )

    def test_servers_in_any_state(self) -> None:
        names = ["stalled", "silent", "hole", "gone", "given-up", "held"]
        stubs = {name: self.world.stub(name) for name in names}
        stubs["silent"].silent_about = {"publish"}
        stubs["hole"].black_hole = True
        stubs["gone"].failure = stubs["given-up"].failure = ConnectionRefusedError()
        for name in names:
            self.world.add(name, f"rtmp://{name}/live/key", max_retries=1 if name == "given-up" else 0)
        self.live()
        self.world.advance(3)
        stubs["stalled"].last.transport.stalled = True
        stopping = self.manager.stop()
        self.world.advance(1.5)
        self.assertNoResult(stopping)
        self.world.advance(0.5)
        self.successResultOf(stopping)
        self.assertEqual(stubs["hole"].cancelled, 1)
        self.assertTrue(stubs["silent"].last.lost)
        self.world.advance(100)
        self.assertEqual([stub.attempts for stub in stubs.values()], [1, 1, 1, 3, 2, 1])
        self.assertTrue(all(status.state is State.IDLE for status in self.manager.statuses()))

    def test_nothing_begins_after_that(self) -> None:
        stub = self.world.stub()
        self.world.add()
        self.successResultOf(self.manager.stop())
        encoder = self.live()
        self.world.add("two", "rtmp://one/other/key")
        self.assertEqual(stub.attempts, 0)
        # Until it starts again: then with what is live.
        self.manager.start()
        self.world.pump()
        self.assertEqual(stub.attempts, 2)
        self.world.send(encoder, *group(200))
        self.assertEqual(self.world.outlet().messages_sent, 23)

    def test_twice(self) -> None:
        self.world.stub()
        self.world.add()
        self.live()
        first, second = self.manager.stop(), self.manager.stop()
        self.world.pump()
        self.successResultOf(first)
        self.successResultOf(second)
        self.assertEqual(len(self.world.told(events.DestinationClosed)), 1)

    def test_it_waits_for_those_that_were_just_removed(self) -> None:
        stub = self.world.stub()
        self.world.add()
        self.live()
        stub.last.transport.stalled = True
        self.manager.remove("one")
        stopping = self.manager.stop()
        self.world.advance(1)
        self.assertNoResult(stopping)
        self.world.advance(1)
        self.successResultOf(stopping)


# -- embedders -----------------------------------------------------------------------------------------------


class EmbedderTests(ManagerTests):
    """Somebody who is told an event may want to do something about it, at once."""

    def react(self, kind: type[events.Event], reaction: Callable[[], object]) -> None:
        world = self.world

        @implementer(IEventSink)
        class Reacting:
            def event_happened(self, time: float, event: events.Event) -> None:
                if isinstance(event, kind) and "one" in world.manager:
                    reaction()

        self.world.relay.factory.events.add_sink(Reacting())

    def test_removing_what_failed(self) -> None:
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
            stub = self.world.stub()
            self.react(kind, lambda: self.manager.remove("one"))
            self.world.add()
            encoder = self.live()
            self.world.send(encoder, *group(200))
            for connection in stub.connections[:1]:
                connection.close()
            self.world.send(encoder, *group(400)[1:])
            self.world.advance(5)
            encoder.disconnect(clean=False)
            self.world.advance(20)
            self.assertNotIn("one", self.manager, kind.__name__)
            self.assertTrue(all(connection.lost for connection in stub.connections), kind.__name__)
            self.assertEqual(self.flushLoggedErrors(), [], kind.__name__)
            self.assertEqual(len(self.world.told(events.DestinationClosed)), 1, kind.__name__)

    def test_removing_one_that_has_not_been_offered_the_stream_yet(self) -> None:
        stubs = [self.world.stub(), self.world.stub("two")]
        self.react(events.DestinationConnecting, lambda: "two" in self.manager and self.manager.remove("two"))
        self.world.add()
        self.world.add("two", "rtmp://two/live/key")
        self.live()
        self.assertEqual([stub.attempts for stub in stubs], [1, 0])

    def test_giving_up_on_what_was_given_up(self) -> None:
        self.world.stub().failure = ConnectionRefusedError()
        self.react(events.DestinationGivenUp, lambda: self.manager.disable("one"))
        self.world.add(max_retries=1)
        self.live()
        self.world.advance(5)
        self.assertIs(self.world.status().state, State.DISABLED)
        self.assertEqual(self.world.status().outlets, ())

    def test_reviving_what_was_given_up(self) -> None:
        stub = self.world.stub()
        stub.failure = ConnectionRefusedError()
        self.react(events.DestinationGivenUp, lambda: self.manager.reconnect("one"))
        self.world.add(max_retries=1)
        self.live()
        self.world.advance(2)
        stub.failure = None
        self.world.advance(5)
        self.assertIs(self.world.status().state, State.CONNECTED)
        self.assertGreater(len(self.world.told(events.DestinationGivenUp)), 0)

    def test_a_broken_observer_hurts_nobody(self) -> None:
        @implementer(IStreamObserver)
        class Broken:
            def stream_started(self, stream: object) -> None:
                raise ValueError("broken")

            def stream_stopped(self, stream: object, clean: bool) -> None:
                raise ValueError("broken")

        self.world.relay.registry.add_observer(Broken())
        self.world.stub()
        self.world.add()
        self.live().end()
        self.world.pump()
        self.assertEqual(self.world.status().messages_sent, 13)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 2)


# -- secrets -------------------------------------------------------------------------------------------------

MARKS = ("KeyMaRk", "PaSsMaRk", "QuErYmArK")


class SecretTests(ManagerTests):
    """Key, password and query of the address, through everything that can happen."""

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
        self.world.relay.factory.events.add_sink(LogSink())

    def assert_clean(self, what: str, url: str) -> None:
        texts = [*self.lines, *(repr(event) for event in self.world.relay.events)]
        texts += [repr(event.fields()) for event in self.world.relay.events]
        texts += [repr(status) for status in self.manager.statuses()]
        texts += [repr(one.settings) + str(one.settings.url) + repr(one) for one in self.manager]
        self.assertGreater(len(texts), 3)
        # What a server says of keys that are not ours is no secret of ours.
        for mark in (mark for mark in MARKS if mark in url):
            for text in texts:
                self.assertNotIn(mark, text, f"{what}: {text}")

    def test_nothing_shows_them(self) -> None:
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
                stub = self.world.stub()
                behave(stub)
                self.world.add(url=url, max_retries=2)
                encoder = self.live()
                self.world.advance(2)
                stub.lose_all()
                self.world.send(encoder, *group(400))
                self.world.advance(40)
                self.assert_clean(behave.__name__, url)
                self.manager.reconnect("one")
                self.world.pump()
                if stub.connections:
                    stub.last.say_bytes(b"")
                encoder.end()
                self.world.pump()
                with self.assertRaises(ConfigError) as caught:
                    self.world.add("again", url)
                self.lines.append(str(caught.exception))
                self.assert_clean(behave.__name__, url)

    def test_a_bug_of_ours_does_not_show_them_either(self) -> None:
        stub = self.world.stub()
        url = "rtmp://user:PaSsMaRk@one/app/KeyMaRk?sig=QuErYmArK"
        self.world.add(url=url)
        with mock.patch.object(RtmpPublisherProtocol, "_ask", side_effect=RuntimeError("a bug")):
            self.live()
        self.world.advance(1)
        (failure,) = self.flushLoggedErrors(RuntimeError)
        text = io.StringIO()
        failure.printTraceback(text)
        self.lines.append(text.getvalue())
        self.assert_clean("a bug", url)
        self.assertGreaterEqual(stub.attempts, 1)
