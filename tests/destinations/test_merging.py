"""Destinations of a stream whose frames wait to be merged: the same frames and accounts, a little later."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from twisted.internet.task import Clock

from rtmprelay.media import MediaFrame
from rtmprelay.testing import MemoryClient
from rtmprelay.wire import commands
from rtmprelay.wire.commands import StatusCode
from tests.destinations.harness import MemoryRelay, coded
from tests.destinations.stub_server import StubServer
from tests.helpers import audio, group, inter, keyframe, start_frames
from tests.streams.merging_helpers import FixedMerging

WINDOW = 0.2


def relay_with(window: float) -> MemoryRelay:
    """A relay that merges frames for destinations, not for viewers."""

    def merging(clock: Clock) -> FixedMerging:
        return FixedMerging(clock, viewer=0.0, server=window)

    return MemoryRelay(merging)


class Broadcast:
    """One publisher, one destination, and a viewer."""

    def __init__(self, window: float) -> None:
        self.window = window
        self.relay = relay_with(window)
        self.server: StubServer = self.relay.add_stub()

    def start(self, **settings: Any) -> MemoryClient:
        """Add the destination, publish, and play."""
        self.relay.add_destination(**settings)
        encoder = self.relay.publish()
        viewer = self.relay.server.connect()
        viewer.play("cam")
        return encoder

    def accept_publish(self) -> None:
        """Let the server answer the publish."""
        last = self.server.last
        stream_id = last.command("publish").stream_id
        last.say(commands.on_status(stream_id, "status", StatusCode.PUBLISH_START, "go on"))
        self.relay.pump()

    @property
    def frames_wait(self) -> bool:
        """Whether frames wait to be merged."""
        stream = self.relay.server.registry.get("live/cam")
        assert stream is not None
        return any(lane.waiting for lane in stream._fan_out._lanes.values())

    @property
    def frames(self) -> list[list[MediaFrame]]:
        """The frames that arrived over each connection."""
        return [connection.frames for connection in self.server.connections]

    def account(self) -> tuple[int, int, int, int]:
        self.relay.assert_balanced()
        outlet = self.relay.outlet()
        return outlet.messages_in, outlet.messages_sent, outlet.messages_dropped, outlet.messages_queued


def accepted_while_frames_wait(broadcast: Broadcast) -> None:
    """The server accepts while the first frames still wait."""
    broadcast.server.silent_about = {"publish"}
    encoder = broadcast.start()
    broadcast.relay.send(encoder, *start_frames(), *group(0))
    assert broadcast.frames_wait == bool(broadcast.window)
    broadcast.accept_publish()
    broadcast.relay.send(encoder, *group(200))


def accepted_between_two_groups(broadcast: Broadcast) -> None:
    """Some frames were missed, some are cached, some wait."""
    broadcast.server.silent_about = {"publish"}
    encoder = broadcast.start()
    broadcast.relay.send(encoder, *start_frames(), *group(0))
    broadcast.relay.advance(1)
    broadcast.relay.send(encoder, *group(200))
    broadcast.accept_publish()
    broadcast.relay.send(encoder, inter(400), audio(400))


def accepted_in_the_middle_of_a_group(broadcast: Broadcast) -> None:
    broadcast.server.silent_about = {"publish"}
    encoder = broadcast.start()
    broadcast.relay.send(encoder, *start_frames(), keyframe(0))
    broadcast.relay.advance(1)
    broadcast.relay.send(encoder, inter(40), audio(40))
    broadcast.accept_publish()
    broadcast.relay.send(encoder, inter(80), audio(80))


def lost_and_back(broadcast: Broadcast) -> None:
    """The server is lost when nothing waits, and returns while frames wait."""
    encoder = broadcast.start()
    broadcast.relay.send(encoder, *start_frames(), *group(0))
    broadcast.relay.advance(1)
    broadcast.server.silent_about = {"publish"}
    broadcast.server.lose_all()
    broadcast.relay.advance(2)
    broadcast.relay.send(encoder, *group(200))
    broadcast.accept_publish()
    broadcast.relay.send(encoder, *group(400))


def reconnected_by_an_operator(broadcast: Broadcast) -> None:
    encoder = broadcast.start()
    broadcast.relay.send(encoder, *start_frames(), *group(0))
    broadcast.relay.advance(1)
    broadcast.relay.destinations.reconnect("one")
    broadcast.relay.pump()
    broadcast.relay.advance(1)
    broadcast.relay.send(encoder, *group(200))


def publisher_is_lost_and_returns(broadcast: Broadcast) -> None:
    """Frames that wait are sent before the loss is handled; merged headers are compared, too."""
    encoder = broadcast.start(linger=5.0)
    broadcast.relay.send(encoder, *start_frames(), *group(0))
    encoder.disconnect(clean=False)
    broadcast.relay.advance(1)
    encoder = broadcast.relay.publish()
    broadcast.relay.send(encoder, *start_frames())
    broadcast.relay.send(encoder, *group(0))


def publisher_returns_with_other_headers(broadcast: Broadcast) -> None:
    encoder = broadcast.start(linger=5.0)
    broadcast.relay.send(encoder, *start_frames(), *group(0))
    encoder.disconnect(clean=False)
    broadcast.relay.advance(1)
    encoder = broadcast.relay.publish()
    headers = start_frames()
    headers[1] = MediaFrame(headers[1].kind, 0, headers[1].payload + b"other")
    broadcast.relay.send(encoder, *headers)
    broadcast.relay.advance(1)
    broadcast.relay.send(encoder, *group(2000))


CASES: list[Callable[[Broadcast], None]] = [
    accepted_while_frames_wait,
    accepted_between_two_groups,
    accepted_in_the_middle_of_a_group,
    lost_and_back,
    reconnected_by_an_operator,
    publisher_is_lost_and_returns,
    publisher_returns_with_other_headers,
]


@pytest.mark.parametrize("happen", CASES, ids=lambda happen: happen.__name__)
def test_merged_frames_are_the_same_as_those_sent_one_by_one(happen: Callable[[Broadcast], None]) -> None:
    merged, plain = Broadcast(WINDOW), Broadcast(0.0)
    for broadcast in (merged, plain):
        happen(broadcast)
        broadcast.relay.advance(1)
        broadcast.account()
    assert merged.frames == plain.frames
    assert merged.account() == plain.account()
    assert merged.relay.outlet().digest == plain.relay.outlet().digest


@pytest.mark.parametrize("happen", CASES, ids=lambda happen: happen.__name__)
def test_merged_frames_are_sent_once_and_from_a_keyframe(happen: Callable[[Broadcast], None]) -> None:
    broadcast = Broadcast(WINDOW)
    happen(broadcast)
    broadcast.relay.advance(1)
    messages = [raw for connection in broadcast.server.connections for raw in coded(connection.media)]
    assert messages
    for connection in broadcast.server.connections:
        pictures = [raw for raw in coded(connection.media) if raw.type_id == 9]
        assert not pictures or pictures[0].payload[0] >> 4 == 1
    assert all(before.timestamp <= after.timestamp for before, after in pairwise(messages))
    assert len({(raw.timestamp, raw.payload) for raw in messages}) == len(messages)


def test_frames_wait_for_the_window() -> None:
    """Without this the comparison above proves nothing."""
    broadcast = Broadcast(WINDOW)
    encoder = broadcast.start()
    broadcast.relay.send(encoder, *start_frames(), *group(0))
    before = broadcast.frames_wait, broadcast.frames
    broadcast.relay.advance(WINDOW)
    assert before == (True, [[]])
    assert (broadcast.frames_wait, broadcast.frames) == (False, [[*start_frames(), *group(0)]])


def test_goodbye_is_said_after_the_frames_that_waited() -> None:
    broadcast = Broadcast(WINDOW)
    encoder = broadcast.start()
    broadcast.relay.send(encoder, *start_frames(), *group(0))
    encoder.end()
    broadcast.relay.pump()
    assert broadcast.frames == [[*start_frames(), *group(0)]]
    order = broadcast.server.last.order
    assert order.index("media") < order.index("FCUnpublish")


def test_frames_that_wait_when_the_server_is_lost_are_recovered() -> None:
    broadcast = Broadcast(WINDOW)
    encoder = broadcast.start()
    broadcast.relay.send(encoder, *start_frames(), *group(0))
    broadcast.relay.advance(1)
    broadcast.relay.send(encoder, *group(200))
    broadcast.server.lose_all()
    broadcast.relay.pump()
    broadcast.account()
    broadcast.relay.advance(3)
    first, second = broadcast.frames
    assert first == [*start_frames(), *group(0)]
    assert second[3:] == group(200)
    assert broadcast.account()[2:] == (0, 0)


def test_removed_destination_leaves_no_frames_waiting() -> None:
    broadcast = Broadcast(WINDOW)
    encoder = broadcast.start()
    broadcast.relay.send(encoder, *start_frames(), *group(0))
    broadcast.relay.destinations.remove("one")
    broadcast.relay.pump()
    assert not broadcast.frames_wait
    broadcast.relay.send(encoder, *group(200))
    broadcast.relay.advance(1)
    assert "media" not in broadcast.server.last.order
