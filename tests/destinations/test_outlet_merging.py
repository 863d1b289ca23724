"""Destinations of a stream whose frames wait to be joined: the same frames, the same accounts, a little later."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.media import MediaFrame
from rtmprelay.testing import MemoryClient
from rtmprelay.wire import commands
from rtmprelay.wire.commands import StatusCode
from tests.destinations.helpers import RelayWorld, StubServer
from tests.destinations.test_outlet import STEPS, Walker, coded
from tests.helpers import audio, group, inter, keyframe, start_frames
from tests.streams.merging_helpers import FixedMerging

WINDOW = 0.2


def world_with(window: float) -> RelayWorld:
    """A relay whose destinations may wait so long; its viewers may not, so that all waiting is done in the window."""

    def merging(clock: Clock) -> FixedMerging:
        return FixedMerging(clock, viewer=0.0, server=window)

    return RelayWorld(merging)


class Story:
    """One destination, an encoder, and a viewer."""

    def __init__(self, window: float) -> None:
        self.window = window
        self.world = world_with(window)
        self.server: StubServer = self.world.stub()

    def begin(self, **settings: Any) -> MemoryClient:
        """A destination is there, somebody publishes, and somebody watches."""
        self.world.add(**settings)
        encoder = self.world.encoder()
        viewer = self.world.relay.connect()
        viewer.play("cam")
        return encoder

    def accept_publish(self) -> None:
        """The server answers at last."""
        last = self.server.last
        stream_id = last.command("publish").stream_id
        last.say(commands.on_status(stream_id, "status", StatusCode.PUBLISH_START, "go on"))
        self.world.pump()

    @property
    def waits(self) -> bool:
        """Whether frames wait to be joined."""
        stream = self.world.relay.registry.get("live/cam")
        assert stream is not None
        return any(lane.waiting for lane in stream._fan_out._lanes.values())

    @property
    def frames(self) -> list[list[MediaFrame]]:
        """What came over each connection."""
        return [connection.frames for connection in self.server.connections]

    def account(self) -> tuple[int, int, int, int]:
        self.world.assert_balanced()
        outlet = self.world.outlet()
        return outlet.messages_in, outlet.messages_sent, outlet.messages_dropped, outlet.messages_queued


def accepted_while_frames_wait(story: Story) -> None:
    """The first frames came while the server made up its mind, and so recently that they still wait."""
    story.server.silent_about = {"publish"}
    encoder = story.begin()
    story.world.send(encoder, *start_frames(), *group(0))
    assert story.waits == bool(story.window)
    story.accept_publish()
    story.world.send(encoder, *group(200))


def accepted_between_two_groups(story: Story) -> None:
    """Some frames were missed for good, some are in the cache, some wait."""
    story.server.silent_about = {"publish"}
    encoder = story.begin()
    story.world.send(encoder, *start_frames(), *group(0))
    story.world.advance(1)
    story.world.send(encoder, *group(200))
    story.accept_publish()
    story.world.send(encoder, inter(400), audio(400))


def accepted_in_the_middle_of_a_group(story: Story) -> None:
    story.server.silent_about = {"publish"}
    encoder = story.begin()
    story.world.send(encoder, *start_frames(), keyframe(0))
    story.world.advance(1)
    story.world.send(encoder, inter(40), audio(40))
    story.accept_publish()
    story.world.send(encoder, inter(80), audio(80))


def lost_and_back(story: Story) -> None:
    """The server is lost when nothing waits, and is back while something does."""
    encoder = story.begin()
    story.world.send(encoder, *start_frames(), *group(0))
    story.world.advance(1)
    story.server.silent_about = {"publish"}
    story.server.lose_all()
    story.world.advance(2)
    story.world.send(encoder, *group(200))
    story.accept_publish()
    story.world.send(encoder, *group(400))


def reconnected_by_an_operator(story: Story) -> None:
    encoder = story.begin()
    story.world.send(encoder, *start_frames(), *group(0))
    story.world.advance(1)
    story.world.manager.reconnect("one")
    story.world.pump()
    story.world.advance(1)
    story.world.send(encoder, *group(200))


def the_source_is_lost_and_returns(story: Story) -> None:
    """What waited is sent before the loss is known; the headers of the return are compared although they are joined."""
    encoder = story.begin(linger=5.0)
    story.world.send(encoder, *start_frames(), *group(0))
    encoder.disconnect(clean=False)
    story.world.advance(1)
    encoder = story.world.encoder()
    story.world.send(encoder, *start_frames())
    story.world.send(encoder, *group(0))


def the_source_returns_with_other_headers(story: Story) -> None:
    encoder = story.begin(linger=5.0)
    story.world.send(encoder, *start_frames(), *group(0))
    encoder.disconnect(clean=False)
    story.world.advance(1)
    encoder = story.world.encoder()
    headers = start_frames()
    headers[1] = MediaFrame(headers[1].kind, 0, headers[1].payload + b"other")
    story.world.send(encoder, *headers)
    story.world.advance(1)
    story.world.send(encoder, *group(2000))


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
def test_the_server_gets_the_same_frames_over_the_same_connections(tell: Callable[[Story], None]) -> None:
    joined, plain = Story(WINDOW), Story(0.0)
    for story in (joined, plain):
        tell(story)
        story.world.advance(1)
        story.account()
    assert joined.frames == plain.frames
    assert joined.account() == plain.account()
    assert joined.world.outlet().digest == plain.world.outlet().digest


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_each_frame_once_and_from_a_keyframe(tell: Callable[[Story], None]) -> None:
    story = Story(WINDOW)
    tell(story)
    story.world.advance(1)
    messages = [raw for connection in story.server.connections for raw in coded(connection.media)]
    assert messages
    for connection in story.server.connections:
        pictures = [raw for raw in coded(connection.media) if raw.type_id == 9]
        assert not pictures or pictures[0].payload[0] >> 4 == 1
    assert all(before.timestamp <= after.timestamp for before, after in pairwise(messages))
    assert len({(raw.timestamp, raw.payload) for raw in messages}) == len(messages)


def test_frames_really_wait_in_these_stories() -> None:
    """Otherwise the comparison says nothing."""
    story = Story(WINDOW)
    encoder = story.begin()
    story.world.send(encoder, *start_frames(), *group(0))
    before = story.waits, story.frames
    story.world.advance(WINDOW)
    assert before == (True, [[]])
    assert (story.waits, story.frames) == (False, [[*start_frames(), *group(0)]])


def test_the_end_on_purpose_comes_behind_what_waited() -> None:
    story = Story(WINDOW)
    encoder = story.begin()
    story.world.send(encoder, *start_frames(), *group(0))
    encoder.end()
    story.world.pump()
    assert story.frames == [[*start_frames(), *group(0)]]
    order = story.server.last.order
    assert order.index("media") < order.index("FCUnpublish")


def test_a_server_that_is_lost_while_frames_wait() -> None:
    """They are missed, counted, and made good for when it is back."""
    story = Story(WINDOW)
    encoder = story.begin()
    story.world.send(encoder, *start_frames(), *group(0))
    story.world.advance(1)
    story.world.send(encoder, *group(200))
    story.server.lose_all()
    story.world.pump()
    story.account()
    story.world.advance(3)
    first, second = story.frames
    assert first == [*start_frames(), *group(0)]
    assert second[3:] == group(200)
    assert story.account()[2:] == (0, 0)


def test_a_destination_that_is_taken_off_leaves_no_timer() -> None:
    story = Story(WINDOW)
    encoder = story.begin()
    story.world.send(encoder, *start_frames(), *group(0))
    story.world.manager.remove("one")
    story.world.pump()
    assert not story.waits
    story.world.send(encoder, *group(200))
    story.world.advance(1)
    assert "media" not in story.server.last.order


# -- anything, in any order ----------------------------------------------------------------------------------


class MergingWalker(Walker):
    """The same, with frames that wait; a viewer who may not wait is there all the time."""

    def __init__(self) -> None:
        super().__init__(world_with(WINDOW))

    @override
    def publish(self) -> None:
        came_back = self.encoder is None
        super().publish()
        if came_back:
            viewer = self.world.relay.connect()
            viewer.play("cam")

    def wait_a_little(self) -> None:
        self.world.advance(0.05, step=0.05)


class MergingAccountTests(SynchronousTestCase):
    @settings(max_examples=100)
    @given(st.lists(st.sampled_from([*STEPS, "wait_a_little"]), max_size=25))
    def test_every_message_is_accounted_for_at_every_step(self, steps: list[str]) -> None:
        walker = MergingWalker()
        for step in steps:
            getattr(walker, step)()
            walker.check()
        walker.go_on()
        walker.end_source()
        walker.world.advance(15)
        walker.check()
        stopped = walker.world.manager.stop()
        walker.world.pump()
        self.successResultOf(stopped)
