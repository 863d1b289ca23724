"""Pausing, choosing audio or video, and several message streams on one connection."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from rtmprelay import events
from rtmprelay.testing import MemoryClient
from rtmprelay.wire.messages import Command
from tests.helpers import (
    assert_decodable,
    audio,
    group,
    inter,
    keyframe,
    video_header,
)
from tests.rtmp.server_harness import ServerTests
from tests.session.helpers import call


class MessageStreamTests(ServerTests):
    """Pausing, choosing, and several things on one connection."""

    def command(self, client: MemoryClient, command: Command) -> None:
        client.session.channel.send(command)
        self.server.pump()

    def test_a_paused_player_gets_nothing_and_goes_on_at_a_keyframe(self) -> None:
        encoder = self.publisher()
        player = self.player()
        encoder.send(keyframe(0))
        self.command(player, call("pause", 0.0, True, stream_id=1))
        assert player.codes[-1] == "NetStream.Pause.Notify"
        encoder.send(inter(40), audio(40), video_header(b"new"))
        self.command(player, call("pause", 0.0, False, stream_id=1))
        assert player.codes[-1] == "NetStream.Unpause.Notify"
        encoder.send(inter(80), audio(80), keyframe(120), inter(160))
        assert player.frames == [
            keyframe(0),
            video_header(b"new"),
            audio(80),
            keyframe(120),
            inter(160),
        ]
        player.disconnect()
        (stopped,) = self.server.events_of(events.PlayStopped)
        assert stopped.dropped_by_reason == {"paused": 2, "waiting_for_keyframe": 1}
        assert (stopped.messages, stopped.dropped) == (5, 3)

    def test_player_that_turns_video_off_gets_audio_alone(self) -> None:
        encoder = self.publisher()
        player = self.player()
        self.command(player, call("receiveVideo", 0.0, False, stream_id=1))
        encoder.send(*group(0, 3))
        assert player.frames == [audio(0), audio(40), audio(80)]
        self.command(player, call("receiveVideo", 0.0, True, stream_id=1))
        encoder.send(inter(120), keyframe(160))
        assert player.frames[3:] == [keyframe(160)]

    def test_player_that_turns_audio_off_gets_video_alone(self) -> None:
        encoder = self.publisher()
        player = self.player()
        self.command(player, call("receiveAudio", 0.0, False, stream_id=1))
        encoder.send(*group(0, 2))
        assert player.frames == [keyframe(0, 20), inter(40)]
        self.command(player, call("receiveAudio", 0.0, True, stream_id=1))
        encoder.send(audio(80))
        assert player.frames[-1] == audio(80)

    def test_pause_of_a_message_stream_that_plays_nothing_is_ignored(self) -> None:
        encoder = self.publisher()
        for command in (
            call("receiveAudio", 0.0, False, stream_id=1),
            call("pause", 0.0, True, stream_id=1),
            call("pause", 0.0, True, stream_id=7),
            call("receiveVideo", 0.0, False, stream_id=7),
            call("closeStream", 0.0, stream_id=7),
        ):
            self.command(encoder, command)
        player = self.player()
        encoder.send(audio(0))
        assert player.frames == [audio(0)]

    def test_one_connection_may_publish_and_play(self) -> None:
        other = self.publisher("other")
        both = self.publisher("mine")
        stream_id = both.session.stream_id
        both.play("other")
        player = self.player("mine")
        both.session.stream_id = stream_id
        both.send(keyframe(0))
        other.send(audio(0))
        assert player.frames == [keyframe(0)]
        assert both.frames == [audio(0)]

    def test_a_client_that_plays_what_it_publishes_may_end_both_at_once(self) -> None:
        client = self.publisher()
        client.play("cam")
        channel = client.session.channel
        channel.send(call("deleteStream", 0.0, 1.0))
        channel.send(call("deleteStream", 0.0, 2.0))
        self.server.pump()
        assert len(self.server.registry) == 0
        assert not client.connection.lost
        assert len(self.server.events_of(events.PlayStopped)) == 1

    def test_ending_a_play_leaves_the_connection_open(self) -> None:
        encoder = self.publisher()
        player = self.player()
        encoder.send(keyframe(0))
        self.command(player, call("closeStream", 0.0, stream_id=1))
        assert player.codes[-1] == "NetStream.Play.Stop"
        encoder.send(inter(40))
        assert player.frames == [keyframe(0)]
        self.command(player, call("play", 0.0, "cam", stream_id=1))
        assert player.frames[1:] == [keyframe(0), inter(40)]

    def test_a_player_may_change_to_another_stream(self) -> None:
        first, second = self.publisher("one"), self.publisher("two")
        player = self.player("one")
        self.command(player, call("play", 0.0, "two", stream_id=1))
        first.send(keyframe(0))
        second.send(keyframe(40))
        assert player.frames == [keyframe(40)]
        assert [event.stream for event in self.server.events_of(events.PlayStopped)] == ["live/one"]

    def test_all_commands_in_one_read_are_carried_out_in_order(self) -> None:
        """An encoder need not wait for any answer."""
        encoder = self.server.connect()
        channel = encoder.session.channel
        channel.send(call("createStream", 2.0))
        channel.send(call("publish", 3.0, "cam", "live", stream_id=1))
        encoder.session.stream_id = 1
        encoder.send(keyframe(0))
        player = self.player()
        assert player.frames == [keyframe(0)]

    def test_play_deleted_in_the_same_read_leaves_nothing_behind(self) -> None:
        self.publisher()
        client = self.server.connect()
        channel = client.session.channel
        for name, stream in (("play", "cam"), ("publish", "mine")):
            channel.send(call("createStream", 2.0))
            channel.send(call(name, 3.0, stream, stream_id=1))
            channel.send(call("deleteStream", 4.0, 1.0))
            self.server.pump()
        live = self.server.registry.get("live/cam")
        assert live is not None
        assert live.subscribers == ()
        assert self.server.registry.get("live/mine") is None
        assert not client.connection.lost

    def test_an_unknown_command_is_answered_and_reported(self) -> None:
        client = self.server.connect()
        self.command(client, Command("makeCoffee", 7.0))
        (ignored,) = self.server.events_of(events.CommandIgnored)
        assert ignored.command == "makeCoffee"
        assert not client.connection.lost

    def test_helper_finds_a_picture_without_its_predecessor(self) -> None:
        sent = [keyframe(0), inter(40), inter(80), keyframe(120)]
        assert_decodable([keyframe(0), inter(40), keyframe(120)], sent)
        self.assertRaises(AssertionError, assert_decodable, [inter(40)], sent)
        self.assertRaises(AssertionError, assert_decodable, [keyframe(0), inter(80)], sent)
        self.assertRaises(AssertionError, assert_decodable, [keyframe(120), keyframe(0)], sent)
