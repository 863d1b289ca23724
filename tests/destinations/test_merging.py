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
    """A relay whose destinations may wait so long; its viewers may not, so that all waiting is done in the window."""

    def merging(clock: Clock) -> FixedMerging:
        return FixedMerging(clock, viewer=0.0, server=window)

    return MemoryRelay(merging)


class Story:
    """One destination, an encoder, and a viewer."""

    def __init__(self, window: float) -> None:
        self.window = window
        self.relay = relay_with(window)
        self.server: StubServer = self.relay.add_stub()

    def begin(self, **settings: Any) -> MemoryClient:
        """A destination is there, somebody publishes, and somebody watches."""
        self.relay.add_destination(**settings)
        encoder = self.relay.publish()
        viewer = self.relay.server.connect()
        viewer.play("cam")
        return encoder

    def accept_publish(self) -> None:
        """The server answers at last."""
        last = self.server.last
        stream_id = last.command("publish").stream_id
        last.say(commands.on_status(stream_id, "status", StatusCode.PUBLISH_START, "go on"))
        self.relay.pump()

    @property
    def waits(self) -> bool:
        """Whether frames wait to be joined."""
        stream = self.relay.server.registry.get("live/cam")
        assert stream is not None
        return any(lane.waiting for lane in stream._fan_out._lanes.values())

    @property
    def frames(self) -> list[list[MediaFrame]]:
        """What came over each connection."""
        return [connection.frames for connection in self.server.connections]

    def account(self) -> tuple[int, int, int, int]:
        self.relay.assert_balanced()
        outlet = self.relay.outlet()
        return outlet.messages_in, outlet.messages_sent, outlet.messages_dropped, outlet.messages_queued


def accepted_while_frames_wait(story: Story) -> None:
    """The first frames came while the server made up its mind, and so recently that they still wait."""
    story.server.silent_about = {"publish"}
    encoder = story.begin()
    story.relay.send(encoder, *start_frames(), *group(0))
    assert story.waits == bool(story.window)
    story.accept_publish()
    story.relay.send(encoder, *group(200))


def accepted_between_two_groups(story: Story) -> None:
    """Some frames were missed for good, some are in the cache, some wait."""
    story.server.silent_about = {"publish"}
    encoder = story.begin()
    story.relay.send(encoder, *start_frames(), *group(0))
    story.relay.advance(1)
    story.relay.send(encoder, *group(200))
    story.accept_publish()
    story.relay.send(encoder, inter(400), audio(400))


def accepted_in_the_middle_of_a_group(story: Story) -> None:
    story.server.silent_about = {"publish"}
    encoder = story.begin()
    story.relay.send(encoder, *start_frames(), keyframe(0))
    story.relay.advance(1)
    story.relay.send(encoder, inter(40), audio(40))
    story.accept_publish()
    story.relay.send(encoder, inter(80), audio(80))


def lost_and_back(story: Story) -> None:
    """The server is lost when nothing waits, and is back while something does."""
    encoder = story.begin()
    story.relay.send(encoder, *start_frames(), *group(0))
    story.relay.advance(1)
    story.server.silent_about = {"publish"}
    story.server.lose_all()
    story.relay.advance(2)
    story.relay.send(encoder, *group(200))
    story.accept_publish()
    story.relay.send(encoder, *group(400))


def reconnected_by_an_operator(story: Story) -> None:
    encoder = story.begin()
    story.relay.send(encoder, *start_frames(), *group(0))
    story.relay.advance(1)
    story.relay.destinations.reconnect("one")
    story.relay.pump()
    story.relay.advance(1)
    story.relay.send(encoder, *group(200))


def the_source_is_lost_and_returns(story: Story) -> None:
    """What waited is sent before the loss is known; the headers of the return are compared although they are joined."""
    encoder = story.begin(linger=5.0)
    story.relay.send(encoder, *start_frames(), *group(0))
    encoder.disconnect(clean=False)
    story.relay.advance(1)
    encoder = story.relay.publish()
    story.relay.send(encoder, *start_frames())
    story.relay.send(encoder, *group(0))


def the_source_returns_with_other_headers(story: Story) -> None:
    encoder = story.begin(linger=5.0)
    story.relay.send(encoder, *start_frames(), *group(0))
    encoder.disconnect(clean=False)
    story.relay.advance(1)
    encoder = story.relay.publish()
    headers = start_frames()
    headers[1] = MediaFrame(headers[1].kind, 0, headers[1].payload + b"other")
    story.relay.send(encoder, *headers)
    story.relay.advance(1)
    story.relay.send(encoder, *group(2000))


STORIES: list[Callable[[Story], None]] = [
    accepted_while_frames_wait,
    accepted_between_two_groups,
    accepted_in_the_middle_of_a_group,
    lost_and_back,
    reconnected_by_an_operator,
    the_source_is_lost_and_returns,
    the_source_returns_with_other_headers,
]


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_merged_frames_are_the_same_as_those_sent_one_by_one(tell: Callable[[Story], None]) -> None:
    joined, plain = Story(WINDOW), Story(0.0)
    for story in (joined, plain):
        tell(story)
        story.relay.advance(1)
        story.account()
    assert joined.frames == plain.frames
    assert joined.account() == plain.account()
    assert joined.relay.outlet().digest == plain.relay.outlet().digest


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_merged_frames_are_sent_once_and_from_a_keyframe(tell: Callable[[Story], None]) -> None:
    story = Story(WINDOW)
    tell(story)
    story.relay.advance(1)
    messages = [raw for connection in story.server.connections for raw in coded(connection.media)]
    assert messages
    for connection in story.server.connections:
        pictures = [raw for raw in coded(connection.media) if raw.type_id == 9]
        assert not pictures or pictures[0].payload[0] >> 4 == 1
    assert all(before.timestamp <= after.timestamp for before, after in pairwise(messages))
    assert len({(raw.timestamp, raw.payload) for raw in messages}) == len(messages)


def test_frames_wait_for_the_window() -> None:
    """Otherwise the comparison says nothing."""
    story = Story(WINDOW)
    encoder = story.begin()
    story.relay.send(encoder, *start_frames(), *group(0))
    before = story.waits, story.frames
    story.relay.advance(WINDOW)
    assert before == (True, [[]])
    assert (story.waits, story.frames) == (False, [[*start_frames(), *group(0)]])


def test_goodbye_is_said_after_the_frames_that_waited() -> None:
    story = Story(WINDOW)
    encoder = story.begin()
    story.relay.send(encoder, *start_frames(), *group(0))
    encoder.end()
    story.relay.pump()
    assert story.frames == [[*start_frames(), *group(0)]]
    order = story.server.last.order
    assert order.index("media") < order.index("FCUnpublish")


def test_frames_that_wait_when_the_server_is_lost_are_recovered() -> None:
    """They are missed, counted, and made good for when it is back."""
    story = Story(WINDOW)
    encoder = story.begin()
    story.relay.send(encoder, *start_frames(), *group(0))
    story.relay.advance(1)
    story.relay.send(encoder, *group(200))
    story.server.lose_all()
    story.relay.pump()
    story.account()
    story.relay.advance(3)
    first, second = story.frames
    assert first == [*start_frames(), *group(0)]
    assert second[3:] == group(200)
    assert story.account()[2:] == (0, 0)


def test_removed_destination_leaves_no_frames_waiting() -> None:
    story = Story(WINDOW)
    encoder = story.begin()
    story.relay.send(encoder, *start_frames(), *group(0))
    story.relay.destinations.remove("one")
    story.relay.pump()
    assert not story.waits
    story.relay.send(encoder, *group(200))
    story.relay.advance(1)
    assert "media" not in story.server.last.order
