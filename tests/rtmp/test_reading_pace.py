"""Publishers' sockets that are left to fill for a moment: real sockets and a real epoll, but no real time."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import contextlib
import socket
import time

from twisted.internet.task import Clock
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from typing_extensions import override

from rtmprelay.rtmp.publishing import Publication
from rtmprelay.rtmp.reading_pace import ENOUGH_BYTES
from rtmprelay.streams.merging import UNWATCHED, Pace
from rtmprelay.testing import MemoryServer
from tests.helpers import group, inter, keyframe, start_frames
from tests.rtmp.paced_server import PART, WINDOW, PacedClient, PacedTests, reasons
from tests.streams.merging_helpers import FixedMerging, Receiver

#: The harmless message that a peer may send at any time.
ACKNOWLEDGEMENT = b"\x02\x00\x00\x00\x00\x00\x04\x03\x00\x00\x00\x00\x00\x00\x00\x01"


class GatheringTests(PacedTests):
    """Several frames in one read, none later than the window allows."""

    def test_frames_gather_in_the_socket(self) -> None:
        publisher, viewer = self.watched()
        for at in (220, 240, 260):
            publisher.send(inter(at))
            viewer.pump()
            assert viewer.frames == []
            self.server.advance(PART)
        assert publisher.reads == []
        self.server.advance(PART)
        viewer.pump()
        assert viewer.frames == [inter(220), inter(240), inter(260)]
        assert len(publisher.reads) == 1

    def test_a_lone_frame_is_there_when_the_window_closes(self) -> None:
        publisher, viewer = self.watched()
        for number in range(5):
            self.server.advance(10)
            publisher.send(inter(1000 * number + 1000))
            assert self.server.paused == 1
            self.server.advance(WINDOW)
            viewer.pump()
            assert len(viewer.frames) == number + 1
            assert self.server.paused == 0

    def test_the_next_frame_begins_a_window_of_its_own(self) -> None:
        publisher, viewer = self.watched()
        publisher.send(inter(240))
        self.server.advance(WINDOW)
        self.server.advance(PART)
        publisher.send(inter(280))
        self.server.advance(WINDOW - PART)
        viewer.pump()
        assert viewer.frames == [inter(240)]
        self.server.advance(PART)
        viewer.pump()
        assert viewer.frames == [inter(240), inter(280)]

    def test_socket_is_read_at_once_without_a_merge_window(self) -> None:
        server = self.new_server()
        publisher, viewer = self.watched(server)
        for at in range(240, 640, 40):
            publisher.send(inter(at))
            viewer.pump()
            assert viewer.frames[-1:] == [inter(at)]
            assert server.paused == 0
        assert len(publisher.reads) == 10

    def test_socket_is_read_at_once_again_when_the_load_has_gone(self) -> None:
        publisher, viewer = self.watched()
        self.server.merging.viewer.seconds = 0.0
        publisher.send(inter(240))
        self.server.advance(WINDOW)
        publisher.send(inter(280))
        viewer.pump()
        assert viewer.frames == [inter(240), inter(280)]
        assert self.server.paused == 0

    def test_viewers_without_a_window_do_not_wait_for_servers_with_one(self) -> None:
        server = self.new_server(viewer=0.0, server=WINDOW)
        publisher, viewer = self.watched(server)
        destination = Receiver()
        server.registry.live("live/cam").subscribe(destination, Pace.SERVER)
        publisher.send(inter(240))
        publisher.send(inter(280))
        viewer.pump()
        assert viewer.frames == [inter(240), inter(280)]
        assert server.paused == 0
        begun = len(destination.frames)
        server.advance(WINDOW)
        assert len(destination.frames) == begun + 2

    def test_player_that_joins_meanwhile_gets_the_keyframe_at_once(self) -> None:
        publisher, _ = self.watched()
        publisher.send(inter(240))
        assert self.server.paused == 1
        newcomer = self.server.player()
        assert newcomer.frames[3] == keyframe(0, 20)
        assert newcomer.frames[-1] == inter(200)
        self.server.advance(WINDOW)
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

    def test_two_publishes_of_one_connection_have_the_shorter_pause(self) -> None:
        publisher, viewer = self.watched()
        publishing = publisher.protocol._publishing
        # Without a stream it waits for nothing.
        publishing.publications[7] = Publication(publishing, 7, "live/other", 0.0)
        publisher.send(inter(240))
        self.server.advance(WINDOW)
        for at in (280, 320):
            publisher.send(inter(at))
            assert self.server.paused == 0
        self.server.advance(WINDOW)
        viewer.pump()
        assert viewer.frames == [inter(240), inter(280), inter(320)]

    def test_a_stream_that_nobody_watches_holds_up_none_that_is_watched(self) -> None:
        server = self.new_server(viewer=0.0, reading=WINDOW)
        publisher, viewer = self.watched(server)
        other = server.publisher("other")
        for at in (0, 40):
            other.send(keyframe(at))
        assert server.paused == 1
        publisher.send(inter(240))
        viewer.pump()
        assert viewer.frames == [inter(240)]


class IntakeTests(PacedTests):
    """Streams that nobody watches are read from time to time, without a look whether something has come."""

    @override
    def setUp(self) -> None:
        self.server = self.new_server(reading=WINDOW)
        self.publisher = self.server.publisher()
        self.publisher.send(*start_frames(), keyframe(0))
        self.publisher.send(inter(40))
        self.server.advance(WINDOW)
        self.publisher.reads.clear()

    def test_the_next_read_waits_for_more(self) -> None:
        self.publisher.send(inter(80))
        self.publisher.send(inter(120))
        assert self.publisher.reads == []
        assert self.server.paused == 1
        self.server.advance(WINDOW)
        assert len(self.publisher.reads) == 1
        assert self.server.paused == 1

    def test_a_silent_publisher_is_not_looked_at_again_and_again(self) -> None:
        """The reactor looks at it instead: that costs nothing."""
        self.server.advance(WINDOW)
        assert self.server.paused == 0
        assert self.publisher.transport in self.server.readers
        assert self.server.factory.reading_pace._timer is None
        self.publisher.send(inter(80))
        assert self.server.paused == 1
        self.server.advance(WINDOW)
        assert len(self.publisher.reads) == 1

    def test_no_more_gathers_in_a_pause_than_one_read_takes(self) -> None:
        """A full socket would hold the publisher up."""
        self.publisher.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        pauses = {size: self.pauses(size) for size in (400, 30_000, 400)}
        assert pauses[400][-1] == WINDOW
        # A whole window would bring 120 kB.
        assert all(pause < 2 * PART for pause in pauses[30_000][-4:]), pauses

    def pauses(self, size: int) -> list[float]:
        """The pauses while so many bytes come in each part of the window."""
        found: list[float] = []
        for _ in range(96):
            self.publisher.send(inter(80, size // 4))
            self.server.advance(PART / 4)
            found += [
                2 * (due - earliest) for earliest, due in self.server.factory.reading_pace._paused.values()
            ]
        return found

    def test_those_who_fetch_the_stream_count_as_viewers(self) -> None:
        stream = self.server.registry.live("live/cam")
        self.publisher.send(inter(80))
        self.server.advance(WINDOW)
        assert stream.reading_pause == WINDOW
        stream.visitors.add(Receiver())
        self.publisher.send(inter(120))
        self.server.advance(WINDOW)
        assert stream.reading_pause == WINDOW / UNWATCHED

    def test_the_load_of_streams_that_nobody_watches_is_counted_in_messages(self) -> None:
        """Not in reads, which become fewer the longer the pauses are."""
        before = self.server.merging.reading.load
        self.publisher.send(*[inter(80 + 40 * number) for number in range(10)])
        self.server.advance(WINDOW)
        assert self.server.merging.reading.load - before == 10

    def test_new_viewer_does_not_wait_for_two_windows(self) -> None:
        viewer = self.server.player()
        assert viewer.frames[-1] == inter(40)
        self.publisher.send(inter(80))
        self.server.advance(WINDOW)
        self.publisher.send(inter(120))
        viewer.pump()
        assert viewer.frames[-2:] == [inter(80), inter(120)]


class FastPublisherTests(PacedTests):
    """A publisher that sends much is not slowed down."""

    def test_gathered_frames_are_read_without_further_pauses(self) -> None:
        publisher, viewer = self.watched()
        frames = [inter(at, 60_000) for at in range(240, 640, 20)]
        data = b"".join(publisher.session.send_media(frame) for frame in frames)
        publisher.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        sent = 0
        pauses = 0
        deadline = time.monotonic() + 20
        while sent < len(data) or self.server.paused:
            assert time.monotonic() < deadline, f"{sent} of {len(data)} bytes were taken"
            if sent < len(data):
                with contextlib.suppress(BlockingIOError):
                    sent += publisher.socket.send(data[sent:])
            self.server.turn()
            viewer.pump()
            if self.server.paused:
                pauses += 1
                self.server.advance(WINDOW)
        viewer.pump()
        assert [len(frame.payload) for frame in viewer.frames] == [len(frame.payload) for frame in frames]
        # 1.2 MB; a pause for each read would be 18.
        assert pauses <= 4, pauses

    def test_after_a_large_read_the_next_one_does_not_wait(self) -> None:
        publisher, _ = self.watched()
        publisher.send(inter(240, ENOUGH_BYTES))
        self.server.advance(WINDOW)
        assert sum(publisher.reads) > ENOUGH_BYTES
        publisher.reads.clear()
        publisher.send(inter(280))
        assert len(publisher.reads) == 1
        publisher.send(inter(320))
        assert len(publisher.reads) == 1
        assert self.server.paused == 1


# -- what else a publisher does ------------------------------------------------------------------------------


class OtherDoingsTests(PacedTests):
    def looks_at(self, publisher: PacedClient) -> int:
        """How often the reactor looks at the socket."""
        count = 0
        transport = publisher.transport
        look = transport.doRead

        def counted() -> object:
            nonlocal count
            count += 1
            return look()

        transport.doRead = counted
        self.server.turn()
        transport.doRead = look
        return count

    def test_connection_that_stopped_publishing_is_answered_at_once(self) -> None:
        publisher, _ = self.watched()
        session = publisher.session
        session.end()
        publisher.write(session.bytes_to_send())
        self.server.advance(WINDOW)
        assert self.server.paused == 0
        publisher.reads.clear()
        for number in range(3):
            # Anything that it says from now on is read as it comes.
            publisher.write(ACKNOWLEDGEMENT)
            assert len(publisher.reads) == number + 1
            assert self.server.paused == 0

    def test_connection_that_plays_its_own_stream_gets_all_frames(self) -> None:
        both = self.server.publisher("own")
        both.send(*start_frames(), keyframe(0))
        stream = self.server.registry.live("live/own")
        # Its own stream, played back to it: a client of our own library does not ask for this, so it is put there.
        sent: list[int] = []
        receiver = Receiver()
        receiver.attach(lambda data: sent.append(len(data)), receiver._encoder)
        stream.subscribe(receiver)
        both.send(inter(40))
        self.server.advance(WINDOW)
        both.send(inter(80))
        assert self.server.paused == 1
        self.server.advance(WINDOW)
        assert receiver.account.messages_sent == 6
        assert receiver.is_balanced

    def test_a_pause_that_somebody_else_ends_does_not_keep_the_reactor_busy(self) -> None:
        publisher, viewer = self.watched()
        publisher.send(inter(240))
        publisher.transport.resumeProducing()
        assert self.looks_at(publisher) == 0, "the reactor looks at it again and again"
        assert publisher.reads == []
        self.server.advance(WINDOW)
        viewer.pump()
        assert viewer.frames == [inter(240)]


# -- wrapped transports --------------------------------------------------------------------------------------


class WrappedTests(PacedTests):
    def test_lowest_transport_is_the_one_that_pauses(self) -> None:
        """TLS and the PROXY protocol are wrapped around it: see tests/service for the real ones."""

        class Wrapper(ProtocolWrapper):
            pass

        wrapping: WrappingFactory[ProtocolWrapper] = WrappingFactory(WrappingFactory(self.server.factory))
        publisher = self.server.publisher(factory=wrapping)
        publisher.send(*start_frames(), keyframe(0))
        viewer = self.server.player()
        publisher.send(inter(40))
        self.server.advance(WINDOW)
        publisher.reads.clear()
        publisher.send(inter(80))
        publisher.send(inter(120))
        assert self.server.paused == 1
        assert publisher.reads == []
        self.server.advance(WINDOW)
        viewer.pump()
        assert viewer.frames[-2:] == [inter(80), inter(120)]
        assert len(publisher.reads) == 1
        publisher.hang_up()
        # Nothing waits in the socket but the end.
        self.server.advance(WINDOW)
        assert reasons(self.server.told_of(publisher))[-1] == ("connection_closed", "the peer closed it")
