"""A player that does not read harms nobody, costs a bounded amount of memory, and is closed in the end."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rtmprelay import events
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.rtmp.playing import RtmpPlayer
from rtmprelay.rtmp.server_factory import ServerSettings
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.testing import MemoryClient, MemoryServer
from tests.helpers import assert_decodable, audio, group, keyframe, start_frames
from tests.session.helpers import call

#: Twisted's transports say stop at this fill.
_TRANSPORT = 65536


class SlowPlayerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.limits = QueueLimits(max_bytes=200_000, max_ms=4000)
        self.server = MemoryServer(ServerSettings(queue=self.limits))
        self.encoder = self.server.connect()
        self.encoder.publish("cam")
        self.good = self.player()
        self.slow = self.player()
        self.sent: list[MediaFrame] = []
        self.time = 0

    def player(self) -> MemoryClient:
        client = self.server.connect()
        client.play("cam")
        return client

    def players_of(self, client: MemoryClient) -> list[RtmpPlayer]:
        return list(client.connection.protocol.consumers())

    def send(self, *frames: MediaFrame) -> None:
        self.sent += frames
        self.encoder.send(*frames)
        for client in (self.good, self.slow):
            for player in self.players_of(client):
                assert player.is_balanced
                assert player.bytes_queued <= self.limits.max_bytes

    def send_groups(self, count: int, size: int = 3000) -> None:
        for _ in range(count):
            for frame in group(self.time, 10, size):
                self.send(frame)
            self.time += 400

    def test_a_stalled_player_is_bounded_and_the_good_one_loses_nothing(self) -> None:
        self.send(*start_frames())
        self.slow.transport.stalled = True
        self.send_groups(40)
        (player,) = self.players_of(self.slow)
        assert player.account.messages_dropped > 0
        assert player.messages_queued > 0
        # One batch may go over the transport's mark, no more.
        assert self.slow.transport.unread_size < _TRANSPORT + 5000
        assert self.good.frames == self.sent

    def test_a_player_that_reads_again_goes_on_decodably(self) -> None:
        self.send(*start_frames())
        self.send_groups(1)
        self.slow.transport.stalled = True
        self.send_groups(40)
        self.slow.transport.stalled = False
        self.server.pump()
        self.send_groups(3)
        assert_decodable(self.slow.frames, self.sent)
        assert self.slow.frames[-60:] == self.sent[-60:], "it has caught up"
        assert len(self.slow.frames) < len(self.sent)
        (player,) = self.players_of(self.slow)
        assert player.messages_queued == 0
        assert player.account.messages_sent == len(self.slow.frames)
        assert player.account.messages_in == len(self.sent)
        assert self.good.frames == self.sent

    def test_a_slow_reader_decodes_whatever_its_pace(self) -> None:
        self.send(*start_frames())
        for turn in range(30):
            self.slow.transport.stalled = turn % 7 != 0
            self.server.pump()
            self.send_groups(1, 8000)
        self.slow.transport.stalled = False
        self.server.pump()
        assert_decodable(self.slow.frames, self.sent)
        assert self.good.frames == self.sent

    def test_sound_alone_is_bounded_too(self) -> None:
        self.slow.transport.stalled = True
        for time in range(0, 120_000, 20):
            self.send(audio(time, 400))
        assert self.good.frames == self.sent
        self.slow.transport.stalled = False
        self.server.pump()
        times = [frame.timestamp_ms for frame in self.slow.frames]
        assert times == sorted(times)
        assert times[-1] == 119_980

    def test_a_player_that_takes_no_byte_is_closed(self) -> None:
        self.slow.transport.stalled = True
        self.send_groups(10)
        for _ in range(29):
            self.server.advance(1)
            self.send(audio(self.time))
        self.assertFalse(self.slow.connection.lost)
        self.server.advance(1)
        self.assertTrue(self.slow.connection.lost)
        assert self.slow.transport.aborted
        (closed,) = self.server.events_of(events.ConnectionClosed)
        assert (closed.connection, closed.limit) == ("c000003", "stall_timeout")
        assert closed.reason == "the peer took no byte for 30 s (limit: stall_timeout)"
        (stopped,) = self.server.events_of(events.PlayStopped)
        assert stopped.dropped_by_reason["closed"] > 0
        assert stopped.reason == closed.reason
        assert (stopped.stalls, stopped.stalled_seconds) == (1, 30)
        self.send(keyframe(self.time))
        assert self.good.frames == self.sent
        stream = self.server.registry.get("live/cam")
        assert stream is not None
        assert len(stream.subscribers) == 1

    def test_a_player_that_reads_in_between_is_not_closed(self) -> None:
        for _ in range(4):
            self.slow.transport.stalled = True
            self.send_groups(10)
            self.server.advance(25)
            self.slow.transport.stalled = False
            self.server.advance(1)
            self.encoder.send(audio(self.time))
        assert not self.slow.connection.lost

    def test_second_play_on_a_full_connection_waits_as_well(self) -> None:
        self.slow.transport.stalled = True
        self.send_groups(10)
        unread = self.slow.transport.unread_size
        channel = self.slow.session.channel
        channel.send(call("createStream", 0.0))
        channel.send(call("play", 0.0, "cam", stream_id=2))
        self.server.pump()
        self.send_groups(10)
        assert len(self.players_of(self.slow)) == 2
        assert self.slow.transport.unread_size < unread + 2000, "only answers were written"

    def test_two_plays_on_one_connection_share_its_pace(self) -> None:
        """The one that drains first fills the transport; the other must not write on regardless."""
        channel = self.slow.session.channel
        channel.send(call("createStream", 0.0))
        channel.send(call("play", 0.0, "cam", stream_id=2))
        self.server.pump()
        self.slow.transport.stalled = True
        self.send_groups(10)
        transport = self.slow.transport
        first, second = self.players_of(self.slow)
        assert first.bytes_queued > _TRANSPORT
        assert second.bytes_queued > _TRANSPORT
        # As a real transport does it: it has sent everything, wants more, and is full again at once.
        transport._written.clear()
        transport._size = 0
        transport._paused = False
        self.slow.connection.protocol.resumeProducing()
        assert transport.unread_size < 2 * _TRANSPORT
        assert second.bytes_queued > _TRANSPORT
        self.send_groups(20)
        assert transport.unread_size < 2 * _TRANSPORT
        assert first.is_balanced
        assert second.is_balanced
        transport.stalled = False
        self.server.pump()
        assert first.messages_queued == second.messages_queued == 0

    def test_statistics_count_dropped_messages(self) -> None:
        self.slow.transport.stalled = True
        self.send_groups(40)
        self.server.advance(29)
        assert not self.slow.connection.lost
        self.slow.transport.stalled = False
        self.server.pump()
        self.server.advance(1)
        statistics = {
            event.connection: event
            for event in self.server.events_of(events.MediaStatistics)
            if event.role == "player"
        }
        assert statistics["c000002"].dropped == 0
        assert statistics["c000002"].messages == len(self.sent)
        assert statistics["c000003"].dropped > 0
        assert statistics["c000003"].dropped + statistics["c000003"].messages == len(self.sent)
        assert (statistics["c000002"].stalls, statistics["c000002"].stalled_seconds) == (0, 0)
        assert (statistics["c000003"].stalls, statistics["c000003"].stalled_seconds) == (1, 29)

    def test_headers_reach_a_player_however_slow(self) -> None:
        self.slow.transport.stalled = True
        self.send_groups(30)
        header = MediaFrame(MediaKind.VIDEO, 0, b"\x17\x00\x00\x00\x00changed")
        self.send(header)
        self.send_groups(30)
        self.slow.transport.stalled = False
        self.server.pump()
        after = [frame for frame in self.slow.frames if frame.kind is MediaKind.VIDEO]
        assert header in after
        assert after[after.index(header) + 1].payload[:2] == b"\x17\x01"
