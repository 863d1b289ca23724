"""A relay that is its own destination, directly or through another relay: one line, and no loop."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from rtmprelay.events import (
    ConnectRefused,
    DestinationClosed,
    DestinationDropped,
    DestinationFailed,
    PublishStarted,
)
from rtmprelay.rtmp.node_pass import NodeIdentity
from tests.destinations.harness import DestinationTestCase, destination
from tests.helpers import start_frames


class RelayToItselfTests(DestinationTestCase):
    def publish_for(self, seconds: float) -> None:
        encoder = self.relay.publish()
        self.relay.send(encoder, *start_frames())
        self.relay.advance(seconds, step=5)

    def assert_noticed_once(self) -> None:
        (failed,) = self.relay.events_of(DestinationFailed)
        assert failed.reason == "that is this relay, or leads back to it"
        assert failed.given_up
        assert failed.log_level() == "warn"
        assert self.relay.events_of(ConnectRefused) == []
        assert [event.stream for event in self.relay.events_of(PublishStarted)] == ["live/cam"]
        assert self.relay.outlet().given_up
        self.relay.server.factory.shut_down()
        self.relay.pump()
        assert self.relay.events_of(DestinationDropped) == []
        (closed,) = self.relay.events_of(DestinationClosed)
        assert closed.log_level() == "debug"

    def test_destination_that_is_the_relay_itself_is_tried_once(self) -> None:
        self.relay.add_itself("me")
        self.relay.add_destination(url="rtmp://me/live2/x")
        self.publish_for(600)
        self.assert_noticed_once()

    def test_template_that_leads_to_the_relay_itself_makes_no_loop(self) -> None:
        self.relay.add_itself("me")
        self.relay.add_destination(url="rtmp://me/{app}-{name}/x")
        self.publish_for(600)
        self.assert_noticed_once()

    def test_same_key_on_the_relay_itself_is_recognised_before_the_key(self) -> None:
        self.relay.add_itself("me")
        self.relay.add_destination(url="rtmp://me/live/cam")
        self.publish_for(600)
        self.assert_noticed_once()

    def test_loop_through_a_second_relay_ends_there(self) -> None:
        second = self.relay.add_server("second")
        self.relay.add_itself("me")
        self.relay.add_destination(url="rtmp://second/live/x")
        onward = self.relay.destinations_of(second)
        onward.add(destination("back", "rtmp://me/live2/x"))
        # Less than the second relay waits for a frame.
        self.publish_for(30)
        (failed,) = second.events_of(DestinationFailed)
        assert failed.reason == "that is this relay, or leads back to it"
        assert [event.stream for event in self.relay.events_of(PublishStarted)] == ["live/cam"]
        assert self.relay.status().state.value == "connected"

    def test_other_relays_are_not_told_the_name_of_this_one(self) -> None:
        shown = NodeIdentity("studio-7:1935").issue_for_destination(()).reveal()
        assert "studio" not in shown

    def test_destination_is_tried_again_with_the_next_stream(self) -> None:
        self.relay.add_itself("me")
        self.relay.add_destination(url="rtmp://me/live2/x")
        for _ in range(2):
            encoder = self.relay.publish()
            self.relay.send(encoder, *start_frames())
            encoder.end()
            self.relay.pump()
        assert len(self.relay.events_of(DestinationFailed)) == 2
