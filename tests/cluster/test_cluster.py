"""Several relays as one, in memory: claims, edges, takeover, and a directory that goes and comes."""

from __future__ import annotations

from itertools import pairwise

from rtmprelay.cluster.directory import Ownership
from rtmprelay.cluster.settings import WhenLost
from rtmprelay.events import (
    ConnectRefused,
    DirectoryBack,
    DirectoryLost,
    NodeJoined,
    NodeLost,
    PublishRefused,
    PullFailed,
    StreamMoved,
)
from rtmprelay.media import MediaKind, milliseconds_between
from rtmprelay.pulls.settings import PullSettings
from rtmprelay.secret import Secret
from rtmprelay.wire.url import RtmpUrl
from tests.cluster.harness import ClusterTestCase, World, notices, payloads, pictures
from tests.helpers import group, start_frames


class OneStreamTests(ClusterTestCase):
    def test_stream_of_one_node_is_watched_on_every_other(self) -> None:
        encoder = self.world.live(self.one)
        players = [self.world.play(node) for node in (self.one, self.two, self.three)]
        self.world.send(encoder, *group(200))
        for player in players:
            assert pictures(player) == payloads([*group(0), *group(200)])

    def test_edge_fetches_once_however_many_watch(self) -> None:
        self.world.live(self.one)
        before = self.world.endpoints["one"].attempts
        for _ in range(5):
            self.world.play(self.two)
        assert self.world.endpoints["one"].attempts == before + 1

    def test_stream_that_nobody_publishes_is_not_found_without_a_connection(self) -> None:
        player = self.world.play(self.two)
        assert notices(player) == ["NetStream.Play.StreamNotFound"]
        assert not list(self.two.pulls.fetches)

    def test_second_publisher_on_another_node_is_refused_with_bad_name(self) -> None:
        self.world.live(self.one)
        second = self.world.publish(self.two)
        assert notices(second) == ["NetStream.Publish.BadName"]
        (event,) = self.two.events_of(PublishRefused)
        assert event.reason == "live/cam has a publisher already, at the node one"

    def test_second_publisher_on_the_same_node_is_refused_as_ever(self) -> None:
        self.world.live(self.one)
        assert notices(self.world.publish(self.one)) == ["NetStream.Publish.BadName"]
        assert self.one.owns()

    def test_stream_that_ended_may_be_published_anywhere_at_once(self) -> None:
        self.world.live(self.one).end()
        self.world.advance(0.25)
        second = self.world.live(self.two)
        assert notices(second) == []
        assert self.two.owns()
        assert not self.one.owns()

    def test_publisher_that_returns_to_its_node_is_safe_from_others_at_once(self) -> None:
        self.world.live(self.one).disconnect()
        self.world.advance(0.5)
        assert self.world.records.owners["live/cam"].is_silent
        self.world.live(self.one)
        assert notices(self.world.publish(self.two)) == ["NetStream.Publish.BadName"]

    def test_claim_of_a_client_that_left_meanwhile_is_given_up(self) -> None:
        self.world.records.epoch += 1
        instance = self.one.cluster.membership.me.instance
        self.world.records.owners["live/ghost"] = Ownership(instance, self.world.records.epoch)
        self.world.advance(2.5)
        assert "live/ghost" not in self.world.records.owners

    def test_rule_of_a_node_fetches_what_no_node_has(self) -> None:
        outside = self.world.add("outside", secret=Secret("it is in another cluster"))
        outside.cluster.stop()
        outside.server.factory.gate.placement = None
        self.world.live(outside, "far")
        url = RtmpUrl.parse("rtmp://outside/live/{name}")
        self.two.pulls.add(PullSettings("far", url, "live/f*"))
        assert len(pictures(self.world.play(self.two, "far"))) == 10
        self.world.live(self.one)
        assert len(pictures(self.world.play(self.two))) == 10

    def test_only_the_owner_sends_to_destinations(self) -> None:
        edge = self.world.add("edge", has_destination=True)
        self.world.live(self.one)
        self.world.play(edge)
        self.world.advance(3)
        assert self.world.sink_connections == []

    def test_nodes_know_each_other(self) -> None:
        self.world.advance(2.5)
        assert {event.other for event in self.one.events_of(NodeJoined)} == {"two", "three"}
        self.three.cluster.stop()
        self.world.advance(2.5)
        assert [event.other for event in self.one.events_of(NodeLost)] == ["three"]

    def test_renewals_do_not_grow_with_the_streams(self) -> None:
        for number in range(20):
            self.world.live(self.one, f"s{number}")
        self.world.advance(2.5)
        before = self.one.directory.requests
        self.world.advance(20)
        # The streams fall silent once, which is told in a renewal.
        assert self.one.directory.requests - before <= 12


class TakeoverTests(ClusterTestCase):
    def test_silent_publisher_is_taken_over_and_told(self) -> None:
        first = self.world.live(self.one)
        self.world.advance(8)
        second = self.world.live(self.two)
        assert notices(second) == []
        assert self.two.owns()
        assert not self.one.owns()
        assert notices(first) == ["NetStream.Publish.Denied"]
        for node in (self.one, self.two):
            (moved,) = node.events_of(StreamMoved)
            assert (moved.from_node, moved.to_node) == ("one", "two")

    def test_viewers_go_on_when_the_owner_dies_and_the_encoder_returns_elsewhere(self) -> None:
        encoder = self.world.live(self.one)
        player = self.world.play(self.three)
        self.world.send(encoder, *group(90_000))
        self.one.die()
        self.world.advance(1)
        returned = self.world.publish(self.two)
        self.world.send(returned, *start_frames(), *group(0))
        self.world.advance(6.5)
        self.world.send(returned, *group(200))
        self.world.advance(1)
        assert pictures(player)[-20:] == payloads([*group(0), *group(200)])
        times = [frame.timestamp_ms for frame in player.frames if frame.kind is not MediaKind.DATA]
        assert all(milliseconds_between(a, b) >= 0 for a, b in pairwise(times))
        assert "NetStream.Play.UnpublishNotify" not in player.codes

    def test_edge_that_becomes_the_owner_keeps_its_viewers(self) -> None:
        self.world.live(self.one)
        player = self.world.play(self.two)
        self.one.die()
        self.world.advance(7)
        returned = self.world.live(self.two)
        self.world.advance(1)
        assert notices(returned) == []
        assert notices(player) == []
        assert pictures(player)[-10:] == payloads(group(0))

    def test_encoder_that_returns_while_the_lease_lasts_is_kept_waiting_and_accepted(self) -> None:
        self.world.live(self.one)
        self.one.die()
        returned = self.world.publish(self.two)
        assert notices(returned) == []
        assert not self.two.owns()
        self.world.advance(6.5)
        assert self.two.owns()

    def test_encoder_that_lost_its_connection_may_go_to_another_node_at_once(self) -> None:
        encoder = self.world.live(self.one)
        player = self.world.play(self.three)
        encoder.disconnect()
        self.world.advance(0.5)
        self.world.live(self.two)
        self.world.advance(1)
        assert self.two.owns()
        assert pictures(player)[-10:] == payloads(group(0))

    def test_destination_of_the_old_owner_ends_before_that_of_the_new_one_begins(self) -> None:
        one = self.world.add("first", has_destination=True)
        two = self.world.add("second", has_destination=True)
        encoder = self.world.live(one)
        assert len(self.world.sink_connections) == 1
        encoder.disconnect()
        self.world.advance(0.5)
        assert len(self.world.sink_connections) == 1, "the destination is held"
        self.world.live(two)
        self.world.advance(1)
        assert self.world.sink_connections == ["c000002"]
        stream = self.world.sink.registry.get("live/key")
        assert stream is not None
        assert stream.publisher is not None


class DirectoryTests(ClusterTestCase):
    def cut(self, *nodes: object) -> None:
        for node in self.world.nodes.values():
            node.directory.is_cut = not nodes or node in nodes

    def back(self) -> None:
        for node in self.world.nodes.values():
            node.directory.is_cut = False

    def test_running_streams_go_on_and_known_routes_are_used_while_the_directory_is_away(self) -> None:
        encoder = self.world.live(self.one)
        player = self.world.play(self.two)
        self.world.advance(2.5)
        self.cut()
        self.world.advance(3)
        for number in range(1, 10):
            self.world.send(encoder, *group(200 * number))
            self.world.advance(3)
        late = self.world.play(self.three)
        assert len(pictures(player)) == 100
        assert len(pictures(late)) == 10
        assert notices(player) == []
        assert len(self.one.events_of(DirectoryLost)) == 1
        self.back()
        self.world.advance(1)
        assert len(self.one.events_of(DirectoryBack)) == 1
        assert self.one.owns()
        assert not self.one.events_of(StreamMoved)

    def test_stream_without_destinations_is_accepted_and_claimed_later(self) -> None:
        self.cut()
        self.world.advance(5)
        encoder = self.world.live(self.one)
        assert notices(encoder) == []
        self.back()
        self.world.advance(1)
        assert self.one.cluster.claims["live/cam"].epoch is not None
        assert len(pictures(self.world.play(self.two))) == 10

    def test_stream_with_destinations_is_refused_by_default(self) -> None:
        node = self.world.add("sender", has_destination=True)
        self.cut()
        self.world.advance(5)
        assert notices(self.world.publish(node)) == ["NetStream.Publish.Denied"]

    def test_accepted_stream_goes_to_destinations_only_when_the_directory_is_back(self) -> None:
        node = self.world.add("sender", WhenLost.ACCEPT, has_destination=True)
        self.cut()
        self.world.advance(5)
        self.world.live(node)
        self.world.advance(5)
        assert self.world.sink_connections == []
        self.back()
        self.world.advance(1)
        assert len(self.world.sink_connections) == 1

    def test_everything_may_be_refused(self) -> None:
        node = self.world.add("strict", WhenLost.REFUSE)
        self.cut()
        self.world.advance(5)
        refused = self.world.publish(node)
        assert notices(refused) == ["NetStream.Publish.Denied"]

    def test_two_that_were_accepted_meanwhile_are_one_again_when_it_is_back(self) -> None:
        self.cut()
        self.world.advance(5)
        self.world.live(self.one)
        self.world.live(self.two)
        self.back()
        self.world.advance(3)
        assert [node.owns() for node in (self.one, self.two)].count(True) == 1

    def test_owner_that_is_cut_off_alone_keeps_its_encoder(self) -> None:
        encoder = self.world.live(self.one)
        player = self.world.play(self.two)
        self.cut(self.one)
        for number in range(1, 10):
            self.world.send(encoder, *group(200 * number))
            self.world.advance(2)
        assert notices(encoder) == []
        assert len(pictures(player)) == 100

    def test_owner_that_is_cut_off_alone_is_told_directly_by_the_next_owner(self) -> None:
        one = self.world.add("first", has_destination=True)
        two = self.world.add("second", has_destination=True)
        encoder = self.world.live(one)
        self.cut(one)
        for number in range(1, 5):
            self.world.send(encoder, *group(200 * number))
            self.world.advance(2)
        second = self.world.live(two)
        self.world.advance(1)
        assert notices(second) == []
        assert notices(encoder) == ["NetStream.Publish.Denied"]
        assert len(self.world.sink_connections) == 1
        assert len(one.events_of(StreamMoved)) == 1

    def test_emptied_directory_learns_everything_again_and_epochs_go_on(self) -> None:
        self.world.live(self.one)
        before = self.one.cluster.claims["live/cam"].epoch
        self.world.records.owners.clear()
        self.world.records.nodes.clear()
        self.world.records.leases.clear()
        self.world.records.epoch = 0
        self.world.advance(3)
        after = self.one.cluster.claims["live/cam"].epoch
        assert before is not None
        assert after is not None
        assert after > before
        assert set(self.world.records.nodes) == {"one", "two", "three"}
        assert len(pictures(self.world.play(self.two))) == 10


class RefusalTests(ClusterTestCase):
    def test_wrong_secret_is_told_on_both_sides_in_one_line(self) -> None:
        stranger = self.world.add("stranger", secret=Secret("another secret entirely"))
        self.world.live(self.one)
        player = self.world.play(stranger)
        assert notices(player) == ["NetStream.Play.StreamNotFound"]
        (asked,) = [event.reason for event in stranger.events_of(PullFailed)]
        (told,) = [event.reason for event in self.one.events_of(ConnectRefused)]
        assert "the cluster secret of stranger is not that of one" in asked
        assert "the cluster secret of stranger is not that of one" in told
        assert "another secret" not in repr(stranger.server.events) + repr(self.one.server.events)

    def test_draining_node_takes_nobody_and_still_feeds_the_others(self) -> None:
        encoder = self.world.live(self.one)
        self.one.server.factory.gate.closed_because = "this server is about to stop"
        self.one.cluster.drain()
        self.world.pump()
        assert notices(self.world.publish(self.one, "other")) == ["NetStream.Publish.Denied"]
        assert notices(self.world.play(self.one)) == ["NetStream.Play.Failed"]
        player = self.world.play(self.two)
        self.world.send(encoder, *group(200))
        assert len(pictures(player)) == 20
        assert self.two.cluster.membership.snapshot.nodes["one"].is_draining

    def test_second_node_of_a_name_stays_out(self) -> None:
        twin = self.world.add("one")
        assert str(twin.cluster.membership.error) == "another node is called 'one' (rtmp://one:1935)"
        assert twin.cluster.membership.is_lost


def test_worlds_are_apart() -> None:
    """Nothing of a cluster is global."""
    first, second = World(), World()
    first.live(first.add("one"))
    assert second.add("one").cluster.membership.snapshot.owners == {}
