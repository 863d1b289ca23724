"""Encoders publish, players play: what goes in comes out, also while clients come and go."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from rtmprelay import events
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.session.reports import PlayAccepted, PublishAccepted
from rtmprelay.wire.messages import UserControl, UserControlType
from tests.helpers import (
    audio,
    group,
    inter,
    keyframe,
    start_frames,
)
from tests.rtmp.server_harness import ServerTests
from tests.session.helpers import call


class PublishAndPlayTests(ServerTests):
    """The way of a frame."""

    def test_a_player_gets_exactly_what_was_published(self) -> None:
        encoder = self.publisher()
        player = self.player()
        sent = [*start_frames(), *group(0), *group(200)]
        encoder.send(*sent)
        assert encoder.events[-1] == PublishAccepted(1)
        assert PlayAccepted(1) in player.events
        assert player.frames == sent

    def test_any_payload_passes_through(self) -> None:
        encoder = self.publisher()
        player = self.player()
        odd = [
            MediaFrame(MediaKind.VIDEO, 0, b""),
            MediaFrame(MediaKind.AUDIO, 1, b"\xff"),
            MediaFrame(MediaKind.VIDEO, 0xFFFFFF, b"\x90hvc1" + bytes(200_000)),
            MediaFrame(MediaKind.AUDIO, 0xFFFFFFFF, b"\x00" * 65536),
            MediaFrame(MediaKind.DATA, 3, b"not AMF at all"),
        ]
        encoder.send(*odd)
        assert player.frames == odd

    def test_small_chunks_in_either_direction_change_nothing(self) -> None:
        encoder = self.server.connect(chunk_size=128, use_digest=False)
        encoder.publish("cam")
        player = self.server.connect(chunk_size=128, use_digest=False)
        player.play("cam")
        sent = [*start_frames(), *group(0, size=5000)]
        encoder.send(*sent)
        assert player.frames == sent
        forms = [event.form for event in self.server.events_of(events.HandshakeCompleted)]
        assert forms == ["simple", "simple"]

    def test_bytes_that_come_one_by_one_are_the_same_bytes(self) -> None:
        encoder = self.publisher()
        player = self.player()
        frame = keyframe(0, 300)
        for byte in encoder.session.send_media(frame):
            encoder.deliver(bytes([byte]))
        self.server.pump()
        assert player.frames == [frame]

    def test_three_players_get_everything(self) -> None:
        encoder = self.publisher()
        players = [self.player() for _ in range(3)]
        sent = [*start_frames(), *group(0), *group(200), *group(400)]
        for frame in sent:
            encoder.send(frame)
        assert [player.frames for player in players] == [sent, sent, sent]

    def test_streams_do_not_mix(self) -> None:
        first, second = self.publisher("one"), self.publisher("two")
        player_of_first, player_of_second = self.player("one"), self.player("two")
        for time in range(0, 400, 40):
            first.send(keyframe(time, 10))
            second.send(audio(time))
        assert player_of_first.frames == [keyframe(time, 10) for time in range(0, 400, 40)]
        assert player_of_second.frames == [audio(time) for time in range(0, 400, 40)]
        first.disconnect()
        second.send(audio(400))
        assert player_of_second.frames[-1] == audio(400)
        assert player_of_second.codes == ["NetStream.Play.Reset"]

    def test_applications_are_different_streams(self) -> None:
        self.publisher("cam")
        other = self.server.connect("other")
        other.play("cam")
        assert other.codes == ["NetStream.Play.StreamNotFound"]
        refused = self.server.events_of(events.PlayRefused)
        assert [event.stream for event in refused] == ["other/cam"]

    def test_a_late_joiner_starts_with_headers_and_a_keyframe(self) -> None:
        encoder = self.publisher()
        sent = [*start_frames(), *group(0), *group(200)]
        encoder.send(*sent)
        late = self.player()
        kinds = [(frame.kind, frame.payload) for frame in late.frames[:3]]
        assert kinds == [(frame.kind, frame.payload) for frame in start_frames()]
        assert late.frames[3:] == group(200)
        names = [type(event).__name__ for event in late.events]
        assert names.index("PlayAccepted") < names.index("MediaReceived")
        encoder.send(*group(400))
        assert late.frames[3:] == group(200) + group(400)

    def test_a_message_in_two_pieces_waits_for_its_end(self) -> None:
        encoder = self.publisher()
        player = self.player()
        data = encoder.session.send_media(keyframe(0, 500))
        encoder.deliver(data[:100])
        self.server.pump()
        assert player.frames == []
        encoder.deliver(data[100:])
        self.server.pump()
        assert player.frames == [keyframe(0, 500)]

    def test_connections_have_short_numbers(self) -> None:
        self.publisher()
        self.player()
        opened = self.server.events_of(events.ConnectionOpened)
        assert [event.connection for event in opened] == ["c000001", "c000002"]
        assert opened[0].peer == "192.0.2.1:50000"

    def test_play_without_a_publisher_is_refused_and_may_be_tried_again(self) -> None:
        player = self.player()
        assert player.codes == ["NetStream.Play.StreamNotFound"]
        assert len(self.server.registry) == 0
        encoder = self.publisher()
        player.play("cam")
        encoder.send(keyframe(0))
        assert player.frames == [keyframe(0)]


class ComingAndGoingTests(ServerTests):
    """Publishers that leave, return, compete or fall silent."""

    def test_players_are_notified_of_a_lost_publisher_and_of_its_return(self) -> None:
        encoder = self.publisher()
        player = self.player()
        encoder.send(*start_frames(), *group(0))
        received = self.controls_of(player)
        encoder.disconnect(clean=False)
        assert player.codes[-1] == "NetStream.Play.UnpublishNotify"
        assert received == [UserControl(UserControlType.STREAM_EOF, 1)]
        stopped = self.server.events_of(events.PublishStopped)
        assert [(event.clean, event.messages) for event in stopped] == [(False, 13)]
        assert "the peer broke it off" in stopped[0].reason

        received.clear()
        before = len(player.frames)
        self.server.advance(3)
        returned = self.publisher()
        assert player.codes[-1] == "NetStream.Play.PublishNotify"
        assert received == [UserControl(UserControlType.STREAM_BEGIN, 1)]
        returned.send(*start_frames(), *group(0))
        fresh = player.frames[before:]
        assert [frame.payload for frame in fresh] == [frame.payload for frame in [*start_frames(), *group(0)]]
        newest = max(frame.timestamp_ms for frame in player.frames[:before])
        assert all(frame.timestamp_ms > newest for frame in fresh if frame.kind is not MediaKind.DATA)

    def test_a_publisher_that_says_goodbye_ended_it_cleanly(self) -> None:
        encoder = self.publisher()
        player = self.player()
        encoder.end()
        assert encoder.codes[-1] == "NetStream.Unpublish.Success"
        assert player.codes[-1] == "NetStream.Play.UnpublishNotify"
        (stopped,) = self.server.events_of(events.PublishStopped)
        assert (stopped.clean, stopped.reason) == (True, "the publisher ended it")
        assert not encoder.connection.lost

    def test_a_second_publisher_is_refused_and_the_first_goes_on(self) -> None:
        encoder = self.publisher()
        player = self.player()
        encoder.send(keyframe(0))
        second = self.publisher()
        assert second.codes == ["NetStream.Publish.BadName"]
        second.deliver(second.session.send_media(keyframe(999)))
        encoder.send(inter(40))
        assert player.frames == [keyframe(0), inter(40)]
        assert encoder.codes == []
        (refused,) = self.server.events_of(events.PublishRefused)
        assert refused.connection == "c000003"
        assert "c000001" in refused.reason
        self.server.advance(1)
        encoder.send(inter(60))
        self.server.advance(29)
        reported = {event.connection for event in self.server.events_of(events.MediaStatistics)}
        assert reported == {"c000001", "c000002"}, "who was refused has nothing to report"
        second.disconnect()
        encoder.send(inter(80))
        assert player.frames[-1] == inter(80)

    def test_silent_publisher_is_superseded_notified_and_closed(self) -> None:
        encoder = self.publisher()
        player = self.player()
        encoder.send(keyframe(0))
        self.server.advance(4.5, 0.5)
        early = self.publisher()
        assert early.codes == ["NetStream.Publish.BadName"]
        self.server.advance(0.5, 0.5)
        successor = self.publisher()
        assert PublishAccepted(1) in successor.events
        assert encoder.codes == ["NetStream.Publish.BadName"]
        assert encoder.connection.lost
        (closed,) = self.server.events_of(events.ConnectionClosed)
        assert (closed.connection, closed.limit) == ("c000001", None)
        assert "silent" in closed.reason
        assert not encoder.transport.aborted
        (stopped,) = self.server.events_of(events.PublishStopped)
        assert (stopped.connection, stopped.clean, stopped.messages) == ("c000001", False, 1)
        assert player.codes[-2:] == ["NetStream.Play.UnpublishNotify", "NetStream.Play.PublishNotify"]
        successor.send(keyframe(0, 77))
        assert player.frames[-1].payload == keyframe(0, 77).payload
        stream = self.server.registry.get("live/cam")
        assert stream is not None
        assert stream.publisher is not None
        assert stream.publisher.connection_id == "c000004"

    def test_frames_keep_a_publisher_from_being_taken_over(self) -> None:
        encoder = self.publisher()
        for time in range(0, 12_000, 4000):
            encoder.send(keyframe(time))
            self.server.advance(4)
        assert self.publisher().codes == ["NetStream.Publish.BadName"]
        assert not encoder.connection.lost

    def test_takeover_leaves_other_streams_of_the_old_connection_alone(self) -> None:
        encoder = self.publisher("silent")
        encoder.publish("busy")
        player = self.player("busy")
        for time in range(0, 6000, 1000):
            encoder.send(keyframe(time))
            self.server.advance(1)
        successor = self.publisher("silent")
        assert PublishAccepted(1) in successor.events
        assert encoder.codes == ["NetStream.Publish.BadName"]
        encoder.send(keyframe(6000))
        assert player.frames[-1] == keyframe(6000)
        assert not encoder.connection.lost

    def test_a_connection_may_take_over_from_itself(self) -> None:
        client = self.publisher()
        self.server.advance(5)
        client.publish("cam")
        assert client.session.stream_id == 2
        player = self.player()
        client.send(keyframe(0))
        assert player.frames == [keyframe(0)]
        assert not client.connection.lost

    def test_takeover_of_a_stream_deleted_in_the_same_read_logs_no_bug(self) -> None:
        client = self.publisher()
        self.server.advance(5)
        channel = client.session.channel
        channel.send(call("publish", 9.0, "cam", "live", stream_id=2))
        channel.send(call("deleteStream", 10.0, 1.0))
        self.server.pump()
        assert self.flushLoggedErrors() == []
        assert not client.connection.lost
        stream = self.server.registry.get("live/cam")
        assert stream is not None
        assert stream.publisher is not None

    def test_a_stream_that_nobody_uses_is_forgotten(self) -> None:
        encoder = self.publisher()
        player = self.player()
        encoder.disconnect()
        assert len(self.server.registry) == 1
        player.disconnect()
        assert len(self.server.registry) == 0
        (stopped,) = self.server.events_of(events.PlayStopped)
        assert (stopped.stream, stopped.messages, stopped.dropped) == ("live/cam", 0, 0)
