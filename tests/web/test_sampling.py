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


class Sampling:
    """A sampler of real streams, and of destinations whose bytes a test sets."""

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

    def publish_second(self, begin_ms: int, key: str = "live/test", gop: int = 2000) -> None:
        """Publish a second of media: 25 frames of 1000 bytes, with audio."""
        stream = self.registry.get(key)
        assert stream is not None
        for number in range(25):
            time = begin_ms + number * 40
            picture = keyframe(time, 991) if time % gop == 0 else inter(time, 991)
            stream.publish_frames([picture, audio(time)], self.clock.seconds())
            self.clock.advance(0.04)

    def history(self, key: str = "live/test") -> list[float | None]:
        return self.sampler.histories()[0][key]


def test_steady_stream_has_its_bitrate_frame_rate_and_keyframe_interval() -> None:
    sampling = Sampling()
    sampling.publish()
    assert sampling.sampler.stream_rates("live/test") == StreamRates()
    for second in range(8):
        sampling.publish_second(second * 1000)
    rates = sampling.sampler.stream_rates("live/test")
    assert rates.bitrate_kbps == pytest.approx((1000 + 16) * 25 * 8 / 1000, rel=0.1)
    assert rates.fps == pytest.approx(25, abs=0.3)
    assert rates.keyframe_interval == pytest.approx(2.0, abs=0.001)


def test_history_of_five_minutes_has_zeros_without_media_and_gaps_without_publisher() -> None:
    sampling = Sampling()
    sampling.publish()
    for second in range(3):
        sampling.publish_second(second * 1000)
    sampling.clock.advance(1)
    sampling.leave()
    sampling.clock.pump([1.0] * 2)
    assert sampling.history()[0] is None
    assert sampling.history()[-2:] == [None, None]
    assert sampling.history()[-3] == 0.0
    assert [value is not None and value > 0 for value in sampling.history()][1:3] == [True] * 2
    sampling.clock.pump([1.0] * (HISTORY - 10))
    assert len(sampling.history()) <= HISTORY
    sampling.clock.pump([1.0] * 20)
    assert sampling.sampler.histories()[0] == {}


def test_returning_publisher_starts_the_rates_again_and_keeps_the_history() -> None:
    sampling = Sampling()
    sampling.publish()
    for second in range(4):
        sampling.publish_second(second * 1000)
    sampling.leave()
    sampling.publish()
    for second in range(3):
        sampling.publish_second(second * 1000, gop=1000)
    assert all(value is None or value >= 0 for value in sampling.history())
    assert len([value for value in sampling.history() if value]) >= 5
    assert sampling.sampler.stream_rates("live/test").keyframe_interval == pytest.approx(1.0, abs=0.001)


def test_histories_of_streams_that_are_gone_are_bounded() -> None:
    sampling = Sampling()
    for number in range(600):
        sampling.publish(f"live/{number}")
        if number % 3 == 0:
            sampling.clock.advance(1)
        stream = sampling.registry.get(f"live/{number}")
        assert stream is not None
        stream.publish_frames([keyframe(0)], sampling.clock.seconds())
        sampling.clock.advance(1)
        sampling.leave(f"live/{number}")
    assert len(sampling.sampler.histories()[0]) <= 200


def test_destination_has_its_rate_until_it_is_removed() -> None:
    sampling = Sampling()
    for second in range(6):
        sampling.sent = {"a": second * 125_000, "b": 0}
        sampling.clock.advance(1)
    assert sampling.sampler.destination_kbps("a") == pytest.approx(1000)
    assert sampling.sampler.destination_kbps("b") == 0
    assert sampling.sampler.destination_kbps("none") is None
    sampling.sent = {"b": 0}
    sampling.clock.advance(1)
    assert sampling.sampler.destination_kbps("a") is None
    assert list(sampling.sampler.histories()[1]) == ["b"]


def test_stopped_sampler_leaves_no_timer_and_can_start_again() -> None:
    sampling = Sampling()
    sampling.sampler.stop()
    assert sampling.clock.getDelayedCalls() == []
    sampling.sampler.start()
    sampling.clock.advance(1)
    assert sampling.sampler.samples == 3


@given(st.lists(st.tuples(st.floats(0.001, 3), st.integers(0, 10**9)), max_size=40))
def test_meter_never_has_a_negative_rate(steps: list[tuple[float, int]]) -> None:
    """Counters may go down at any time, when they start again."""
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
