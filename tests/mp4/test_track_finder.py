"""When the tracks of a stream are known, which ones they are, and where its time begins."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv import Codec
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.mp4.tracks import (
    MAX_WAIT_FRAMES,
    AudioTrack,
    TrackFinder,
    UnsupportedMediaError,
    VideoTrack,
    promised_kinds,
)
from tests.mp4.media import (
    AAC_CONFIGURATION,
    AV1_CONFIGURATION,
    AVC_CONFIGURATION,
    OPUS_HEAD,
    aac_header,
    avc_header,
    metadata,
    mp3,
    opus,
    opus_header,
    picture,
    sound,
)

V, A = MediaKind.VIDEO, MediaKind.AUDIO

BOTH_PROMISED = metadata(videocodecid=7.0, audiocodecid=10.0)
VIDEO_PROMISED = metadata(videocodecid=7.0, width=318.0, framerate=30.0)
AUDIO_PROMISED = metadata(audiocodecid=10.0)


def look(frames: Sequence[MediaFrame], wait_for_keyframe: bool = False) -> tuple[TrackFinder, int]:
    """A finder that looked at frames until it knew enough, and how many it took; 0 if it does not know yet."""
    finder = TrackFinder(wait_for_keyframe)
    for count, frame in enumerate(frames, 1):
        finder.note(frame)
        if finder.is_complete:
            return finder, count
    return finder, 0


PROMISES: list[tuple[dict[str, AmfValue], set[MediaKind]]] = [
    ({}, {V, A}),
    ({"encoder": "obs"}, {V, A}),
    ({"videocodecid": 7.0}, {V}),
    ({"width": 1.0, "height": 1.0}, {V}),
    ({"audiocodecid": "mp4a"}, {A}),
    ({"audiosamplerate": 44100.0, "framerate": 25.0}, {V, A}),
    ({"audiocodecid": 10.0, "hasAudio": False, "hasVideo": True}, {V}),
    ({"hasAudio": True, "hasVideo": False}, {A}),
    ({"hasAudio": False, "hasVideo": False}, {V, A}),
]


@pytest.mark.parametrize(("values", "kinds"), PROMISES)
def test_kinds_of_media_are_those_that_metadata_announces(
    values: dict[str, AmfValue], kinds: set[MediaKind]
) -> None:
    assert promised_kinds(values) == kinds


BEGINNINGS = [
    # All that was promised is there with its first frame.
    ([BOTH_PROMISED, avc_header(), aac_header(), picture(0, key=True), sound(10)], 5),
    ([BOTH_PROMISED, avc_header(), picture(0, key=True), aac_header(), sound(30)], 5),
    ([VIDEO_PROMISED, avc_header(), picture(0, key=True)], 3),
    ([AUDIO_PROMISED, aac_header(), sound(0)], 3),
    ([AUDIO_PROMISED, mp3(0)], 2),
    # Without a promise both are waited for, for a second of media.
    ([avc_header(), picture(0, key=True), picture(500), picture(999), picture(1000)], 5),
    ([aac_header(), sound(0), sound(1500)], 3),
    # A promise that is not kept.
    ([BOTH_PROMISED, avc_header(), *(picture(40 * number) for number in range(26))], 28),
    # Sound whose configuration is there and that begins later.
    ([BOTH_PROMISED, avc_header(), aac_header(), *(picture(40 * number) for number in range(26))], 29),
]


@pytest.mark.parametrize(("frames", "count"), BEGINNINGS)
def test_finder_waits_for_exactly_the_frames_that_it_needs(frames: list[MediaFrame], count: int) -> None:
    """Not longer than it must, and not a frame less."""
    assert len(frames) == count
    assert look(frames)[1] == count


def test_timestamps_that_stand_still_are_not_waited_for_for_ever() -> None:
    finder, count = look([avc_header(), *[picture(0)] * (2 * MAX_WAIT_FRAMES)])
    assert count == MAX_WAIT_FRAMES
    assert finder.audio is None


def test_the_tracks_that_it_found() -> None:
    finder, _ = look([VIDEO_PROMISED, avc_header(), aac_header(), picture(0, key=True)])
    assert finder.video == VideoTrack(Codec.AVC, AVC_CONFIGURATION, 318, 238, 33)
    assert finder.audio == AudioTrack(Codec.AAC, AAC_CONFIGURATION, 44100, 2, 1024)


def test_an_empty_configuration_is_one_that_comes_later() -> None:
    """FFmpeg sends one before the first picture of some encoders."""
    empty = [enhanced(b"\x90av01", b""), enhanced(b"\x90Opus", b"", A), aac_header(b"")]
    finder, count = look(
        [VIDEO_PROMISED, *empty, enhanced(b"\x90av01", AV1_CONFIGURATION), enhanced(b"\x91av01", b"x")]
    )
    assert count == 6
    assert finder.video is not None


def test_sound_that_never_comes_is_left_out() -> None:
    finder, _ = look([BOTH_PROMISED, avc_header(), picture(0), picture(2000)])
    assert finder.audio is None


def test_sound_that_comes_later_has_its_track() -> None:
    finder, _ = look([BOTH_PROMISED, avc_header(), aac_header(), picture(0), picture(2000)])
    assert finder.audio is not None


def enhanced(packet: bytes, data: bytes, kind: MediaKind = V) -> MediaFrame:
    return MediaFrame(kind, 0, packet + data)


TRACKS = [
    (enhanced(b"\x90avc1", AVC_CONFIGURATION), VideoTrack(Codec.AVC, AVC_CONFIGURATION, 318, 238, 40)),
    (enhanced(b"\x90av01", AV1_CONFIGURATION), VideoTrack(Codec.AV1, AV1_CONFIGURATION, 320, 240, 40)),
    # A size that cannot be read is taken from the metadata.
    (enhanced(b"\x90hvc1", bytes(23)), VideoTrack(Codec.HEVC, bytes(23), 640, 360, 40)),
    (enhanced(b"\x1c\0\0\0\0", bytes(23)), VideoTrack(Codec.HEVC, bytes(23), 640, 360, 40)),
]


@pytest.mark.parametrize(("header", "track"), TRACKS)
def test_video_header_gives_its_track(header: MediaFrame, track: VideoTrack) -> None:
    finder, _ = look([metadata(width=640.0, height=360.0), header])
    assert finder.video == track


@pytest.mark.parametrize(
    ("values", "size", "frame_ms"),
    [
        ({}, (0, 0), 40),
        ({"width": 1e9, "height": -1.0, "framerate": 1e9}, (0, 0), 40),
        ({"width": "640", "height": True, "framerate": float("nan")}, (0, 1), 40),
        ({"width": 65535.0, "height": 1.0, "framerate": 59.94}, (65535, 1), 17),
        ({"width": float("inf"), "height": float("nan"), "framerate": 0.0}, (0, 0), 40),
    ],
)
def test_metadata_is_not_trusted(values: dict[str, AmfValue], size: tuple[int, int], frame_ms: int) -> None:
    finder, _ = look([metadata(**values), enhanced(b"\x90hvc1", bytes(23))])
    track = finder.video
    assert track is not None
    assert ((track.width, track.height), track.frame_ms) == (size, frame_ms)


AUDIO_TRACKS = [
    ([opus_header(), opus(0)], AudioTrack(Codec.OPUS, OPUS_HEAD, 48000, 2, None)),
    ([mp3(0)], AudioTrack(Codec.MP3, b"", 44100, 2, 1152)),
    ([enhanced(b"\x90mp4a", b"\x11\x90", A), sound(0)], AudioTrack(Codec.AAC, b"\x11\x90", 48000, 2, 1024)),
    ([enhanced(b"\x91.mp3", b"\xff\xf3\x40\xc0", A)], AudioTrack(Codec.MP3, b"", 22050, 1, 576)),
]


@pytest.mark.parametrize(("frames", "track"), AUDIO_TRACKS)
def test_audio_header_gives_its_track(frames: list[MediaFrame], track: AudioTrack) -> None:
    finder, _ = look([AUDIO_PROMISED, *frames])
    assert finder.is_complete
    assert finder.audio == track


UNSUPPORTED = [
    (MediaFrame(V, 0, b"\x12data"), "Sorenson H.263"),
    (MediaFrame(V, 0, b"\x24data"), "On2 VP6"),
    (MediaFrame(V, 0, b"\x90vp09data"), "configuration of VP9 is cut short"),
    (MediaFrame(V, 0, b"\x90vp09" + b"\7" * 8), "configuration of VP9 cannot be read"),
    (MediaFrame(V, 0, b"\x91vp08data"), "VP8"),
    (MediaFrame(V, 0, b"\x90newcdata"), "FourCC 'newc'"),
    (MediaFrame(A, 0, b"\xb2data"), "Speex"),
    (MediaFrame(A, 0, b"\x91ac-3data"), "announces AC-3, but"),
    (MediaFrame(A, 0, b"\x91ec-3\x0b\x77"), "announces E-AC-3, but"),
    (MediaFrame(A, 0, b"\x90fLaCdata"), "configuration of FLAC is cut short"),
    (MediaFrame(A, 0, b"\x90fLaC" + bytes(40)), "configuration of FLAC cannot be read"),
    (MediaFrame(A, 0, b"\x3fdata"), "PCM"),
    (MediaFrame(A, 0, b"\x2fno mp3"), "announces MP3, but"),
    (avc_header(b"short"), "configuration of H.264 AVC is cut short"),
    (aac_header(b"\x12"), "configuration of AAC is cut short"),
    (aac_header(b"\x16\x90"), "configuration of AAC cannot be read"),
    (MediaFrame(A, 0, b"\x90OpusOpusHead"), "configuration of Opus is cut short"),
    (MediaFrame(A, 0, b"\x90Opus" + bytes(19)), "configuration of Opus cannot be read"),
    (MediaFrame(A, 0, b"\x90Opus" + OPUS_HEAD[:18] + b"\1"), "configuration of Opus cannot be read"),
]


@pytest.mark.parametrize(("frame", "reason"), UNSUPPORTED)
def test_frame_that_cannot_become_mp4_is_refused_with_its_reason(frame: MediaFrame, reason: str) -> None:
    with pytest.raises(UnsupportedMediaError, match=reason):
        look([frame])


def test_a_stream_that_nobody_can_recognise() -> None:
    frames = [picture(40 * number) for number in range(30)]
    with pytest.raises(UnsupportedMediaError, match="nothing that tells its codecs"):
        look(frames)


def test_unknown_codec_on_another_track_does_not_matter() -> None:
    other = MediaFrame(V, 0, b"\x96\0vp09\1data")
    finder, count = look([VIDEO_PROMISED, other, avc_header(), picture(0, key=True)])
    assert count == 4
    assert finder.video is not None


BEGIN_TIMES = [
    ([avc_header(), aac_header(), picture(100, key=True), sound(80)], 80),
    ([avc_header(), aac_header(), picture(100, key=True), sound(120)], 100),
    ([avc_header(), aac_header(), sound(90), picture(100, key=True)], 90),
    # The circle of timestamps ends between the two.
    ([avc_header(), aac_header(), picture(5, key=True), sound((1 << 32) - 5)], (1 << 32) - 5),
]


@pytest.mark.parametrize(("frames", "begin_ms"), BEGIN_TIMES)
def test_time_begins_with_the_earliest_first_frame(frames: list[MediaFrame], begin_ms: int) -> None:
    finder, _ = look(frames)
    assert finder.is_complete
    assert finder.begin_ms == begin_ms


def test_pictures_that_are_not_delivered_do_not_count() -> None:
    finder, count = look(
        [avc_header(), aac_header(), sound(500), picture(510), picture(600, key=True)], wait_for_keyframe=True
    )
    assert count == 5
    assert finder.begin_ms == 500


def test_whether_a_file_can_be_made_before_all_is_there() -> None:
    finder, count = look([BOTH_PROMISED, avc_header()])
    assert (count, finder.has_media) == (0, False)
    finder.note(picture(0, key=True))
    assert finder.has_media


@given(
    st.lists(
        st.builds(MediaFrame, st.sampled_from(MediaKind), st.integers(0, 5000), st.binary(max_size=30)),
        max_size=20,
    )
)
def test_any_frames_can_be_looked_at(frames: list[MediaFrame]) -> None:
    try:
        finder, _ = look(frames)
    except UnsupportedMediaError:
        return
    assert 0 <= finder.begin_ms < 1 << 32
