"""A stream of another server is fetched while somebody here wants it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from twisted.internet.error import ConnectionRefusedError

from rtmprelay.events import PullConnected, PullEnded, PullFailed
from rtmprelay.media import MediaFrame, MediaKind, milliseconds_between
from rtmprelay.pulls.status import PullState
from rtmprelay.testing import MemoryClient
from tests.helpers import audio_header, group, start_frames, video_header
from tests.pulls.harness import PullTestCase, pull


def coded(frames: Sequence[MediaFrame]) -> list[MediaFrame]:
    """Audio and video without their headers."""
    return [frame for frame in frames if frame.kind is not MediaKind.DATA and frame.payload[1] == 1]


def notices(player: MemoryClient) -> list[str]:
    """What a player was told, without the answer to its request."""
    return [code for code in player.codes if code != "NetStream.Play.Reset"]


class FetchTests(PullTestCase):
    def test_player_gets_the_frames_that_the_origin_has(self) -> None:
        encoder = self.world.publish(self.origin)
        player = self.world.play(self.edge)
        self.world.send(encoder, *group(200))
        assert coded(player.frames) == [*group(0), *group(200)][0:20]
        assert [frame.payload for frame in player.frames[:3]] == [frame.payload for frame in start_frames()]

    def test_stream_is_fetched_once_however_many_watch(self) -> None:
        encoder = self.world.publish(self.origin)
        players = [self.world.play(self.edge) for _ in range(5)]
        self.world.send(encoder, *group(200))
        assert self.world.endpoints["origin"].attempts == 1
        assert all(coded(player.frames)[-10:] == group(200) for player in players)
        assert self.edge.fetch.viewers == 5

    def test_stream_is_let_go_ten_seconds_after_the_last_viewer(self) -> None:
        self.world.publish(self.origin)
        player = self.world.play(self.edge)
        self.world.advance(30)
        assert self.edge.is_fetching()
        player.disconnect()
        self.world.advance(9)
        assert self.edge.is_fetching()
        self.world.advance(2)
        assert not self.edge.is_fetching()
        stream = self.origin.server.registry.get("live/cam")
        assert stream is not None
        assert stream.viewers == 0
        assert self.edge.server.registry.get("live/cam") is None
        (ended,) = self.edge.events_of(PullEnded)
        assert ended.reason == "nobody watches it any more"

    def test_viewer_that_returns_in_time_keeps_the_connection(self) -> None:
        self.world.publish(self.origin)
        self.world.play(self.edge).disconnect()
        self.world.advance(8)
        self.world.play(self.edge)
        self.world.advance(8)
        assert self.world.endpoints["origin"].attempts == 1

    def test_nothing_is_fetched_that_no_rule_matches(self) -> None:
        self.edge.pulls.apply([pull(match="tv/*")])
        player = self.world.play(self.edge)
        assert notices(player) == ["NetStream.Play.StreamNotFound"]
        assert self.world.endpoints["origin"].attempts == 0

    def test_stream_that_is_published_here_is_not_fetched(self) -> None:
        self.world.publish(self.edge)
        player = self.world.play(self.edge)
        assert coded(player.frames) == group(0)
        assert self.world.endpoints["origin"].attempts == 0

    def test_app_and_name_are_filled_in(self) -> None:
        self.edge.pulls.apply([pull(url="rtmp://origin/{app}/{name}")])
        self.world.publish(self.origin)
        assert coded(self.world.play(self.edge).frames) == group(0)

    def test_publisher_is_refused_while_the_stream_is_fetched(self) -> None:
        encoder = self.world.publish(self.origin)
        self.world.play(self.edge)
        self.world.send(encoder, *group(200))
        second = self.edge.server.connect()
        second.publish("cam")
        assert second.codes == ["NetStream.Publish.BadName"]

    def test_always_fetches_without_a_viewer(self) -> None:
        self.world.publish(self.origin)
        self.edge.pulls.apply([pull(match="live/cam", always=True)])
        self.world.pump()
        self.world.advance(20)
        assert self.edge.fetch.state is PullState.CONNECTED
        assert self.world.endpoints["origin"].attempts == 1
        assert coded(self.world.play(self.edge).frames) == group(0)


class FailureTests(PullTestCase):
    def test_player_is_told_at_once_that_the_origin_has_no_such_stream(self) -> None:
        player = self.world.play(self.edge)
        assert notices(player) == ["NetStream.Play.StreamNotFound"]
        assert self.edge.fetch.error_class == "refused"

    def test_viewers_that_ask_again_and_again_do_not_cause_attempts(self) -> None:
        for _ in range(20):
            self.world.play(self.edge)
            self.world.advance(0.5)
        assert self.world.endpoints["origin"].attempts <= 2

    def test_origin_that_accepts_and_sends_nothing_keeps_a_player_waiting_for_five_seconds(self) -> None:
        waiting = self.origin.server.connect()
        waiting.publish("cam")
        player = self.world.play(self.edge)
        assert notices(player) == []
        self.world.advance(5.5)
        assert notices(player) == ["NetStream.Play.StreamNotFound"]

    def test_player_that_waits_gets_the_stream_when_it_comes(self) -> None:
        encoder = self.origin.server.connect()
        encoder.publish("cam")
        player = self.world.play(self.edge)
        self.world.advance(3)
        self.world.send(encoder, *start_frames(), *group(0))
        assert coded(player.frames) == group(0)

    def test_player_that_leaves_while_it_waits_leaves_nothing_behind(self) -> None:
        waiting = self.origin.server.connect()
        waiting.publish("cam")
        self.world.play(self.edge).disconnect()
        self.world.advance(12)
        assert not self.edge.is_fetching()

    def test_network_failure_is_retried_with_growing_delays(self) -> None:
        self.world.endpoints["origin"].failure = ConnectionRefusedError()
        self.edge.pulls.apply([pull(match="live/cam", always=True)])
        self.world.advance(16)
        delays = [event.next_attempt_in for event in self.edge.events_of(PullFailed)][:4]
        assert delays == [1.0, 2.0, 4.0, 8.0]

    def test_keys_in_the_address_are_masked(self) -> None:
        self.edge.pulls.apply([pull(url="rtmp://origin/live/{name}?token=s3cret-token")])
        self.world.play(self.edge)
        told = repr(self.edge.server.events) + repr(self.edge.pulls.statuses())
        assert "s3cret" not in told
        assert "rtmp://origin:1935/live/***" in told


class InterruptionTests(PullTestCase):
    def cut(self) -> None:
        """Cut the link between edge and origin."""
        link = self.origin.server.links[-1]
        link.client_transport.abortConnection()
        self.world.pump()

    def test_viewers_stay_and_no_frame_is_lost_or_repeated_when_the_link_blinks(self) -> None:
        encoder = self.world.publish(self.origin)
        player = self.world.play(self.edge)
        self.cut()
        self.world.send(encoder, *group(200, 3))
        self.world.advance(1.5)
        self.world.send(encoder, *group(400))
        assert len(self.edge.events_of(PullConnected)) == 2
        assert coded(player.frames) == [*group(0), *group(200, 3), *group(400)]
        assert notices(player) == []

    def test_time_goes_on_when_the_origin_has_begun_again(self) -> None:
        encoder = self.world.publish(self.origin)
        player = self.world.play(self.edge)
        self.world.send(encoder, *group(90_000))
        self.cut()
        encoder.end()
        self.world.publish(self.origin)
        self.world.advance(1.5)
        times = [frame.timestamp_ms for frame in coded(player.frames)]
        assert len(times) == 30
        assert all(milliseconds_between(a, b) >= 0 for a, b in itertools.pairwise(times))
        assert notices(player) == []

    def test_viewers_are_told_when_the_origin_stays_away(self) -> None:
        self.world.publish(self.origin)
        player = self.world.play(self.edge)
        self.world.endpoints["origin"].failure = ConnectionRefusedError()
        self.cut()
        self.world.advance(9)
        assert notices(player) == []
        self.world.advance(2)
        assert notices(player) == ["NetStream.Play.UnpublishNotify"]

    def test_viewers_go_on_when_the_publisher_leaves_the_origin_and_returns(self) -> None:
        encoder = self.world.publish(self.origin)
        player = self.world.play(self.edge)
        encoder.end()
        self.world.advance(2)
        assert notices(player) == ["NetStream.Play.UnpublishNotify"]
        self.world.publish(self.origin)
        assert notices(player)[1:] == ["NetStream.Play.PublishNotify"]
        assert len(coded(player.frames)) == 20

    def test_frozen_origin_is_left_after_thirty_seconds(self) -> None:
        self.world.publish(self.origin)
        self.world.play(self.edge)
        self.world.advance(35)
        assert self.edge.fetch.reconnect_count >= 1
        assert self.edge.events_of(PullFailed)[0].reason == "the server does not answer (timed out)"


class LoopTests(PullTestCase):
    def test_pull_that_comes_round_is_refused_with_a_line_that_names_the_node(self) -> None:
        self.origin.pulls.add(pull(name="edge", url="rtmp://edge/live/{name}"))
        player = self.world.play(self.edge)
        self.world.advance(6)
        assert notices(player) == ["NetStream.Play.StreamNotFound"]
        reasons = [event.reason for event in self.origin.events_of(PullFailed)]
        assert any("a loop: edge -> origin -> edge" in reason for reason in reasons)

    def test_interrupted_stream_is_not_given_to_the_server_that_it_came_from(self) -> None:
        self.origin.pulls.add(pull(name="edge", url="rtmp://edge/live/{name}"))
        encoder = self.world.publish(self.origin)
        self.world.play(self.edge)
        self.origin.server.links[-1].client_transport.abortConnection()
        encoder.disconnect()
        self.world.pump()
        player = self.world.play(self.origin)
        self.world.advance(6)
        assert coded(player.frames) == []


class OtherPartsTests(PullTestCase):
    def test_headers_reach_a_late_viewer(self) -> None:
        self.world.publish(self.origin)
        self.world.play(self.edge)
        late = self.world.play(self.edge)
        assert video_header() in late.frames
        assert audio_header() in late.frames

    def test_totals_stay_when_a_fetch_has_ended(self) -> None:
        self.world.publish(self.origin)
        self.world.play(self.edge).disconnect()
        before = self.edge.pulls.statuses()[0]
        self.world.advance(12)
        after = self.edge.pulls.statuses()[0]
        assert before.messages == after.messages == 13
        assert after.state is PullState.IDLE

    def test_removed_rule_ends_its_streams(self) -> None:
        self.world.publish(self.origin)
        player = self.world.play(self.edge)
        self.edge.pulls.remove("origin")
        self.world.pump()
        assert not self.edge.is_fetching()
        assert notices(player) == ["NetStream.Play.UnpublishNotify"]

    def test_no_timer_is_left_after_a_stop(self) -> None:
        self.world.publish(self.origin)
        self.world.play(self.edge)
        stopped = self.edge.pulls.stop()
        self.world.pump()
        self.successResultOf(stopped)
        assert not self.edge.is_fetching()
