"""Frames become parts and segments, and every playlist of them keeps the rules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtmprelay.media import MediaFrame
from tests.hls.rendition import BEGAN, Rendition
from tests.mp4.box_reader import fragments
from tests.mp4.media import aac_header, avc_header, metadata, picture, sound

BOTH = [metadata(videocodecid=7.0, audiocodecid=10.0), avc_header(), aac_header()]
VIDEO_ONLY = [metadata(videocodecid=7.0), avc_header()]
AUDIO_ONLY = [metadata(audiocodecid=10.0), aac_header()]


def pictures(seconds: float, rate: float = 30.0, gop: float = 2.0, begin_ms: int = 0) -> list[MediaFrame]:
    """Pictures at a steady rate, each with a payload of its own."""
    every = round(rate * gop)
    return [
        picture(begin_ms + round(number * 1000 / rate), b"p%d" % number, key=number % every == 0)
        for number in range(round(seconds * rate))
    ]


def packets(seconds: float, begin_ms: int = 0) -> list[MediaFrame]:
    """AAC of 44100 Hz."""
    count = int(seconds * 44100 / 1024)
    return [sound(begin_ms + round(number * 1024 / 44.1), b"s%d" % number) for number in range(count)]


def interleaved(*tracks: list[MediaFrame]) -> list[MediaFrame]:
    return sorted((frame for track in tracks for frame in track), key=lambda frame: frame.timestamp_ms)


def test_segments_end_at_the_first_keyframe_after_their_length() -> None:
    world = Rendition(segment=2.0)
    world.send([*BOTH, *interleaved(pictures(9.5, gop=1.5), packets(9.5))])
    world.checker.assert_clean()
    durations = [segment.duration for segment in world.read().complete_segments]
    assert durations == [3.0, 3.0, 3.0]


def test_keyframe_exactly_at_the_length_ends_the_segment() -> None:
    world = Rendition(segment=2.0)
    world.send([*VIDEO_ONLY, *pictures(6.5, gop=2.0)])
    world.checker.assert_clean()
    assert [segment.duration for segment in world.read().complete_segments] == [2.0, 2.0, 2.0]
    assert world.targets.duration == 2


@pytest.mark.parametrize("rate", [1, 5, 10, 12.5, 15, 23.976, 24, 25, 29.97, 30, 50, 59.94, 60, 120])
@pytest.mark.parametrize("part", [0.2, 0.333, 0.5, 1.0])
def test_parts_have_the_wanted_length_at_every_frame_rate(rate: float, part: float) -> None:
    world = Rendition(part=part)
    world.send([*BOTH, *interleaved(pictures(8.2, rate=rate, gop=max(2, 1 / rate)), packets(8.2))])
    world.checker.assert_clean()
    target = world.targets.part_target
    assert target is not None
    assert target <= max(part, 1 / rate) * 1.1
    lengths = [piece.duration for segment in world.read().complete_segments for piece in segment.parts[:-1]]
    assert lengths
    assert all(0.85 * target <= length <= target for length in lengths)


@pytest.mark.parametrize("start", [BOTH, AUDIO_ONLY])
def test_sound_is_cut_between_packets(start: list[MediaFrame]) -> None:
    world = Rendition()
    frames = packets(9) if start is AUDIO_ONLY else interleaved(pictures(9), packets(9))
    world.send([*start, *frames])
    world.end()
    world.checker.assert_clean()
    assert media_of(world, track=2) == [frame.payload[2:] for frame in frames if frame.kind == 8]


def media_of(world: Rendition, track: int) -> list[bytes]:
    """The samples of a track in all segments, in order."""
    found = []
    for name, data in world.fetched.items():
        if name.startswith("s-"):
            found += [sample.data for one in fragments(data) for sample in one.of(track)]
    return found


def test_parts_of_a_segment_joined_are_the_segment_byte_for_byte() -> None:
    world = Rendition()
    world.send([*BOTH, *interleaved(pictures(7), packets(7))])
    for segment in world.read().complete_segments[-2:]:
        assert segment.parts
        assert b"".join(world.fetched[part.uri] for part in segment.parts) == world.fetched[segment.uri or ""]


def test_media_follows_itself_without_a_hole() -> None:
    world = Rendition()
    world.send([*BOTH, *interleaved(pictures(9), packets(9))])
    assert_no_holes(world)


def assert_no_holes(world: Rendition) -> None:
    """Each track goes on where it ended, in every part."""
    parts = [data for name, data in world.fetched.items() if name.startswith("p-")]
    for track in (1, 2):
        at = None
        for data in parts:
            for sample in (one for fragment in fragments(data) for one in fragment.of(track)):
                assert at is None or sample.decoded == at
                at = sample.decoded + sample.duration


def test_returning_publisher_goes_on_without_hole_or_discontinuity() -> None:
    world = Rendition()
    world.send([*BOTH, *interleaved(pictures(5), packets(5))])
    world.packager.publisher_returned()
    later = interleaved(pictures(5, begin_ms=12_345), packets(5, begin_ms=12_350))
    world.send([*BOTH, *later])
    world.checker.assert_clean()
    read = world.read()
    assert not any(segment.discontinuity for segment in read.segments)
    assert_no_holes(world)
    # The time of day goes on by what the absence was.
    newest = read.segments[-1]
    assert newest.date is not None
    ends_at = newest.date.timestamp() + newest.parts_duration - BEGAN
    assert ends_at == pytest.approx(17.345, abs=0.4)


def test_other_configuration_is_a_discontinuity_with_its_own_map() -> None:
    world = Rendition()
    world.send([*BOTH, *interleaved(pictures(5), packets(5))])
    world.packager.publisher_returned()
    other = avc_header(bytes.fromhex("0142c00dffe1000467420000" + "01000468010203"))
    world.send([BOTH[0], other, BOTH[2], *interleaved(pictures(5, begin_ms=9000), packets(5, begin_ms=9000))])
    world.checker.assert_clean()
    read = world.read()
    assert [segment.discontinuity for segment in read.segments].count(True) == 1
    assert len({segment.map.get("URI") for segment in read.segments if segment.map}) == 2
    assert len(world.configurations) == 2


def test_same_configuration_sent_again_changes_nothing() -> None:
    world = Rendition()
    world.send([*BOTH, *pictures(3), *BOTH, *pictures(3, begin_ms=3000)])
    assert len(world.configurations) == 1


def test_late_keyframes_do_not_change_the_target_duration() -> None:
    world = Rendition()
    world.send(
        [*VIDEO_ONLY, *pictures(4.1), *pictures(9, gop=20, begin_ms=4100), *pictures(4, begin_ms=13_100)]
    )
    world.checker.assert_clean()
    assert world.targets.duration == 2


def test_early_keyframes_end_a_segment_that_would_become_too_long() -> None:
    """An encoder that makes keyframes at cuts of the scene, and otherwise every two seconds."""
    keys = {0, 60, 120, 120 + 36, 120 + 96, 120 + 156}
    frames = [picture(round(number * 1000 / 30), b"p", key=number in keys) for number in range(300)]
    world = Rendition()
    world.send([*VIDEO_ONLY, *frames])
    world.checker.assert_clean()
    assert "#EXT-X-INDEPENDENT-SEGMENTS" in world.playlist.text()


def test_whole_segments_have_no_parts() -> None:
    world = Rendition(part=0.0)
    world.send([*BOTH, *interleaved(pictures(9), packets(9))])
    world.checker.assert_clean()
    assert "EXT-X-PART" not in world.playlist.text()
    assert len(world.read().complete_segments) == 4


def test_codec_that_an_mp4_cannot_hold_is_left_out_and_told_once() -> None:
    world = Rendition()
    speex = [MediaFrame(frame.kind, frame.timestamp_ms, b"\xb2speex") for frame in packets(5)]
    world.send([*VIDEO_ONLY, *interleaved(pictures(5), speex)])
    world.checker.assert_clean()
    assert len(world.read().complete_segments) == 2
    assert len(world.left_out) == 1
    assert "Speex" in world.left_out[0]


def test_dates_follow_an_encoder_whose_clock_is_slow() -> None:
    world = Rendition(part=1.0)
    world.send(VIDEO_ONLY)
    for frame in pictures(300, rate=5):
        # A minute of it takes 61 seconds.
        world.send([frame], now=BEGAN + frame.timestamp_ms / 1000 * 61 / 60)
    last = world.read().complete_segments[-1]
    assert last.date is not None
    came_at = (last.msn + 1) * 2.0 * 61 / 60
    # Without that it would be five seconds off.
    assert last.date.timestamp() + last.duration - BEGAN == pytest.approx(came_at, abs=2.1)
    world.checker.assert_clean()


def test_frames_without_a_decoder_configuration_are_not_kept() -> None:
    world = Rendition()
    world.send([VIDEO_ONLY[0], *pictures(100)])
    assert len(world.packager._waiting) <= 1000
    assert len(world.left_out) == 1
    # The configuration comes late, and everything begins.
    world.send([VIDEO_ONLY[1], *pictures(5, begin_ms=100_000)])
    assert len(world.read().complete_segments) == 2
    world.checker.assert_clean()


def test_window_keeps_as_much_as_it_should() -> None:
    world = Rendition(window=10.0)
    world.send([*VIDEO_ONLY, *pictures(40)])
    world.checker.assert_clean()
    assert 10 <= world.window.duration < 10 + 2 + 0.4
    assert world.window.segment(0) is None
    assert world.window.held_bytes == pytest.approx(2 * len(b"".join(world_segments(world))), rel=0.5)


def world_segments(world: Rendition) -> list[bytes]:
    return [segment.data or b"" for segment in world.window.segments]


# -- any sequence --------------------------------------------------------------------------------------------

STEPS = st.one_of(
    st.integers(20, 50),
    st.integers(0, 700),
    st.sampled_from([-5000, -900, -30, 0, 1, 333, 334, 2000, 30_000]),
)


@st.composite
def any_frames(draw: st.DrawFn) -> list[MediaFrame]:
    """Pictures and sound with steps that no encoder makes, in a row or mixed with steady ones."""
    kinds = draw(st.sampled_from(["video", "audio", "both"]))
    count = draw(st.integers(1, 150))
    steps = draw(st.lists(STEPS, min_size=count, max_size=count))
    if draw(st.booleans()):
        steps = [step if number % 30 == 7 else 33 for number, step in enumerate(steps)]
    keys = draw(st.sets(st.integers(0, count)))
    is_sound = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    start = {"video": VIDEO_ONLY, "audio": AUDIO_ONLY, "both": BOTH}[kinds]

    def made() -> Iterator[MediaFrame]:
        for number, time in enumerate(accumulate(steps, initial=10_000)):
            time = max(time, 0)
            if kinds == "audio" or (kinds == "both" and number < count and is_sound[number]):
                yield sound(time, b"s%d" % number)
            else:
                yield picture(
                    time, b"p%d" % number, key=number in keys or number == 0, composition_ms=number % 3 * 33
                )

    return [*start, *made()]


OTHER_HEADER = avc_header(bytes.fromhex("0142c00dffe1000467420000" + "01000468010203"))


@given(
    st.lists(any_frames(), min_size=1, max_size=4),
    st.lists(st.sampled_from([True, False]), min_size=4, max_size=4),
    st.sampled_from([0.0, 0.2, 0.333, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_any_publishers_after_each_other_give_playlists_that_keep_the_rules(
    broadcasts: list[list[MediaFrame]], others: list[bool], part: float
) -> None:
    """Each publisher begins where it likes, with the codecs that it likes, after a while or at once."""
    world = Rendition(part=part, window=5.0)
    now = BEGAN
    for number, frames in enumerate(broadcasts):
        if number:
            world.packager.publisher_returned()
            now += 0.5 * number
        for frame in frames:
            changed = OTHER_HEADER if others[number] and frame.payload[:2] == b"\x17\0" else frame
            world.send([changed], now=now)
            now += 0.033
    world.end()
    if world.checker.count:
        world.checker.assert_clean()


@given(any_frames(), st.sampled_from([0.0, 0.2, 0.333, 1.0]), st.sampled_from([0.5, 2.0, 6.0]))
@settings(max_examples=150, deadline=None)
def test_any_frames_give_playlists_that_keep_the_rules(
    frames: list[MediaFrame], part: float, segment: float
) -> None:
    world = Rendition(part=part, segment=segment, window=5.0)
    # The clock goes on whatever the timestamps say.
    for number, frame in enumerate(frames):
        world.send([frame], now=BEGAN + number * 0.033)
    world.end()
    if world.checker.count:
        world.checker.assert_clean()
