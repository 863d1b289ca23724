"""Publishers' sockets that are left to fill for a moment: real sockets and a real epoll, but no real time."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import contextlib
import gc
import socket
import time
import weakref
from collections.abc import Callable

import attrs
from twisted.internet.task import Clock
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.events import ConnectionClosed, Event, PublishStopped
from rtmprelay.media import MediaFrame
from rtmprelay.rtmp.publishing import Publication
from rtmprelay.rtmp.reading_pace import ENOUGH_BYTES, Reading
from rtmprelay.streams.merging import Pace
from rtmprelay.testing import MemoryServer
from tests.helpers import group, inter, keyframe, start_frames
from tests.rtmp.paced_world import PacedClient, PacedWorld
from tests.streams.merging_helpers import FixedMerging, Receiver

#: So long sockets are left alone; a fraction that adds up without rest.
WINDOW = 1 / 16
PART = 1 / 64

#: The announcement of chunks of no size.
GARBAGE = b"\x02\x00\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00\x00\x00\x00\x00"

#: The harmless message that a peer may send at any time.
ACKNOWLEDGEMENT = b"\x02\x00\x00\x00\x00\x00\x04\x03\x00\x00\x00\x00\x00\x00\x00\x01"


class PacedTests(SynchronousTestCase):
    """Has a server whose viewers may wait."""

    @override
    def setUp(self) -> None:
        self.world = self.new_world(viewer=WINDOW)

    def new_world(self, viewer: float = 0.0, server: float = 0.0, reading: float = 0.0) -> PacedWorld:
        world = PacedWorld(viewer, server, reading)
        self.addCleanup(world.close)
        return world

    def watched(
        self, world: PacedWorld | None = None, family: socket.AddressFamily = socket.AF_INET
    ) -> tuple[PacedClient, PacedClient]:
        """A publisher and a viewer; whatever is sent next is left in the socket."""
        world = world or self.world
        publisher = world.publisher(family=family)
        publisher.send(*start_frames(), *group(0))
        viewer = world.player()
        publisher.send(inter(200))
        world.advance(WINDOW)
        viewer.pump()
        viewer.frames.clear()
        publisher.reads.clear()
        return publisher, viewer


class GatheringTests(PacedTests):
    """Several frames in one read, none later than the window allows."""

    def test_frames_gather_in_the_socket(self) -> None:
        publisher, viewer = self.watched()
        for at in (220, 240, 260):
            publisher.send(inter(at))
            viewer.pump()
            assert viewer.frames == []
            self.world.advance(PART)
        assert publisher.reads == []
        self.world.advance(PART)
        viewer.pump()
        assert viewer.frames == [inter(220), inter(240), inter(260)]
        assert len(publisher.reads) == 1

    def test_a_lone_frame_is_there_when_the_window_closes(self) -> None:
        publisher, viewer = self.watched()
        for number in range(5):
            self.world.advance(10)
            publisher.send(inter(1000 * number + 1000))
            assert self.world.paused == 1
            self.world.advance(WINDOW)
            viewer.pump()
            assert len(viewer.frames) == number + 1
            assert self.world.paused == 0

    def test_the_next_frame_begins_a_window_of_its_own(self) -> None:
        publisher, viewer = self.watched()
        publisher.send(inter(240))
        self.world.advance(WINDOW)
        self.world.advance(PART)
        publisher.send(inter(280))
        self.world.advance(WINDOW - PART)
        viewer.pump()
        assert viewer.frames == [inter(240)]
        self.world.advance(PART)
        viewer.pump()
        assert viewer.frames == [inter(240), inter(280)]

    def test_without_a_window_nothing_is_left_in_the_socket(self) -> None:
        world = self.new_world()
        publisher, viewer = self.watched(world)
        for at in range(240, 640, 40):
            publisher.send(inter(at))
            viewer.pump()
            assert viewer.frames[-1:] == [inter(at)]
            assert world.paused == 0
        assert len(publisher.reads) == 10

    def test_when_the_load_has_gone_nothing_is_left_there_any_more(self) -> None:
        publisher, viewer = self.watched()
        self.world.merging.viewer.seconds = 0.0
        publisher.send(inter(240))
        self.world.advance(WINDOW)
        publisher.send(inter(280))
        viewer.pump()
        assert viewer.frames == [inter(240), inter(280)]
        assert self.world.paused == 0

    def test_viewers_in_a_hurry_are_not_held_up_by_servers_that_are_not(self) -> None:
        world = self.new_world(viewer=0.0, server=WINDOW)
        publisher, viewer = self.watched(world)
        server = Receiver()
        world.registry.live("live/cam").subscribe(server, Pace.SERVER)
        publisher.send(inter(240))
        publisher.send(inter(280))
        viewer.pump()
        assert viewer.frames == [inter(240), inter(280)]
        assert world.paused == 0
        begun = len(server.frames)
        world.advance(WINDOW)
        assert len(server.frames) == begun + 2

    def test_a_player_who_joins_meanwhile_gets_the_keyframe_at_once(self) -> None:
        publisher, _ = self.watched()
        publisher.send(inter(240))
        assert self.world.paused == 1
        newcomer = self.world.player()
        assert newcomer.frames[3] == keyframe(0, 20)
        assert newcomer.frames[-1] == inter(200)
        self.world.advance(WINDOW)
        newcomer.pump()
        assert newcomer.frames[-1] == inter(240)
        assert len(newcomer.frames) == len({(frame.kind, frame.payload) for frame in newcomer.frames})

    def test_transports_in_memory_are_left_as_they_are(self) -> None:
        clock = Clock()
        server = MemoryServer(clock=clock, merging=FixedMerging(clock, reading=WINDOW))
        encoder = server.connect()
        encoder.publish("cam")
        encoder.send(*start_frames(), *group(0))
        encoder.send(*group(200))
        stream = server.registry.live("live/cam")
        assert stream.counters.messages == 23
        encoder.disconnect()

    def test_whoever_publishes_twice_waits_as_long_as_the_hastier_one(self) -> None:
        publisher, viewer = self.watched()
        publishing = publisher.protocol._publishing
        # Without a stream it waits for nothing.
        publishing.publications[7] = Publication(publishing, 7, "live/other", 0.0)
        publisher.send(inter(240))
        self.world.advance(WINDOW)
        for at in (280, 320):
            publisher.send(inter(at))
            assert self.world.paused == 0
        self.world.advance(WINDOW)
        viewer.pump()
        assert viewer.frames == [inter(240), inter(280), inter(320)]

    def test_a_stream_that_nobody_watches_holds_up_none_that_is_watched(self) -> None:
        world = self.new_world(viewer=0.0, reading=WINDOW)
        publisher, viewer = self.watched(world)
        other = world.publisher("other")
        for at in (0, 40):
            other.send(keyframe(at))
        assert world.paused == 1
        publisher.send(inter(240))
        viewer.pump()
        assert viewer.frames == [inter(240)]


class IntakeTests(PacedTests):
    """Streams that nobody watches are read from time to time, without a look whether something has come."""

    @override
    def setUp(self) -> None:
        self.world = self.new_world(reading=WINDOW)
        self.publisher = self.world.publisher()
        self.publisher.send(*start_frames(), keyframe(0))
        self.publisher.send(inter(40))
        self.world.advance(WINDOW)
        self.publisher.reads.clear()

    def test_the_next_read_waits_for_more(self) -> None:
        self.publisher.send(inter(80))
        self.publisher.send(inter(120))
        assert self.publisher.reads == []
        assert self.world.paused == 1
        self.world.advance(WINDOW)
        assert len(self.publisher.reads) == 1
        assert self.world.paused == 1

    def test_a_silent_publisher_is_not_looked_at_again_and_again(self) -> None:
        """The reactor looks at it instead: that costs nothing."""
        self.world.advance(WINDOW)
        assert self.world.paused == 0
        assert self.publisher.transport in self.world.readers
        assert self.world.factory.reading_pace._timer is None
        self.publisher.send(inter(80))
        assert self.world.paused == 1
        self.world.advance(WINDOW)
        assert len(self.publisher.reads) == 1

    def test_a_viewer_who_comes_is_not_kept_waiting_twice(self) -> None:
        viewer = self.world.player()
        assert viewer.frames[-1] == inter(40)
        self.publisher.send(inter(80))
        self.world.advance(WINDOW)
        self.publisher.send(inter(120))
        viewer.pump()
        assert viewer.frames[-2:] == [inter(80), inter(120)]


class FastPublisherTests(PacedTests):
    """Who sends much is not slowed down."""

    def test_what_has_gathered_is_read_without_further_pauses(self) -> None:
        publisher, viewer = self.watched()
        frames = [inter(at, 60_000) for at in range(240, 640, 20)]
        data = b"".join(publisher.session.send_media(frame) for frame in frames)
        publisher.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        sent = 0
        pauses = 0
        deadline = time.monotonic() + 20
        while sent < len(data) or self.world.paused:
            assert time.monotonic() < deadline, f"{sent} of {len(data)} bytes were taken"
            if sent < len(data):
                with contextlib.suppress(BlockingIOError):
                    sent += publisher.socket.send(data[sent:])
            self.world.turn()
            viewer.pump()
            if self.world.paused:
                pauses += 1
                self.world.advance(WINDOW)
        viewer.pump()
        assert [len(frame.payload) for frame in viewer.frames] == [len(frame.payload) for frame in frames]
        # 1.2 MB; a pause for each read would be 18.
        assert pauses <= 4, pauses

    def test_after_a_large_read_the_next_one_does_not_wait(self) -> None:
        publisher, _ = self.watched()
        publisher.send(inter(240, ENOUGH_BYTES))
        self.world.advance(WINDOW)
        assert sum(publisher.reads) > ENOUGH_BYTES
        publisher.reads.clear()
        publisher.send(inter(280))
        assert len(publisher.reads) == 1
        publisher.send(inter(320))
        assert len(publisher.reads) == 1
        assert self.world.paused == 1


# -- the end -------------------------------------------------------------------------------------------------


def without_chance(told: list[Event]) -> list[Event]:
    """Events without the port of the peer, and without what depends on when something was noticed."""
    chance: dict[str, object] = {"peer": "", "duration": 0.0, "bytes_out": 0}
    return [
        attrs.evolve(event, **{name: value for name, value in chance.items() if hasattr(event, name)})
        for event in told
    ]


def half_close(publisher: PacedClient) -> None:
    publisher.socket.shutdown(socket.SHUT_WR)
    publisher.world.turn()


def frames_and_goodbye(publisher: PacedClient) -> None:
    publisher.send(inter(280), inter(320))
    publisher.session.end()
    # It reads what it is told: a client that closes with something unread sends a reset.
    publisher.pump()


def goodbye_and_hang_up(publisher: PacedClient) -> None:
    frames_and_goodbye(publisher)
    publisher.hang_up()


def goodbye_and_reset(publisher: PacedClient) -> None:
    frames_and_goodbye(publisher)
    publisher.reset()


def frames_and_hang_up(publisher: PacedClient) -> None:
    publisher.send(inter(280), inter(320))
    publisher.hang_up()


def frames_and_garbage(publisher: PacedClient) -> None:
    publisher.send(inter(280))
    publisher.write(GARBAGE)


def many_frames_and_hang_up(publisher: PacedClient) -> None:
    """More than one read takes."""
    publisher.send(*[inter(280 + at, 3000) for at in range(30)])
    publisher.hang_up()


ENDS: list[Callable[[PacedClient], None]] = [
    PacedClient.hang_up,
    PacedClient.reset,
    half_close,
    frames_and_goodbye,
    goodbye_and_hang_up,
    goodbye_and_reset,
    frames_and_hang_up,
    many_frames_and_hang_up,
]


class EndTests(PacedTests):
    """However a publisher ends while its socket is left alone, it is told as if it had not been."""

    def how_it_ends(
        self, window: float, reading: float, end: Callable[[PacedClient], None], family: socket.AddressFamily
    ) -> tuple[list[Event], list[MediaFrame]]:
        """The events of the publisher's connection, and what a viewer got, if there is one."""
        world = self.new_world(viewer=window, reading=reading)
        watched = not reading
        if watched:
            publisher, viewer = self.watched(world, family)
            publisher.send(inter(240))
        else:
            publisher = world.publisher(family=family)
            publisher.send(*start_frames(), *group(0), inter(200), inter(240))
        paused = bool(window or reading)
        assert world.paused == paused
        told = len(world.told_of(publisher))
        end(publisher)
        world.turn()
        if paused:
            assert len(world.told_of(publisher)) == told, "it was noticed before the window closed"
            # What has gathered is read when the window closes. The end behind it is found by the next read, which may
            # wait once more; of what is too much for one read, a small rest may too.
            for _ in range(2 if end is not many_frames_and_hang_up else 6):
                world.advance(window or reading)
        if watched:
            viewer.pump()
        if any(isinstance(event, ConnectionClosed) for event in world.told_of(publisher)):
            assert world.factory.reading_pace._timer is None
        events = without_chance(world.told_of(publisher))
        return events, viewer.frames if watched else []

    def test_everything_is_told_as_without_a_pause(self) -> None:
        for family in (socket.AF_INET, socket.AF_UNIX):
            for number, end in enumerate(ENDS):
                with self.subTest(end=number, family=family):
                    plain_events, plain_frames = self.how_it_ends(0.0, 0.0, end, family)
                    events, frames = self.how_it_ends(WINDOW, 0.0, end, family)
                    assert events == plain_events
                    assert frames == plain_frames
                    stopped = [event for event in events if isinstance(event, PublishStopped)]
                    assert len(stopped) == 1

    def test_garbage_is_told_as_without_a_pause(self) -> None:
        """What came with it in one read is lost with it, which is more after a pause; whoever sends it is cut off."""
        for end in (lambda publisher: publisher.write(GARBAGE), frames_and_garbage):
            plain, _ = self.how_it_ends(0.0, 0.0, end, socket.AF_INET)
            events, _ = self.how_it_ends(WINDOW, 0.0, end, socket.AF_INET)
            assert reasons(events) == reasons(plain)
            assert reasons(events)[-1] == (
                "connection_closed",
                "a chunk size of 0 is outside 1 to 2147483647",
            )
            assert [event.name for event in events] == [event.name for event in plain]

    def test_the_end_alone_is_noticed_when_the_window_closes(self) -> None:
        for end in (PacedClient.hang_up, PacedClient.reset, half_close):
            world = self.new_world(viewer=WINDOW)
            publisher, _ = self.watched(world)
            end(publisher)
            world.advance(WINDOW - PART)
            assert reasons(world.told_of(publisher)) == []
            world.advance(PART)
            why = "the peer broke it off" if end is PacedClient.reset else "the peer closed it"
            assert reasons(world.told_of(publisher)) == [
                ("publish_stopped", f"the connection was lost ({why})"),
                ("connection_closed", why),
            ]

    def test_also_where_nobody_watches(self) -> None:
        for family in (socket.AF_INET, socket.AF_UNIX):
            for number, end in enumerate(ENDS):
                with self.subTest(end=number, family=family):
                    plain, _ = self.how_it_ends(0.0, 0.0, end, family)
                    events, _ = self.how_it_ends(0.0, WINDOW, end, family)
                    assert reasons(events) == reasons(plain)

    def test_a_peer_that_closes_while_something_is_unsent_is_heard_out(self) -> None:
        """The reactor looks at such a socket all the time: a peer that has closed would be cut off past its goodbye."""
        for family in (socket.AF_INET, socket.AF_UNIX):
            ends: list[list[Event]] = []
            for window in (0.0, WINDOW):
                world = self.new_world(viewer=window)
                publisher, _ = self.watched(world, family)
                # It does not read: what the server has to say fills the socket, and the rest waits in the transport.
                publisher.transport.write(bytes(8_000_000))
                world.turn()
                assert publisher.transport.dataBuffer
                goodbye_and_hang_up(publisher)
                world.advance(WINDOW)
                ends.append(without_chance(world.told_of(publisher)))
            assert reasons(ends[0]) == reasons(ends[1])
            assert reasons(ends[1])[0] == ("publish_stopped", "the publisher ended it")


def reasons(told: list[Event]) -> list[tuple[str, str]]:
    """How publishes and connections ended."""
    return [
        (event.name, event.reason) for event in told if isinstance(event, PublishStopped | ConnectionClosed)
    ]


class OurEndTests(PacedTests):
    """The server ends something while the publisher's socket is left alone."""

    def test_the_server_stops(self) -> None:
        for reading in (0.0, WINDOW):
            world = self.new_world(viewer=WINDOW, reading=reading)
            publisher, viewer = self.watched(world)
            publisher.send(inter(240))
            unwatched = world.publisher("unwatched")
            unwatched.send(*start_frames(), keyframe(0))
            assert world.paused == (2 if reading else 1)
            stopped = world.factory.shut_down()
            world.turn()
            self.successResultOf(stopped)
            assert world.readers == []
            assert world.reactor.getWriters() == []
            assert world.clock.getDelayedCalls() == []
            publisher.pump()
            assert publisher.codes == ["NetStream.Unpublish.Success"]
            viewer.pump()

    def test_what_we_say_last_arrives_although_the_publisher_has_half_closed(self) -> None:
        """Reading on would find the end, and throw away what is still to be sent."""
        publisher, _ = self.watched(family=socket.AF_UNIX)
        half_close(publisher)
        assert self.world.paused == 1
        # More than the socket takes at once.
        publisher.transport.write(bytes(4_000_000))
        publisher.protocol.close_politely("a test ends it")
        self.world.advance(WINDOW)
        received = 0
        while data := receive(publisher, self.world):
            received += len(data)
        assert received == 4_000_000
        assert reasons(self.world.told_of(publisher))[-1] == ("connection_closed", "a test ends it")

    def test_a_cut_connection_is_read_no_more(self) -> None:
        publisher, viewer = self.watched()
        publisher.send(inter(240))
        publisher.protocol.close_now("a test cuts it")
        # The pause ends before the reactor gets round to closing it.
        self.world.clock.advance(WINDOW)
        assert publisher.reads == []
        self.world.turn()
        viewer.pump()
        assert viewer.frames == []
        assert reasons(self.world.told_of(publisher)) == [
            ("publish_stopped", "the connection was lost (a test cuts it)"),
            ("connection_closed", "a test cuts it"),
        ]
        assert self.world.factory.reading_pace._timer is None

    def test_nothing_is_left_of_a_connection_that_has_gone(self) -> None:
        publisher, _ = self.watched()
        transport, reading = (
            weakref.ref(publisher.transport),
            weakref.ref(publisher.protocol._reading or self),
        )
        publisher.send(inter(240))
        publisher.hang_up()
        self.world.advance(WINDOW)
        self.world.advance(WINDOW)
        self.world.clients.remove(publisher)
        del publisher
        gc.collect()
        assert transport() is None
        assert reading() is None


def receive(client: PacedClient, world: PacedWorld) -> bytes:
    """What a client reads next; nothing at the end."""
    for _ in range(20):
        world.turn()
        try:
            return client.socket.recv(65_536)
        except BlockingIOError:
            continue
        except ConnectionResetError:
            return b""
    return b""


# -- what else a publisher does ------------------------------------------------------------------------------


class OtherDoingsTests(PacedTests):
    def test_who_stops_publishing_and_stays_is_answered_at_once(self) -> None:
        publisher, _ = self.watched()
        session = publisher.session
        session.end()
        publisher.write(session.bytes_to_send())
        self.world.advance(WINDOW)
        assert self.world.paused == 0
        publisher.reads.clear()
        for number in range(3):
            # Anything that it says from now on is read as it comes.
            publisher.write(ACKNOWLEDGEMENT)
            assert len(publisher.reads) == number + 1
            assert self.world.paused == 0

    def test_who_publishes_and_plays_on_one_connection(self) -> None:
        both = self.world.publisher("own")
        both.send(*start_frames(), keyframe(0))
        stream = self.world.registry.live("live/own")
        # Its own stream, played back to it: a client of our own library does not ask for this, so it is put there.
        sent: list[int] = []
        receiver = Receiver()
        receiver.attach(lambda data: sent.append(len(data)), receiver._encoder)
        stream.subscribe(receiver)
        both.send(inter(40))
        self.world.advance(WINDOW)
        both.send(inter(80))
        assert self.world.paused == 1
        self.world.advance(WINDOW)
        assert receiver.account.messages_sent == 6
        assert receiver.is_balanced

    def test_a_pause_that_somebody_else_ends_does_not_keep_the_reactor_busy(self) -> None:
        publisher, viewer = self.watched()
        publisher.send(inter(240))
        publisher.transport.resumeProducing()
        self.world.turn()
        assert publisher.transport not in self.world.readers
        assert publisher.reads == []
        self.world.advance(WINDOW)
        viewer.pump()
        assert viewer.frames == [inter(240)]


class ManyPublishersTests(PacedTests):
    def test_one_timer_ends_the_pauses_of_all(self) -> None:
        world = self.new_world(viewer=WINDOW)
        publishers = [world.publisher(f"cam{number}") for number in range(20)]
        viewers = [world.player(f"cam{number}") for number in range(20)]
        for _ in range(2):
            for publisher in publishers:
                publisher.send(keyframe(0))
            world.advance(WINDOW)
        timers = len(world.clock.getDelayedCalls())
        for number, publisher in enumerate(publishers):
            publisher.reads.clear()
            publisher.send(inter(40 + number))
        assert world.paused == 20
        assert len(world.clock.getDelayedCalls()) == timers + 1
        world.advance(WINDOW)
        assert [len(publisher.reads) for publisher in publishers] == [1] * 20
        for number, viewer in enumerate(viewers):
            viewer.pump()
            assert viewer.frames[-1] == inter(40 + number)

    def test_whoever_comes_later_may_wait_less_but_never_longer(self) -> None:
        first, _ = self.watched()
        second = self.world.publisher("second")
        self.world.player("second")
        second.send(keyframe(0))
        second.send(keyframe(40))
        self.world.advance(WINDOW)
        first.reads.clear()
        second.reads.clear()
        first.send(inter(240))
        self.world.advance(3 * PART)
        self.world.merging.viewer.seconds = PART / 2
        second.send(inter(80))
        self.world.advance(PART)
        assert (len(first.reads), len(second.reads)) == (1, 1)
        # From here on both have the shorter pause.
        first.send(inter(280))
        self.world.advance(PART / 2)
        assert len(first.reads) == 2

    def test_a_shorter_pause_does_not_wait_for_a_longer_one(self) -> None:
        pace = self.world.factory.reading_pace
        order: list[str] = []

        class Noting(Reading):
            def __init__(self, name: str) -> None:
                super().__init__(pace, None)
                self.name = name

            @override
            def resume(self) -> None:
                order.append(self.name)

        pace.pause(Noting("long"), WINDOW)
        pace.pause(Noting("short"), PART)
        self.world.advance(PART)
        # All pauses end together: one look at all sockets.
        assert order == ["long", "short"]
        self.world.advance(WINDOW)
        assert order == ["long", "short"]

    def test_one_publisher_that_ends_another(self) -> None:
        """Both pauses end at the same moment; the first read takes the other connection down."""
        first, _ = self.watched()
        second = self.world.publisher("second")
        self.world.player("second")
        second.send(keyframe(0))
        second.send(keyframe(40))
        self.world.advance(WINDOW)
        first.send(inter(240))
        second.send(inter(80))
        assert self.world.paused == 2

        class Ending(Receiver):
            @override
            def keep(_, data: bytes) -> None:  # noqa: N805
                second.protocol.close_now("the first one ends it")

        self.world.registry.live("live/cam").subscribe(Ending())
        self.world.advance(WINDOW)
        second_reasons = reasons(self.world.told_of(second))
        assert second_reasons[-1] == ("connection_closed", "the first one ends it")
        assert self.world.paused == 0
        assert first.transport in self.world.readers

    def test_a_bug_at_one_socket_leaves_no_other_unread(self) -> None:
        publishers = [self.world.publisher(f"cam{number}") for number in range(3)]
        for number in range(3):
            self.world.player(f"cam{number}")
        for publisher in publishers:
            publisher.send(keyframe(0))
            publisher.send(keyframe(40))
        self.world.advance(WINDOW)
        for publisher in publishers:
            publisher.reads.clear()
            publisher.send(inter(80))
        assert self.world.paused == 3

        def fail() -> None:
            raise OSError("a bug")

        publishers[0].transport.resumeProducing = fail
        self.world.advance(WINDOW)
        assert [len(publisher.reads) for publisher in publishers] == [1, 1, 1]
        assert self.world.paused == 0
        for publisher in publishers[1:]:
            assert publisher.transport in self.world.readers
        assert len(self.flushLoggedErrors(OSError)) == 1

    def test_a_bug_in_reading_closes_that_connection_alone(self) -> None:
        first, _ = self.watched()
        second = self.world.publisher("second")
        self.world.player("second")
        second.send(keyframe(0))
        second.send(keyframe(40))
        self.world.advance(WINDOW)
        second.reads.clear()
        first.send(inter(240))
        second.send(inter(80))

        def fail(data: bytes) -> None:
            raise ValueError("a bug")

        first.protocol.dataReceived = fail  # type: ignore[method-assign]
        self.world.advance(WINDOW)
        assert reasons(self.world.told_of(first))[-1] == ("connection_closed", "a bug")
        assert len(second.reads) == 1
        assert len(self.flushLoggedErrors(ValueError)) == 1


# -- wrapped transports --------------------------------------------------------------------------------------


class WrappedTests(PacedTests):
    def test_it_is_the_lowest_transport_that_is_left_alone(self) -> None:
        """TLS and the PROXY protocol are wrapped around it: see tests/service for the real ones."""

        class Wrapper(ProtocolWrapper):
            pass

        wrapping: WrappingFactory[ProtocolWrapper] = WrappingFactory(WrappingFactory(self.world.factory))
        publisher = self.world.publisher(factory=wrapping)
        publisher.send(*start_frames(), keyframe(0))
        viewer = self.world.player()
        publisher.send(inter(40))
        self.world.advance(WINDOW)
        publisher.reads.clear()
        publisher.send(inter(80))
        publisher.send(inter(120))
        assert self.world.paused == 1
        assert publisher.reads == []
        self.world.advance(WINDOW)
        viewer.pump()
        assert viewer.frames[-2:] == [inter(80), inter(120)]
        assert len(publisher.reads) == 1
        publisher.hang_up()
        # Nothing waits in the socket but the end.
        self.world.advance(WINDOW)
        assert reasons(self.world.told_of(publisher))[-1] == ("connection_closed", "the peer closed it")
