"""The frames that a destination gets: over several connections, and when its server is slow."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from rtmprelay.destinations.status import DestinationState as State
from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind
from rtmprelay.session.client import ClientSession
from rtmprelay.wire.chunks import RawMessage
from tests.destinations.harness import OutletTestCase, coded, group_around, wrapped
from tests.helpers import audio, audio_header, group, inter, keyframe, metadata, start_frames, video_header


class OrderTests(OutletTestCase):
    def test_first_connection_gets_all_frames(self) -> None:
        self.start()
        self.assert_starts_decodable(self.last)
        assert self.last.frames == [*start_frames(), *group(0)]
        assert self.last.order[-2:] == ["publish", "media"]

    def test_destination_added_later_starts_with_the_cached_group_of_pictures(self) -> None:
        encoder = self.relay.publish()
        self.relay.send(encoder, *start_frames(), *group(0), *group(200))
        self.relay.add_destination()
        self.assert_starts_decodable(self.last)
        assert self.last.frames[3:] == group(200)
        assert [raw.timestamp for raw in self.last.media[:4]] == [0, 200, 200, 200]

    def test_every_connection_starts_with_metadata_headers_and_a_keyframe(self) -> None:
        encoder = self.start()
        for round_ in range(1, 5):
            self.server.lose_all()
            self.relay.send(encoder, inter(1000 * round_), audio(1000 * round_))
            self.relay.advance(40)
            self.relay.send(encoder, *group(1000 * round_ + 100))
            # Audio goes on at once, video with the next keyframe.
            assert self.last.media[0].type_id == 18
            assert [raw.payload[1] for raw in self.last.media[1:3]] == [0, 0]
            first = next(raw for raw in coded(self.last.media) if raw.type_id == 9)
            assert first.payload[0] >> 4 == 1
            self.relay.assert_balanced()
        assert len(self.server.connections) == 5
        self.assert_time_goes_on()

    def test_new_connection_waits_for_a_keyframe_if_the_cached_pictures_were_sent(self) -> None:
        encoder = self.start()
        self.server.lose_all()
        self.relay.advance(1)
        assert coded(self.last.media) == []
        self.relay.send(encoder, inter(300), audio(300), *group(400))
        assert [raw.timestamp for raw in coded(self.last.media)][:3] == [300, 400, 400]
        assert self.relay.outlet().dropped_by_reason == {"waiting_for_keyframe": 1}
        self.assert_time_goes_on()

    def test_headers_of_a_new_connection_do_not_go_back_in_time(self) -> None:
        self.start()
        self.server.lose_all()
        self.relay.advance(1)
        assert [raw.timestamp for raw in self.last.media] == [0, 160, 160]

    def test_new_connection_recovers_missed_pictures_that_are_cached(self) -> None:
        encoder = self.start()
        self.server.lose_all()
        self.relay.send(encoder, *group(200), *group(400))
        assert self.relay.outlet().dropped_by_reason == {"not_connected": 20}
        self.relay.advance(1)
        self.assert_starts_decodable(self.last)
        assert self.last.frames[3:] == group(400)
        assert self.relay.outlet().dropped_by_reason == {"not_connected": 10}
        self.relay.assert_balanced()
        self.assert_time_goes_on()

    def test_late_audio_does_not_make_a_picture_be_sent_twice(self) -> None:
        """The frame that was sent last is not the newest."""
        encoder = self.start()
        self.relay.send(encoder, keyframe(1000), audio(990))
        self.server.lose_all()
        self.relay.advance(1)
        assert coded(self.last.media) == []
        self.relay.send(encoder, keyframe(1040))
        assert [raw.timestamp for raw in coded(self.last.media)] == [1040]

    def test_timestamps_go_on_over_the_end_of_32_bits(self) -> None:
        self.relay.add_destination()
        encoder = self.relay.publish()
        begin = TIMESTAMP_MODULUS - 300
        self.relay.send(encoder, *start_frames(), *wrapped(group_around(begin)))
        self.server.lose_all()
        self.relay.send(encoder, *wrapped(group_around(begin + 200)))
        self.relay.advance(1)
        self.relay.send(encoder, *wrapped(group_around(begin + 400)))
        self.server.lose_all()
        self.relay.send(encoder, *wrapped(group_around(begin + 600)))
        self.relay.advance(2)
        times = [[raw.timestamp for raw in coded(connection.media)] for connection in self.server.connections]
        assert times[0][0] == begin
        assert times[1][0] == begin + 200
        assert times[1][-1] == begin + 560 - TIMESTAMP_MODULUS
        assert times[2][0] == begin + 600 - TIMESTAMP_MODULUS
        self.assert_time_goes_on()
        self.relay.assert_balanced()

    def test_pictures_after_the_end_of_32_bits_are_newer_than_those_before(self) -> None:
        self.relay.add_destination()
        encoder = self.relay.publish()
        begin = TIMESTAMP_MODULUS - 300
        self.relay.send(encoder, *start_frames(), *wrapped(group_around(begin)))
        self.server.lose_all()
        self.relay.send(encoder, *wrapped(group_around(begin + 400)))
        self.relay.advance(1)
        assert coded(self.last.media)[0].timestamp == 100
        self.server.lose_all()
        self.relay.advance(2)
        assert coded(self.last.media) == []
        self.assert_time_goes_on()

    def test_each_connection_uses_the_message_stream_that_its_server_gave(self) -> None:
        encoder = self.start()
        self.server.stream_id = 9
        self.server.lose_all()
        self.relay.advance(1)
        self.relay.send(encoder, *group(400))
        assert {raw.stream_id for raw in self.server.connections[0].media} == {1}
        assert {raw.stream_id for raw in self.last.media} == {9}
        assert self.last.command("publish").stream_id == 9

    def test_data_messages_are_passed_on(self) -> None:
        encoder = self.start()
        cue = MediaFrame(MediaKind.DATA, 170, b"\x02\x00\x05onCue\x05")
        self.relay.send(encoder, cue)
        assert self.last.media[-1] == RawMessage(18, 170, 1, cue.payload)

    def test_new_metadata_is_passed_on_in_its_envelope(self) -> None:
        encoder = self.start()
        self.relay.send(encoder, metadata(width=640.0))
        assert b"@setDataFrame" in self.last.media[-1].payload
        assert self.last.frames[-1] == metadata(width=640.0)

    def test_stream_without_video_goes_on_at_once(self) -> None:
        self.relay.add_destination()
        encoder = self.relay.publish()
        self.relay.send(encoder, audio_header(), audio(0), audio(20))
        self.server.lose_all()
        self.relay.send(encoder, audio(40))
        self.relay.advance(1)
        self.relay.send(encoder, audio(60))
        assert [raw.payload[1] for raw in self.last.media] == [0, 1]
        assert self.relay.outlet().dropped_by_reason == {"not_connected": 1}
        self.assert_time_goes_on()
        self.relay.assert_balanced()

    def test_new_decoder_configuration_is_passed_on_over_the_same_connection(self) -> None:
        encoder = self.start()
        self.relay.send(encoder, video_header(b"other"), *group(400))
        assert len(self.server.connections) == 1
        assert video_header(b"other").payload in [raw.payload for raw in self.last.media]


class StallTests(OutletTestCase):
    def test_slow_server_gets_all_frames_in_order_when_it_reads_again(self) -> None:
        encoder = self.start()
        self.last.transport.stalled = True
        sent = [frame for begin in range(200, 2200, 200) for frame in group(begin, size=10_000)]
        self.relay.send(encoder, *sent[:50])
        self.relay.send(encoder, *sent[50:])
        assert self.relay.outlet().messages_queued > 0
        self.relay.assert_balanced()
        self.relay.advance(5)
        self.last.transport.stalled = False
        self.relay.pump()
        assert self.relay.outlet().messages_queued == 0
        assert self.last.frames[13:] == sent
        self.relay.assert_balanced()

    def test_stalled_server_is_cut_after_ten_seconds_and_tried_again(self) -> None:
        encoder = self.start()
        stalled = self.last
        stalled.transport.stalled = True
        for begin in range(200, 20_000, 200):
            self.relay.send(encoder, *group(begin, size=10_000))
            self.relay.assert_balanced()
            if stalled.lost:
                break
            self.relay.advance(0.2)
        assert stalled.transport.aborted
        outlet = self.relay.outlet()
        assert (outlet.state, outlet.error_class) == (State.ERROR, "network")
        assert "took no byte for 10 s" in (outlet.last_error or "")
        self.relay.advance(2)
        assert self.relay.outlet().state is State.CONNECTED
        self.assert_time_goes_on()
        self.relay.assert_balanced()

    def test_frames_queued_for_a_stalled_server_are_dropped_at_the_end(self) -> None:
        encoder = self.start()
        self.last.transport.stalled = True
        self.relay.send(
            encoder, *[frame for begin in range(200, 2200, 200) for frame in group(begin, size=10_000)]
        )
        queued = self.relay.outlet().messages_queued
        encoder.end()
        self.relay.advance(2)
        assert self.last.transport.aborted
        status = self.relay.status()
        assert status.state is State.IDLE
        assert sum(status.dropped_by_reason.values()) == queued
        assert status.messages_dropped == queued


def test_client_session_has_no_message_stream_at_first() -> None:
    assert ClientSession("app", "rtmp://host/app").stream_id == 0
