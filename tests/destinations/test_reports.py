"""The events that a destination publishes, and the digest of what it sent."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import pytest
from twisted.internet.error import ConnectionRefusedError
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay import events
from tests.destinations.harness import MemoryRelay, OutletTestCase, destination
from tests.helpers import audio, group, inter, start_frames


class ReportTests(OutletTestCase):
    def test_events_tell_the_whole_story_with_the_name_of_the_destination(self) -> None:
        self.server.failure = ConnectionRefusedError()
        encoder = self.start(max_retries=3)
        self.server.failure = None
        self.relay.advance(40)
        self.server.lose_all()
        self.relay.advance(1)
        encoder.end()
        self.relay.pump()
        published = [
            event for event in self.relay.server.events if type(event).__name__.startswith("Destination")
        ]
        assert [
            event.name.removeprefix("destination_")
            for event in published
            if event.name != "destination_statistics"
        ] == [
            "connecting",
            "failed",
            "reconnecting",
            "connecting",
            "connected",
            "failed",
            "reconnecting",
            "connecting",
            "connected",
            "closed",
        ]
        for event in published:
            assert event.fields()["destination"] == "one"
            assert event.fields()["stream"] == "live/cam"
        failed = self.relay.events_of(events.DestinationFailed)
        assert [(event.error_class, event.reason) for event in failed] == [
            ("network", "nothing listens there (connection refused)"),
            ("network", "the connection was lost"),
        ]
        addresses = {event.fields()["address"] for event in published if "address" in event.fields()}
        assert addresses == {"rtmp://one:1935/live/***"}

    def test_throughput_is_reported_every_thirty_seconds(self) -> None:
        encoder = self.start()
        self.relay.advance(29.5)
        assert self.relay.events_of(events.DestinationStatistics) == []
        self.relay.advance(0.5)
        (event,) = self.relay.events_of(events.DestinationStatistics)
        assert (event.seconds, event.messages, event.dropped, event.queued) == (30.0, 13, 0, 0)
        assert event.bytes == self.relay.outlet().bytes_sent
        assert event.kbps == pytest.approx(event.bytes * 8 / 1000 / 30)
        self.relay.send(encoder, *group(400))
        self.relay.advance(30)
        assert self.relay.events_of(events.DestinationStatistics)[1].messages == 10
        encoder.end()
        self.relay.advance(100)
        assert len(self.relay.events_of(events.DestinationStatistics)) == 2

    def test_dropped_frames_are_reported_with_their_reason(self) -> None:
        encoder = self.start()
        self.server.lose_all()
        self.relay.send(encoder, inter(200), audio(200))
        self.relay.advance(1)
        (event,) = self.relay.events_of(events.DestinationDropped)
        assert (event.destination, event.reason, event.count) == ("one", "not_connected", 2)
        self.relay.send(encoder, inter(240), inter(280))
        self.relay.advance(5)
        event = self.relay.events_of(events.DestinationDropped)[-1]
        assert (event.reason, event.count) == ("waiting_for_keyframe", 2)
        self.relay.advance(60)
        assert len(self.relay.events_of(events.DestinationDropped)) == 2

    def test_frames_dropped_from_a_full_queue_are_reported(self) -> None:
        encoder = self.start()
        self.last.transport.stalled = True
        for begin in range(200, 15_000, 200):
            self.relay.send(encoder, *group(begin, size=9000))
        self.relay.advance(5)
        drops = self.relay.events_of(events.DestinationDropped)
        assert {event.reason for event in drops} == {"queue_full"}
        assert sum(event.count for event in drops) == self.relay.outlet().messages_dropped

    def test_frames_that_were_never_sent_are_reported_at_the_end(self) -> None:
        self.server.failure = ConnectionRefusedError()
        encoder = self.start()
        encoder.end()
        (event,) = self.relay.events_of(events.DestinationDropped)
        assert (event.reason, event.count) == ("not_connected", 10)
        (closed,) = self.relay.events_of(events.DestinationClosed)
        assert (closed.messages, closed.dropped) == (0, 10)
        assert self.relay.status().messages_dropped == 10

    def test_ended_destination_leaves_no_timer(self) -> None:
        encoder = self.start()
        encoder.end()
        self.relay.pump()
        encoder.disconnect()
        self.relay.pump()
        assert self.relay.clock.getDelayedCalls() == []


class ChainTests(SynchronousTestCase):
    def test_two_hops_deliver_the_same_bytes(self) -> None:
        relay = MemoryRelay()
        second = relay.add_server("second")
        third = relay.add_stub("third")
        onward = relay.destinations_of(second)
        onward.add(destination("onward", "rtmp://third/live"))
        relay.add_destination("second", "rtmp://second/live")
        encoder = relay.publish()
        sent = [*start_frames()]
        for begin in range(0, 4000, 200):
            sent += group(begin, size=begin + 1)
        for number in range(0, len(sent), 7):
            relay.send(encoder, *sent[number : number + 7])
            relay.advance(0.1)
        first, (last,) = relay.outlet("second"), onward.statuses()
        (last_outlet,) = last.outlets
        assert third.last.frames == sent
        assert first.digest == last_outlet.digest
        assert first.messages_sent == last_outlet.messages_sent
        assert first.bytes_sent == last_outlet.bytes_sent
        assert third.last.command("publish").arguments[0] == "cam"
        before = last_outlet.digest
        relay.send(encoder, audio(5000))
        assert onward.statuses()[0].outlets[0].digest != before
        assert onward.statuses()[0].outlets[0].digest == relay.outlet("second").digest
        encoder.end()
        relay.pump()
        assert third.last.order[-2:] == ["FCUnpublish", "deleteStream"]

    def test_digest_depends_on_frames_and_their_order(self) -> None:
        digests = []
        for frames in ([audio(0), audio(20)], [audio(20), audio(0)], [audio(0), audio(20)], [audio(0)]):
            relay = MemoryRelay()
            relay.add_stub()
            relay.add_destination()
            relay.send(relay.publish(), *frames)
            digests.append(relay.outlet().digest)
        assert digests[0] == digests[2]
        assert len(set(digests)) == 3
