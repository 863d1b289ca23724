"""Properties of any stream as fragments: nothing is lost, and time goes forward."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import attrs
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind
from rtmprelay.mp4.fragments import (
    FragmentEncoder,
    TimeWentBackError,
)
from tests.mp4.fragment_helpers import (
    AAC,
    AUDIO,
    INTER,
    KEY,
    VIDEO,
    make,
    samples,
)
from tests.mp4.media import (
    picture,
    sound,
)

PAYLOADS = st.binary(min_size=1, max_size=40)
STEPS = st.integers(0, 120)


@st.composite
def streams(draw: st.DrawFn) -> list[MediaFrame]:
    """Frames as a publisher sends them: each track by itself goes forward, by whatever steps."""
    time = {MediaKind.VIDEO: draw(st.integers(0, 200)), MediaKind.AUDIO: draw(st.integers(0, 200))}
    frames: list[MediaFrame] = []
    for kind in draw(st.lists(st.sampled_from((MediaKind.VIDEO, MediaKind.AUDIO)), max_size=30)):
        time[kind] += draw(STEPS)
        data = draw(PAYLOADS)
        if kind is MediaKind.VIDEO:
            frames.append(
                picture(time[kind], data, key=draw(st.booleans()), composition_ms=draw(st.integers(-99, 99)))
            )
        else:
            frames.append(sound(time[kind], data))
    return frames


def split(frames: Sequence[MediaFrame], cuts: Sequence[int]) -> list[list[MediaFrame]]:
    edges = sorted({0, len(frames), *(cut % (len(frames) + 1) for cut in cuts)})
    return [list(frames[begin:end]) for begin, end in pairwise(edges)]


@given(streams(), st.lists(st.integers(0, 30), max_size=8))
def test_nothing_is_lost_and_time_goes_forward(frames: list[MediaFrame], cuts: list[int]) -> None:
    """However the frames arrived: all payloads are there, in order, and each track's decode times rise."""
    found = make(*split(frames, cuts))
    for track, kind, skip in ((VIDEO, MediaKind.VIDEO, 5), (AUDIO, MediaKind.AUDIO, 2)):
        sent = [frame for frame in frames if frame.kind is kind]
        got = samples(found, track)
        assert [sample.data for sample in got] == [frame.payload[skip:] for frame in sent]
        times = [sample.decoded for sample in got]
        assert all(earlier < later for earlier, later in pairwise(times))
    for sample, frame in zip(
        samples(found, VIDEO), (frame for frame in frames if frame.kind is MediaKind.VIDEO), strict=True
    ):
        assert sample.flags == (KEY if frame.payload[0] == 0x17 else INTER)


@given(streams(), st.lists(st.integers(0, 30), max_size=8), st.lists(st.integers(0, 30), max_size=8))
def test_pictures_get_the_same_times_in_every_split(
    frames: list[MediaFrame], cuts: list[int], other_cuts: list[int]
) -> None:
    # Two pictures at one time are told apart by a tick, and where that is done depends on the split.
    times = [frame.timestamp_ms for frame in frames if frame.kind is MediaKind.VIDEO]
    if len(set(times)) < len(times):
        return
    one, other = (samples(make(*split(frames, chosen)), VIDEO) for chosen in (cuts, other_cuts))
    assert [sample.shown for sample in one] == [sample.shown for sample in other]
    assert all(sample.decoded <= time for sample, time in zip(one, times, strict=True))


@given(streams(), st.lists(st.integers(0, 30), max_size=8))
def test_no_picture_is_a_break_to_a_browser(frames: list[MediaFrame], cuts: list[int]) -> None:
    """A picture decoded later than twice the length of the one before would be one: nothing after it would be shown."""
    found = samples(make(*split(frames, cuts)), VIDEO)
    for before, sample in pairwise(found):
        assert sample.flags == KEY or sample.decoded - before.decoded <= 2 * before.duration


@given(st.integers(1, 60), st.lists(st.integers(0, 60), max_size=10), st.sampled_from((44100, 48000, 22050)))
def test_regular_sound_gets_the_same_times_in_every_split(count: int, cuts: list[int], rate: int) -> None:
    track = attrs.evolve(AAC, timescale=rate)
    frames = [sound(packet * 1024 * 1000 // rate) for packet in range(count)]
    found = make(*split(frames, cuts), encoder=FragmentEncoder(None, track))
    assert [sample.decoded for sample in samples(found, AUDIO)] == [1024 * number for number in range(count)]


@given(
    st.lists(
        st.builds(MediaFrame, st.sampled_from(MediaKind), st.integers(0, TIMESTAMP_MODULUS - 1), PAYLOADS)
        | st.builds(picture, st.integers(0, TIMESTAMP_MODULUS - 1), PAYLOADS)
        | st.builds(sound, st.integers(0, TIMESTAMP_MODULUS - 1), PAYLOADS),
        max_size=12,
    ),
    st.lists(st.integers(0, 12), max_size=4),
    st.integers(0, TIMESTAMP_MODULUS - 1),
)
def test_any_timestamps_give_a_file_or_the_one_error(
    frames: list[MediaFrame], cuts: list[int], begin_ms: int
) -> None:
    try:
        found = make(*split(frames, cuts), begin_ms=begin_ms)
    except TimeWentBackError:
        return
    for track in (VIDEO, AUDIO):
        times = [sample.decoded for sample in samples(found, track)]
        assert all(earlier < later for earlier, later in pairwise(times))
