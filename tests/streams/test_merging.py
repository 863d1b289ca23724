"""How long frames may wait: by the load, never beyond the bound, and not at all where it is switched off."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from rtmprelay.streams.merging import (
    UNWATCHED,
    MergeRule,
    MergeWindow,
    Merging,
    Pace,
    reading_rule,
    server_rule,
    viewer_rule,
)

# -- the ramp ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "load", "milliseconds"),
    [
        # Twenty viewers of an ordinary stream are 1,460 deliveries a second, two hundred are 14,600.
        (viewer_rule(0.04), 0, 0),
        (viewer_rule(0.04), 1_460, 0),
        (viewer_rule(0.04), 2_500, 0),
        (viewer_rule(0.04), 4_375, 10),
        (viewer_rule(0.04), 6_250, 20),
        (viewer_rule(0.04), 10_000, 40),
        (viewer_rule(0.04), 14_600, 40),
        (viewer_rule(0.04), 1e9, 40),
        (viewer_rule(0.12), 14_600, 120),
        (viewer_rule(0.0), 14_600, 0),
        # Two destinations, ten, fifty.
        (server_rule(0.04), 146, 0),
        (server_rule(0.04), 150, 0),
        (server_rule(0.04), 375, 13),
        (server_rule(0.04), 730, 26),
        (server_rule(0.04), 3_650, 26),
        (server_rule(0.0), 3_650, 0),
        # Four publishers, fifty.
        (reading_rule(0.04), 292, 0),
        (reading_rule(0.04), 900, 60),
        (reading_rule(0.04), 3_650, 120),
        (reading_rule(0.0), 3_650, 0),
    ],
)
def test_the_window_grows_with_the_load(rule: MergeRule, load: float, milliseconds: float) -> None:
    assert rule.window(load) == pytest.approx(milliseconds / 1000)


@given(
    st.sampled_from([viewer_rule, server_rule, reading_rule]),
    st.floats(0, 1),
    st.floats(0, 1e7),
    st.floats(0, 1e7),
)
def test_more_load_never_means_a_shorter_window_or_one_beyond_the_bound(
    make_rule: type[MergeRule], longest: float, load: float, other: float
) -> None:
    rule = make_rule(longest)  # type: ignore[call-arg]
    windows = [rule.window(figure) for figure in sorted((load, other))]
    assert 0 <= windows[0] <= windows[1] <= UNWATCHED * longest


# -- measuring -----------------------------------------------------------------------------------------------


def load(window: MergeWindow, clock: Clock, deliveries: int) -> None:
    """Deliver, as a stream does."""
    window.load += deliveries
    if clock.seconds() >= window.measure_at:
        window.measure(clock.seconds())


def measured(window: MergeWindow, clock: Clock, deliveries_per_second: int, seconds: float) -> None:
    """Let so much load be there for so long, in steps of 20 ms."""
    for _ in range(round(seconds / 0.02)):
        clock.advance(0.02)
        load(window, clock, round(deliveries_per_second * 0.02))


def test_the_load_is_measured_over_half_a_second() -> None:
    clock = Clock()
    window = MergeWindow(viewer_rule(0.04), clock)
    measured(window, clock, 20_000, 0.48)
    assert window.seconds == 0
    measured(window, clock, 20_000, 0.04)
    assert window.seconds == 0.04


def test_load_that_comes_and_goes() -> None:
    clock = Clock()
    window = MergeWindow(viewer_rule(0.04), clock)
    seen: list[float] = []
    for rate in (1_000, 20_000, 6_250, 20_000, 1_000):
        measured(window, clock, rate, 1.04)
        seen.append(round(window.seconds, 2))
    assert seen == [0, 0.04, 0.02, 0.04, 0]


def test_the_first_frame_after_a_long_silence_does_not_wait() -> None:
    clock = Clock()
    window = MergeWindow(viewer_rule(0.04), clock)
    measured(window, clock, 20_000, 1.0)
    assert window.seconds == 0.04
    clock.advance(3600)
    load(window, clock, 200)
    assert window.seconds == 0


def test_one_burst_on_an_idle_server_is_no_load() -> None:
    """What a second has is what counts: 1,000 players that get a keyframe at once are no 1,000 a millisecond."""
    clock = Clock()
    window = MergeWindow(viewer_rule(0.04), clock)
    clock.advance(60)
    load(window, clock, 1_000)
    assert window.seconds == 0


# -- the windows of a server ---------------------------------------------------------------------------------


def test_each_pace_has_its_own_window_and_its_own_load() -> None:
    clock = Clock()
    merging = Merging(clock, 0.04)
    viewer, server = merging.window(Pace.VIEWER), merging.window(Pace.SERVER)
    assert viewer is not None
    assert server is not None
    measured(server, clock, 10_000, 1.0)
    assert viewer.seconds == 0
    assert server.seconds == pytest.approx(0.026)
    assert merging.reading.seconds == 0


def test_subscriber_that_wants_everything_at_once_has_no_window() -> None:
    assert Merging(Clock(), 0.04).window(Pace.AT_ONCE) is None


@pytest.mark.parametrize("longest", [0, 0.0, -0.0, -1.0])
def test_switched_off_nothing_ever_waits(longest: float) -> None:
    clock = Clock()
    merging = Merging(clock, longest)
    assert [merging.window(pace) for pace in Pace] == [None, None, None]
    measured(merging.reading, clock, 1_000_000, 2.0)
    assert merging.reading.seconds == 0
