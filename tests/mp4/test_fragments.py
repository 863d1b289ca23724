"""Frames as fragments: what is in them, and that nothing of the media is changed or lost."""

from __future__ import annotations

from itertools import pairwise

import attrs
import pytest

from rtmprelay.flv import Codec
from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind, milliseconds_between
from rtmprelay.mp4.fragments import (
    SOUND_TOLERANCE_MS,
    FragmentEncoder,
    FragmentPlacer,
    TimeWentBackError,
)
from rtmprelay.mp4.tracks import VideoTrack
from tests.mp4.fragment_helpers import (
    AAC,
    AUDIO,
    AVC,
    BOTH,
    DISPOSABLE,
    INTER,
    KEY,
    OPUS,
    VIDEO,
    make,
    samples,
)
from tests.mp4.media import (
    AAC_CONFIGURATION,
    AVC_CONFIGURATION,
    aac_header,
    avc_header,
    metadata,
    mp3,
    opus,
    opus_header,
    picture,
    sound,
)

# -- what is in a fragment ---------------------------------------------------------------------------------------


def test_pictures_and_sound_of_one_batch_are_one_fragment() -> None:
    (fragment,) = make([picture(0, b"one", key=True), sound(5, b"a"), picture(40, b"two"), sound(28, b"bc")])
    assert fragment.number == 1
    assert [sample.data for sample in fragment.of(VIDEO)] == [b"one", b"two"]
    assert [sample.data for sample in fragment.of(AUDIO)] == [b"a", b"bc"]


def test_fragments_are_numbered() -> None:
    found = make([picture(0, key=True)], [sound(1)], [picture(40)])
    assert [fragment.number for fragment in found] == [1, 2, 3]


def test_samples_are_flagged_as_keyframe_inter_or_disposable() -> None:
    disposable = MediaFrame(MediaKind.VIDEO, 80, b"\x37\x01\0\0\0data")
    (fragment,) = make([picture(0, key=True), picture(40), disposable])
    assert [sample.flags for sample in fragment.of(VIDEO)] == [KEY, INTER, DISPOSABLE]


def test_composition_times_may_be_negative() -> None:
    (fragment,) = make(
        [picture(0, key=True, composition_ms=80), picture(40, composition_ms=-40), picture(80)]
    )
    assert [(sample.decoded, sample.shown) for sample in fragment.of(VIDEO)] == [(0, 80), (40, 0), (80, 80)]


@pytest.mark.parametrize(
    ("times", "durations"),
    [((0,), [33]), ((0, 40, 50), [40, 10, 33]), ((0, 40, 140), [40, 100, 100]), ((0, 5000), [5000, 1000])],
)
def test_pictures_last_until_the_next(times: tuple[int, ...], durations: list[int]) -> None:
    """The last one like the one before it, or as usual if that is longer."""
    (fragment,) = make([picture(time, key=time == 0) for time in times])
    assert [sample.duration for sample in fragment.of(VIDEO)] == durations


NOTHING = [
    [],
    [metadata(width=1.0)],
    [avc_header(), aac_header()],
    [MediaFrame(MediaKind.VIDEO, 0, payload) for payload in (b"", b"\x17", b"\x17\2\0\0\0", b"\x57\0\0\0\0")],
    [MediaFrame(MediaKind.VIDEO, 0, b"\x17\1\0\0\0"), MediaFrame(MediaKind.AUDIO, 0, b"\xaf\1")],
    [MediaFrame(MediaKind.VIDEO, 0, b"\x24data"), MediaFrame(MediaKind.AUDIO, 0, b"\xbfdata")],
    [opus(0), mp3(0), opus_header()],
]


@pytest.mark.parametrize("frames", NOTHING)
def test_frames_without_coded_media_of_the_tracks_make_no_fragment(frames: list[MediaFrame]) -> None:
    assert BOTH.encode(frames) == b""


def test_a_kind_without_a_track_is_left_out() -> None:
    frames = [picture(0, key=True), sound(0)]
    (without_sound,) = make(frames, encoder=FragmentEncoder(AVC, None))
    (without_pictures,) = make(frames, encoder=FragmentEncoder(None, AAC))
    assert {sample.track for sample in without_sound.samples} == {VIDEO}
    assert {sample.track for sample in without_pictures.samples} == {AUDIO}


ENHANCED = [
    # CodedFrames has a composition time for HEVC, CodedFramesX and AV1 have none.
    (Codec.HEVC, b"\x91hvc1\xff\xff\xd8", KEY, -40),
    (Codec.HEVC, b"\xa1hvc1\0\0\x50", INTER, 80),
    (Codec.HEVC, b"\x93hvc1", KEY, 0),
    (Codec.AVC, b"\xa3avc1", INTER, 0),
    (Codec.AV1, b"\x91av01", KEY, 0),
    # With nanoseconds in front, and as the only track of a multitrack message.
    (Codec.HEVC, b"\xa7\2\1\2\3\1hvc1\0\0\x28", INTER, 40),
    (Codec.HEVC, b"\x96\1hvc1\0\0\0\x28", KEY, 40),
    # Old CDNs put HEVC under a number of its own.
    (Codec.HEVC, b"\x1c\1\0\0\x28", KEY, 40),
]


@pytest.mark.parametrize(("codec", "header", "flags", "composition_ms"), ENHANCED)
def test_every_way_to_wrap_a_picture(codec: Codec, header: bytes, flags: int, composition_ms: int) -> None:
    track = VideoTrack(codec, bytes(30), 320, 240, 40)
    frame = MediaFrame(MediaKind.VIDEO, 1000, header + b"data")
    (fragment,) = make([frame], encoder=FragmentEncoder(track, None), begin_ms=0)
    (sample,) = fragment.samples
    assert (sample.flags, sample.decoded, sample.shown, sample.data) == (
        flags,
        1000,
        1000 + composition_ms,
        b"data",
    )


def test_of_several_tracks_the_first_one_is_shown() -> None:
    one = b"\1" + (3).to_bytes(3) + b"one"
    none = b"\0" + (7).to_bytes(3) + b"\0\0\x28zero"
    frame = MediaFrame(MediaKind.VIDEO, 0, b"\x96\x11hvc1" + one + none)
    track = VideoTrack(Codec.HEVC, bytes(30), 320, 240, 40)
    (fragment,) = make([frame], encoder=FragmentEncoder(track, None))
    (sample,) = fragment.samples
    assert (sample.shown, sample.data) == (40, b"zero")
    other = MediaFrame(MediaKind.VIDEO, 0, b"\x96\1hvc1\1\0\0\0data")
    assert FragmentEncoder(track, None).encode([other]) == b""


def test_of_several_codecs_the_first_track_is_shown() -> None:
    other = b"Opus\1" + (3).to_bytes(3) + b"xyz"
    ours = b"mp4a\0" + (4).to_bytes(3) + b"zero"
    frame = MediaFrame(MediaKind.AUDIO, 0, b"\x95\x21" + other + ours)
    (fragment,) = make([frame])
    assert [sample.data for sample in fragment.of(AUDIO)] == [b"zero"]


CHANGES = [
    (avc_header(), False),
    (aac_header(), False),
    (MediaFrame(MediaKind.VIDEO, 0, b"\x90avc1" + AVC_CONFIGURATION), False),
    (MediaFrame(MediaKind.AUDIO, 0, b"\x90mp4a" + AAC_CONFIGURATION), False),
    (avc_header(AVC_CONFIGURATION + b"more"), True),
    (aac_header(b"\x11\x90"), True),
    (opus_header(), True),
    (aac_header(b""), False),
    (MediaFrame(MediaKind.VIDEO, 0, b"\x90hvc1" + AVC_CONFIGURATION), True),
    (picture(0, key=True), False),
    (metadata(width=2.0), False),
    # HDR metadata, and the header of another track.
    (MediaFrame(MediaKind.VIDEO, 0, b"\xd4avc1data"), False),
    (MediaFrame(MediaKind.VIDEO, 0, b"\x96\0avc1\1other"), False),
]


@pytest.mark.parametrize(("frame", "changed"), CHANGES)
def test_only_another_decoder_configuration_is_a_change_of_the_tracks(
    frame: MediaFrame, changed: bool
) -> None:
    assert BOTH.is_changed_by(frame) is changed


def test_a_new_track_is_a_change() -> None:
    assert FragmentEncoder(AVC, None).is_changed_by(aac_header())
    assert FragmentEncoder(None, AAC).is_changed_by(avc_header())


def test_equal_tracks_share_their_fragments() -> None:
    """Consumers look results up by their encoder."""
    same = FragmentEncoder(attrs.evolve(AVC), attrs.evolve(AAC))
    assert same == BOTH
    assert hash(same) == hash(BOTH)
    assert FragmentEncoder(AVC, None) != BOTH
    frames = [picture(0, key=True), sound(0)]
    assert same.encode(frames) == BOTH.encode(frames)


# -- the timeline ------------------------------------------------------------------------------------------------


def test_a_late_reader_begins_at_zero() -> None:
    found = make([picture(5000, key=True), sound(5010)], [picture(5040)], begin_ms=5000)
    assert [sample.decoded for sample in samples(found, VIDEO)] == [0, 40]
    assert [sample.decoded for sample in samples(found, AUDIO)] == [441]


def test_time_goes_on_after_timestamps_wrap() -> None:
    """RTMP timestamps begin again after 49 days; a reader that stays longer notices nothing."""
    begin = TIMESTAMP_MODULUS - 1000
    step = 1_000_000_000
    batches = [[picture((begin + step * number) % TIMESTAMP_MODULUS, key=True)] for number in range(10)]
    found = make(*batches, begin_ms=begin)
    assert [sample.decoded for sample in samples(found, VIDEO)] == [step * number for number in range(10)]


def test_sound_has_no_gaps_although_rtmp_rounds() -> None:
    """At 44100 Hz a packet lasts 23.2 ms; RTMP says 23 or 24."""
    times = [packet * 1024 * 1000 // 44100 for packet in range(500)]
    found = make(*[[sound(time)] for time in times])
    assert [sample.decoded for sample in samples(found, AUDIO)] == [1024 * number for number in range(500)]
    assert {sample.duration for sample in samples(found, AUDIO)} == {1024}


@pytest.mark.parametrize("jitter", [(0, 12, -9, 3, -20, 20), (15, 0), (0, 0, 0, 20)])
def test_sound_does_not_follow_jitter(jitter: tuple[int, ...]) -> None:
    times = [packet * 1024 * 1000 // 44100 + jitter[packet % len(jitter)] + 20 for packet in range(300)]
    found = make(*[[sound(time)] for time in times])
    decoded = [sample.decoded for sample in samples(found, AUDIO)]
    assert {later - earlier for earlier, later in pairwise(decoded)} == {1024}


def test_sound_follows_when_packets_are_missing() -> None:
    """Whether the gap is between two fragments or inside one."""
    apart = make([sound(0)], [sound(23)], [sound(500)], [sound(523)])
    together = make([sound(0), sound(23), sound(500), sound(523)])
    for found in (apart, together):
        times = [sample.decoded for sample in samples(found, AUDIO)]
        assert times == [0, 1024, 22050, 22050 + 1024]


def test_a_clock_that_is_a_little_fast_is_followed_in_steps() -> None:
    """A sound card with 44,150 Hz for some minutes: never further away than the tolerance and one packet."""
    times = [round(packet * 1024 * 1000 / 44150) for packet in range(20_000)]
    encoder = FragmentEncoder(None, AAC)
    placer = FragmentPlacer(encoder, 0)
    worst = 0.0
    for time in times:
        moof, _ = placer.place(encoder.encode([sound(time)]))
        decoded = int.from_bytes(moof[24 + 36 : 24 + 44], "big")
        worst = max(worst, abs(decoded / 44.1 - time))
    assert 10 < worst <= SOUND_TOLERANCE_MS + 1


OPUS_PACKETS = [
    (b"\xfc", 960),
    (b"\xfd..", 1920),
    (b"\xff\x03...", 2880),
    (b"\xec", 240),
    (b"\x1c", 2880),
    (b"\xff", 960),
]


@pytest.mark.parametrize(("packet", "length"), OPUS_PACKETS)
def test_opus_packets_say_how_long_they_last(packet: bytes, length: int) -> None:
    (fragment,) = make([opus(0, packet)], encoder=FragmentEncoder(None, OPUS))
    (sample,) = fragment.samples
    assert sample.duration == length


def test_pictures_that_go_back_a_little_are_decoded_in_the_order_they_came() -> None:
    """Where they are shown stays as it was said."""
    found = make([picture(100, key=True), picture(90)], [picture(90)], [picture(140)], begin_ms=0)
    assert [(sample.decoded, sample.shown) for sample in samples(found, VIDEO)] == [
        (100, 100),
        (101, 90),
        (102, 102),
        (140, 140),
    ]


def one_by_one(*times: int) -> list[tuple[int, int, int]]:
    """When pictures that come one by one are decoded and shown, and how long they are said to last."""
    found = make(
        *[[picture(time, key=time == times[0])] for time in times], encoder=FragmentEncoder(AVC, None)
    )
    return [(sample.decoded, sample.shown, sample.duration) for sample in samples(found, VIDEO)]


def test_decoding_makes_up_for_the_time_after_skipped_pictures() -> None:
    """They are shown when they should be; the usual 33 ms may be doubled at each step."""
    assert one_by_one(0, 33, 67, 267, 300, 333) == [
        (0, 0, 33),
        (33, 33, 33),
        (67, 67, 34),
        (135, 267, 200),
        (300, 300, 33),
        (333, 333, 33),
    ]


def test_a_slow_show_is_followed() -> None:
    """One picture a second: after the first step its length is known."""
    assert one_by_one(0, 1000, 2000, 3000) == [
        (0, 0, 33),
        (66, 1000, 1000),
        (2000, 2000, 1000),
        (3000, 3000, 1000),
    ]


def test_a_long_gap_is_a_break() -> None:
    """Nothing is decoded seconds before it is due; and a keyframe needs no bridge."""
    assert one_by_one(0, 3000)[1] == (3000, 3000, 1000)
    found = make([picture(0, key=True)], [picture(500, key=True)])
    assert [sample.decoded for sample in samples(found, VIDEO)] == [0, 500]


@pytest.mark.parametrize("frame", [picture(3000), sound(3000)])
def test_a_jump_back_is_an_error(frame: MediaFrame) -> None:
    with pytest.raises(TimeWentBackError, match=r"went back by 6\.\d s"):
        make([picture(9000, key=True), sound(9000)], [frame])


def test_gap_of_hours_shows_in_the_decode_time_of_the_next_fragment() -> None:
    hours = 10 * 3_600_000
    (first, second) = make(
        [picture(0, key=True), picture(hours), sound(0), sound(hours)], [picture(hours + 40)]
    )
    assert [sample.duration for sample in first.samples] == [60_000, 1000, 60 * 44100, 1024]
    assert [sample.decoded for sample in second.samples] == [hours + 40]


def test_distance_of_timestamps_wraps_at_their_modulus() -> None:
    assert milliseconds_between(TIMESTAMP_MODULUS - 1, 0) == 1
