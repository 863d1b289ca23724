"""Rates from counters, once a second."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.web.api.sampling import HISTORY, Meter, RateSampler, StreamRates
from tests.helpers import audio, inter, keyframe, start_frames
from tests.streams.helpers import FakePublisher


class World:
    """A sampler, a stream, and bytes that a destination is said to have got."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.registry = StreamRegistry()
        self.sent: dict[str, int] = {}
        self.sampler = RateSampler(self.registry, lambda: self.sent, self.clock)
        self.publisher = FakePublisher()
        self.sampler.start()

    def publish(self, key: str = "live/test") -> None:
        stream = self.registry.publish(key, self.publisher, self.clock.seconds())
        stream.publish_frames(start_frames(), self.clock.seconds())

    def leave(self, key: str = "live/test") -> None:
        stream = self.registry.get(key)
        assert stream is not None
        self.registry.unpublish(stream, self.publisher, True)

    def second(self, begin_ms: int, key: str = "live/test", gop: int = 2000) -> None:
        """A second of 25 pictures of 1000 bytes each, with sound."""
        stream = self.registry.get(key)
        assert stream is not None
        for number in range(25):
            time = begin_ms + number * 40
            picture = keyframe(time, 991) if time % gop == 0 else inter(time, 991)
            stream.publish_frames([picture, audio(time)], self.clock.seconds())
            self.clock.advance(0.04)

    def history(self, key: str = "live/test") -> list[float | None]:
        return self.sampler.histories()[0][key]


def test_the_rates_of_a_steady_stream() -> None:
    """Bitrate and frame rate over the last seconds; the distance of keyframes to the millisecond."""
    world = World()
    world.publish()
    assert world.sampler.stream_rates("live/test") == StreamRates()
    for second in range(8):
        world.second(second * 1000)
    rates = world.sampler.stream_rates("live/test")
    assert rates.bitrate_kbps == pytest.approx((1000 + 16) * 25 * 8 / 1000, rel=0.1)
    assert rates.fps == pytest.approx(25, abs=0.3)
    assert rates.keyframe_interval == pytest.approx(2.0, abs=0.001)


def test_the_history_has_five_minutes() -> None:
    """Oldest first; a second without media is a zero, one without a publisher is nothing."""
    world = World()
    world.publish()
    for second in range(3):
        world.second(second * 1000)
    world.clock.advance(1)
    world.leave()
    world.clock.pump([1.0] * 2)
    assert world.history()[0] is None
    assert world.history()[-2:] == [None, None]
    assert world.history()[-3] == 0.0
    assert [value is not None and value > 0 for value in world.history()][1:3] == [True] * 2
    world.clock.pump([1.0] * (HISTORY - 10))
    assert len(world.history()) <= HISTORY
    world.clock.pump([1.0] * 20)
    # Nothing is left to show.
    assert world.sampler.histories()[0] == {}


def test_a_publisher_that_returns_begins_anew() -> None:
    """No rate goes below zero, and the history goes on."""
    world = World()
    world.publish()
    for second in range(4):
        world.second(second * 1000)
    world.leave()
    world.publish()
    for second in range(3):
        world.second(second * 1000, gop=1000)
    assert all(value is None or value >= 0 for value in world.history())
    assert len([value for value in world.history() if value]) >= 5
    assert world.sampler.stream_rates("live/test").keyframe_interval == pytest.approx(1.0, abs=0.001)


def test_streams_that_come_and_go_do_not_fill_the_memory() -> None:
    """Of those that have gone only the last are kept."""
    world = World()
    for number in range(600):
        world.publish(f"live/{number}")
        if number % 3 == 0:
            world.clock.advance(1)
        stream = world.registry.get(f"live/{number}")
        assert stream is not None
        stream.publish_frames([keyframe(0)], world.clock.seconds())
        world.clock.advance(1)
        world.leave(f"live/{number}")
    assert len(world.sampler.histories()[0]) <= 200


def test_the_rates_of_destinations() -> None:
    """From the bytes that each has been sent; one that is removed is forgotten."""
    world = World()
    for second in range(6):
        world.sent = {"a": second * 125_000, "b": 0}
        world.clock.advance(1)
    assert world.sampler.destination_kbps("a") == pytest.approx(1000)
    assert world.sampler.destination_kbps("b") == 0
    assert world.sampler.destination_kbps("none") is None
    world.sent = {"b": 0}
    world.clock.advance(1)
    assert world.sampler.destination_kbps("a") is None
    assert list(world.sampler.histories()[1]) == ["b"]


def test_stopping_leaves_no_timer() -> None:
    """And it may begin again."""
    world = World()
    world.sampler.stop()
    assert world.clock.getDelayedCalls() == []
    world.sampler.start()
    world.clock.advance(1)
    assert world.sampler.samples == 3


@given(st.lists(st.tuples(st.floats(0.001, 3), st.integers(0, 10**9)), max_size=40))
def test_a_meter_never_shows_what_cannot_be(steps: list[tuple[float, int]]) -> None:
    """Whatever counts it sees, also ones that begin anew: no negative rate, no more values than are kept."""
    meter = Meter()
    now = 0.0
    for seconds, count in steps:
        now += seconds
        meter.add_sample(now, count)
        kbps, fps = meter.rates()
        assert kbps is None or kbps >= 0
        assert fps is None or fps == 0
    assert all(value is None or value >= 0 for value in meter.history)
    assert len(meter.history) == len(steps)
