"""The publisher of a stream ends it, or is lost and returns."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.internet.error import ConnectionRefusedError

from rtmprelay import events
from rtmprelay.destinations.status import DestinationState as State
from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame
from rtmprelay.testing import MemoryClient
from tests.destinations.harness import OutletTestCase, coded, group_around, wrapped
from tests.helpers import audio, audio_header, group, keyframe, metadata, start_frames, video_header


class SourceTests(OutletTestCase):
    def come_back(self, *frames: MediaFrame) -> MemoryClient:
        encoder = self.relay.publish()
        self.relay.send(encoder, *frames)
        return encoder

    def test_clean_end_says_goodbye_to_the_server(self) -> None:
        encoder = self.start()
        encoder.end()
        self.relay.pump()
        assert self.last.order[-3:] == ["media", "FCUnpublish", "deleteStream"]
        assert self.last.command("FCUnpublish").arguments[0] == "key"
        assert self.last.command("deleteStream").arguments[0] == 1.0
        assert self.last.lost
        assert not self.last.transport.aborted
        status = self.relay.status()
        assert status.state is State.IDLE
        assert (status.messages_sent, status.messages_dropped, status.last_error) == (13, 0, None)
        (event,) = self.relay.events_of(events.DestinationClosed)
        assert (event.reason, event.messages) == ("the publisher ended the stream", 13)
        assert len(self.relay.server.registry) == 0

    def test_publisher_that_returns_goes_on_over_the_same_connection(self) -> None:
        encoder = self.start()
        encoder.disconnect(clean=False)
        assert self.relay.outlet().lingering
        assert self.relay.outlet().state is State.CONNECTED
        (held,) = self.relay.events_of(events.DestinationHeld)
        assert (held.destination, held.stream, held.linger) == ("one", "live/cam", 10.0)
        self.relay.advance(9.5)
        self.come_back(*start_frames(), *group(7000))
        assert not self.relay.outlet().lingering
        self.relay.advance(30)
        assert len(self.server.connections) == 1
        assert "FCUnpublish" not in self.last.commands
        before, after = coded(self.last.media)[:10], coded(self.last.media)[10:]
        # One offset for audio and video; the gap is as long as the publisher was away.
        assert {
            raw.timestamp - frame.timestamp_ms for raw, frame in zip(after, group(7000), strict=True)
        } == {9660 - 7000}
        assert before[-1].timestamp == 160
        self.assert_time_goes_on()
        self.relay.assert_balanced()

    def test_publisher_may_return_again_and_again(self) -> None:
        encoder = self.start()
        for _ in range(4):
            encoder.disconnect(clean=False)
            self.relay.advance(8)
            encoder = self.come_back(*start_frames(), *group(0))
        assert len(self.server.connections) == 1
        times = [raw.timestamp for raw in coded(self.last.media)]
        assert times == sorted(times)

    def test_returning_publisher_is_placed_over_the_end_of_32_bits(self) -> None:
        self.relay.add_destination()
        encoder = self.relay.publish()
        begin = TIMESTAMP_MODULUS - 1000
        self.relay.send(encoder, *start_frames(), *wrapped(group_around(begin)))
        encoder.disconnect(clean=False)
        self.relay.advance(2)
        self.come_back(*start_frames(), *group(50))
        assert len(self.server.connections) == 1
        assert coded(self.last.media)[10].timestamp == (begin + 160 + 2000) % TIMESTAMP_MODULUS

    def test_publisher_that_returns_with_other_headers_gets_a_new_connection(self) -> None:
        for headers in (
            [metadata(width=1280.0), video_header(b"other"), audio_header()],
            [video_header(), audio_header(b"\x13\x13")],
            [audio_header(b"\x13\x13"), video_header()],
        ):
            self.setUp()
            encoder = self.start()
            encoder.disconnect(clean=False)
            self.relay.advance(1)
            self.come_back(*headers, *group(0))
            self.relay.advance(1)
            first, second = self.server.connections
            assert first.order[-3:] == ["media", "FCUnpublish", "deleteStream"]
            assert len(first.media) == 13, "nothing of the new one goes to the old connection"
            assert second.order[-2:] == ["publish", "media"]
            assert second.frames[-10].payload == group(0)[0].payload
            assert self.relay.outlet().state is State.CONNECTED
            assert self.relay.outlet().last_error is None
            self.relay.assert_balanced()

    def test_other_video_header_after_the_first_audio_makes_a_new_connection(self) -> None:
        """Audio may arrive before the video header, in a read of its own."""
        encoder = self.start()
        encoder.disconnect(clean=False)
        self.relay.advance(1)
        encoder = self.come_back(audio_header(), audio(0), audio(20))
        assert len(self.server.connections) == 1
        self.relay.send(encoder, video_header(b"other"), keyframe(40))
        self.relay.advance(1)
        assert len(self.server.connections) == 2
        assert video_header(b"other").payload not in [raw.payload for raw in self.server.connections[0].media]

    def test_publisher_that_returns_with_video_added_gets_a_new_connection(self) -> None:
        self.relay.add_destination()
        encoder = self.relay.publish()
        self.relay.send(encoder, audio_header(), audio(0))
        encoder.disconnect(clean=False)
        self.relay.advance(1)
        self.come_back(audio_header(), video_header(), *group(0))
        self.relay.advance(1)
        assert len(self.server.connections) == 2

    def test_publisher_that_sent_nothing_does_not_hide_other_headers(self) -> None:
        encoder = self.start()
        encoder.disconnect(clean=False)
        self.relay.advance(1)
        self.come_back().disconnect(clean=False)
        self.relay.advance(1)
        self.come_back(video_header(b"other"), audio_header(), *group(0))
        self.relay.advance(1)
        assert len(self.server.connections) == 2

    def test_headers_may_change_once_the_returned_publisher_has_sent_media(self) -> None:
        encoder = self.start()
        encoder.disconnect(clean=False)
        self.relay.advance(1)
        encoder = self.come_back(*start_frames(), *group(0))
        self.relay.send(encoder, video_header(b"other"), *group(400))
        assert len(self.server.connections) == 1

    def test_held_destination_ends_after_its_linger(self) -> None:
        encoder = self.start()
        encoder.disconnect(clean=False)
        self.relay.advance(9.5)
        assert self.server.open_connections == [self.last]
        self.relay.advance(0.5)
        assert self.last.order[-2:] == ["FCUnpublish", "deleteStream"]
        assert self.server.open_connections == []
        assert self.relay.status().state is State.IDLE
        (event,) = self.relay.events_of(events.DestinationClosed)
        assert event.reason == "the publisher was lost and did not return"
        assert len(self.relay.server.registry) == 0

    def test_lost_publisher_ends_a_destination_without_linger(self) -> None:
        encoder = self.start(linger=0.0)
        encoder.disconnect(clean=False)
        self.relay.pump()
        assert self.last.order[-2:] == ["FCUnpublish", "deleteStream"]
        assert self.relay.events_of(events.DestinationHeld) == []
        self.come_back(*start_frames(), *group(0))
        assert len(self.server.connections) == 2
        assert coded(self.last.media)[0].timestamp == 0, "a new broadcast has its own time"

    def test_server_lost_while_held_is_not_tried_until_the_publisher_returns(self) -> None:
        encoder = self.start()
        encoder.disconnect(clean=False)
        self.relay.advance(1)
        self.server.lose_all()
        self.relay.advance(60)
        assert self.relay.status().state is State.IDLE
        assert self.server.attempts == 1
        self.come_back(*start_frames(), *group(0))
        assert self.server.attempts == 2
        assert self.relay.status().state is State.CONNECTED

    def test_publisher_lost_while_the_server_is_away_ends_the_destination(self) -> None:
        encoder = self.start()
        self.server.failure = ConnectionRefusedError()
        self.server.lose_all()
        encoder.disconnect(clean=False)
        assert self.relay.status().state is State.IDLE
        self.relay.advance(100)
        assert self.server.attempts == 1

    def test_publisher_that_takes_over_from_a_silent_one_keeps_the_connection(self) -> None:
        self.start()
        self.relay.advance(6)
        self.come_back(*start_frames(), *group(7000))
        self.relay.advance(20)
        assert len(self.server.connections) == 1
        assert not self.relay.outlet().lingering
        self.assert_time_goes_on()

    def test_clean_end_and_new_start_make_two_connections(self) -> None:
        encoder = self.start()
        encoder.end()
        encoder.publish("cam")
        encoder.send(*start_frames(), *group(0))
        self.relay.pump()
        assert len(self.server.connections) == 2
        assert self.server.connections[0].order[-2:] == ["FCUnpublish", "deleteStream"]
        assert self.last.frames == [*start_frames(), *group(0)]
        assert self.relay.status().messages_sent == 26

    def test_reconnect_while_held_ends_the_broadcast(self) -> None:
        encoder = self.start()
        encoder.disconnect(clean=False)
        self.relay.destinations.reconnect("one")
        self.relay.advance(20)
        assert self.relay.status().state is State.IDLE
        assert len(self.server.connections) == 1
        (closed,) = self.relay.events_of(events.DestinationClosed)
        assert closed.reason == "reconnected while the publisher was away"

    def test_publisher_that_returns_during_the_goodbye_begins_a_new_broadcast(self) -> None:
        encoder = self.start()
        encoder.disconnect(clean=False)
        self.last.transport.stalled = True
        self.relay.destinations.reconnect("one")
        self.come_back(*start_frames(), *group(0))
        self.relay.advance(2)
        assert [connection.lost for connection in self.server.connections] == [True, False]
        assert self.last.frames == [*start_frames(), *group(0)]

    def test_publisher_lost_during_the_goodbye_is_not_waited_for(self) -> None:
        encoder = self.start()
        self.last.transport.stalled = True
        self.relay.destinations.disable("one")
        encoder.disconnect(clean=False)
        self.relay.advance(2)
        assert self.relay.events_of(events.DestinationHeld) == []
        (closed,) = self.relay.events_of(events.DestinationClosed)
        assert closed.reason == "the destination was disabled"
