"""However a connection ends while its socket is left to fill, the events are those of one that is read at once."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import gc
import socket
import weakref
from collections.abc import Callable

import attrs

from rtmprelay.events import ConnectionClosed, Event, PublishStopped
from rtmprelay.media import MediaFrame
from tests.helpers import group, inter, keyframe, start_frames
from tests.rtmp.paced_server import GARBAGE, WINDOW, PacedClient, PacedServer, PacedTests, reasons

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
    publisher.server.turn()


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
    """However a publisher ends while its socket is not read, the events are as if it had been read."""

    def how_it_ends(
        self, window: float, reading: float, end: Callable[[PacedClient], None], family: socket.AddressFamily
    ) -> tuple[list[Event], list[MediaFrame]]:
        """The events of the publisher's connection, and what a viewer got, if there is one."""
        server = self.new_server(viewer=window, reading=reading)
        watched = not reading
        if watched:
            publisher, viewer = self.watched(server, family)
            publisher.send(inter(240))
        else:
            publisher = server.publisher(family=family)
            publisher.send(*start_frames(), *group(0), inter(200), inter(240))
        paused = bool(window or reading)
        assert server.paused == paused
        told = len(server.told_of(publisher))
        end(publisher)
        server.turn()
        if paused:
            # The kernel reports the end of a TCP connection that is watched although little has gathered.
            if not watched or family == socket.AF_UNIX:
                assert len(server.told_of(publisher)) == told, "it was noticed before the window closed"
            # What has gathered is read when the window closes. The end after it is found by the next read, which may
            # wait once more; of what is too much for one read, a small rest may too.
            for _ in range(2 if end is not many_frames_and_hang_up else 6):
                server.advance(window or reading)
        if watched:
            viewer.pump()
        if any(isinstance(event, ConnectionClosed) for event in server.told_of(publisher)):
            assert server.factory.reading_pace._timer is None
        events = without_chance(server.told_of(publisher))
        return events, viewer.frames if watched else []

    def test_every_end_has_the_events_of_one_without_a_pause(self) -> None:
        for family in (socket.AF_INET, socket.AF_UNIX):
            for number, end in enumerate(ENDS):
                with self.subTest(end=number, family=family):
                    plain_events, plain_frames = self.how_it_ends(0.0, 0.0, end, family)
                    events, frames = self.how_it_ends(WINDOW, 0.0, end, family)
                    assert events == plain_events
                    assert frames == plain_frames
                    stopped = [event for event in events if isinstance(event, PublishStopped)]
                    assert len(stopped) == 1

    def test_garbage_has_the_reasons_of_a_connection_without_a_pause(self) -> None:
        """What came with it in one read is lost with it, which is more after a pause; its sender is cut off."""
        for end in (lambda publisher: publisher.write(GARBAGE), frames_and_garbage):
            plain, _ = self.how_it_ends(0.0, 0.0, end, socket.AF_INET)
            events, _ = self.how_it_ends(WINDOW, 0.0, end, socket.AF_INET)
            assert reasons(events) == reasons(plain)
            assert reasons(events)[-1] == (
                "connection_closed",
                "a chunk size of 0 is outside 1 to 2147483647",
            )
            assert [event.name for event in events] == [event.name for event in plain]

    def test_the_end_alone_waits_for_no_window(self) -> None:
        for end in (PacedClient.hang_up, PacedClient.reset, half_close):
            server = self.new_server(viewer=WINDOW)
            publisher, _ = self.watched(server)
            end(publisher)
            server.advance(0)
            why = "the peer broke it off" if end is PacedClient.reset else "the peer closed it"
            assert reasons(server.told_of(publisher)) == [
                ("publish_stopped", f"the connection was lost ({why})"),
                ("connection_closed", why),
            ]

    def test_every_end_of_an_unwatched_stream_has_the_same_reasons(self) -> None:
        for family in (socket.AF_INET, socket.AF_UNIX):
            for number, end in enumerate(ENDS):
                with self.subTest(end=number, family=family):
                    plain, _ = self.how_it_ends(0.0, 0.0, end, family)
                    events, _ = self.how_it_ends(0.0, WINDOW, end, family)
                    assert reasons(events) == reasons(plain)

    def test_goodbye_of_a_peer_that_closes_while_something_is_unsent_is_read(self) -> None:
        """The reactor looks at such a socket all the time: a peer that has closed would be cut off past its goodbye."""
        for family in (socket.AF_INET, socket.AF_UNIX):
            ends: list[list[Event]] = []
            for window in (0.0, WINDOW):
                server = self.new_server(viewer=window)
                publisher, _ = self.watched(server, family)
                # It does not read: what the server has to say fills the socket, and the rest waits in the transport.
                publisher.transport.write(bytes(8_000_000))
                server.turn()
                assert publisher.transport.dataBuffer
                goodbye_and_hang_up(publisher)
                server.advance(WINDOW)
                ends.append(without_chance(server.told_of(publisher)))
            assert reasons(ends[0]) == reasons(ends[1])
            assert reasons(ends[1])[0] == ("publish_stopped", "the publisher ended it")


class OurEndTests(PacedTests):
    """The server ends something while the publisher's socket is left alone."""

    def test_server_stops_while_sockets_are_left_alone(self) -> None:
        for reading in (0.0, WINDOW):
            server = self.new_server(viewer=WINDOW, reading=reading)
            publisher, viewer = self.watched(server)
            publisher.send(inter(240))
            unwatched = server.publisher("unwatched")
            unwatched.send(*start_frames(), keyframe(0))
            assert server.paused == (2 if reading else 1)
            stopped = server.factory.shut_down()
            server.turn()
            self.successResultOf(stopped)
            assert server.readers == []
            assert server.reactor.getWriters() == []
            assert server.clock.getDelayedCalls() == []
            publisher.pump()
            assert publisher.codes == ["NetStream.Unpublish.Success"]
            viewer.pump()

    def test_last_bytes_arrive_although_the_publisher_has_half_closed(self) -> None:
        """Reading on would find the end, and throw away what is still to be sent."""
        publisher, _ = self.watched(family=socket.AF_UNIX)
        half_close(publisher)
        assert self.server.paused == 1
        # More than the socket takes at once.
        publisher.transport.write(bytes(4_000_000))
        publisher.protocol.close_politely("a test ends it")
        self.server.advance(WINDOW)
        received = 0
        while data := receive(publisher, self.server):
            received += len(data)
        assert received == 4_000_000
        assert reasons(self.server.told_of(publisher))[-1] == ("connection_closed", "a test ends it")

    def test_a_cut_connection_is_read_no_more(self) -> None:
        publisher, viewer = self.watched()
        publisher.send(inter(240))
        publisher.protocol.close_now("a test cuts it")
        # The pause ends before the reactor gets round to closing it.
        self.server.clock.advance(WINDOW)
        assert publisher.reads == []
        self.server.turn()
        viewer.pump()
        assert viewer.frames == []
        assert reasons(self.server.told_of(publisher)) == [
            ("publish_stopped", "the connection was lost (a test cuts it)"),
            ("connection_closed", "a test cuts it"),
        ]
        assert self.server.factory.reading_pace._timer is None

    def test_connection_that_has_gone_is_freed(self) -> None:
        publisher, _ = self.watched()
        transport, reading = (
            weakref.ref(publisher.transport),
            weakref.ref(publisher.protocol._reading or self),
        )
        publisher.send(inter(240))
        publisher.hang_up()
        self.server.advance(WINDOW)
        self.server.advance(WINDOW)
        self.server.clients.remove(publisher)
        del publisher
        gc.collect()
        assert transport() is None
        assert reading() is None


def receive(client: PacedClient, server: PacedServer) -> bytes:
    """What a client reads next; nothing at the end."""
    for _ in range(20):
        server.turn()
        try:
            return client.socket.recv(65_536)
        except BlockingIOError:
            continue
        except ConnectionResetError:
            return b""
    return b""
