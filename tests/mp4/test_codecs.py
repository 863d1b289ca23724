"""Every codec that an MP4 can hold, from a real encoder to a reader that is not ours."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rtmprelay.flv import Codec
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.mp4.fragments import FragmentEncoder, FragmentPlacer
from rtmprelay.mp4.init_segment import init_segment
from rtmprelay.mp4.tracks import SUPPORTED_CODECS, TrackFinder, why_not_in_mp4
from tests.mp4.encoded import (
    AUDIO_ENCODERS,
    HEIGHT,
    VIDEO_ENCODERS,
    WIDTH,
    Clip,
    audio_clip,
    decoded_count,
    demuxed,
    video_clip,
)

#: Frames that arrive together.
BATCH = 5


def as_mp4(frames: Sequence[MediaFrame]) -> tuple[bytes, FragmentEncoder]:
    """A file as a reader of the live stream gets it."""
    finder = TrackFinder()
    for frame in frames:
        finder.note(frame)
    tracks = [track for track in (finder.video, finder.audio) if track is not None]
    encoder = FragmentEncoder(finder.video, finder.audio)
    placer = FragmentPlacer(encoder, 0)
    batches = [frames[at : at + BATCH] for at in range(0, len(frames), BATCH)]
    parts = [b"".join(placer.place(made)) for batch in batches if (made := encoder.encode(batch))]
    return init_segment(tracks) + b"".join(parts), encoder


@pytest.mark.parametrize("name", VIDEO_ENCODERS)
def test_pictures_of_every_codec_come_out_as_they_went_in(name: str) -> None:
    """The size is that of the pictures, although no metadata says it."""
    clip = video_clip(name)
    file, encoder = as_mp4(list(clip.frames()))
    packets, extradata, _ = demuxed(file, 1000)
    assert packets == clip.packets
    assert encoder.video is not None
    assert (encoder.video.width, encoder.video.height) == (WIDTH, HEIGHT)
    if clip.codec is not Codec.VP9:
        assert extradata == clip.configuration
    assert decoded_count(file) == decoded_count(clip.file) == len(clip.packets)


def test_pictures_with_b_frames_are_reordered() -> None:
    """Otherwise the test above says less than it seems to."""
    assert any(packet.shown != packet.decoded for packet in video_clip("H.264 with B-frames").packets)
    assert any(packet.shown != packet.decoded for packet in video_clip("HEVC").packets)


@pytest.mark.parametrize("name", AUDIO_ENCODERS)
def test_sound_of_every_codec_comes_out_as_it_went_in(name: str) -> None:
    clip = audio_clip(name)
    file, encoder = as_mp4(list(clip.frames()))
    packets, _, timescale = demuxed(file)
    assert encoder.audio is not None
    assert timescale == encoder.audio.timescale == clip.timescale
    assert packets == clip.packets
    assert decoded_count(file) >= clip.timescale


def test_pictures_and_sound_are_in_one_file() -> None:
    video, audio = video_clip("H.264 with B-frames"), audio_clip("AC-3")
    frames = sorted([*video.frames(), *audio.frames()], key=lambda frame: frame.timestamp_ms)
    file, _ = as_mp4(frames)
    assert demuxed(file, 1000, "video")[0] == video.packets
    assert demuxed(file, None, "audio")[0] == audio.packets


def box_content(file: bytes, kind: bytes) -> bytes:
    at = file.index(kind)
    size = int.from_bytes(file[at - 4 : at])
    return file[at + 4 : at - 4 + size]


@pytest.mark.parametrize(
    ("clip", "kind"),
    [
        (audio_clip("AC-3"), b"dac3"),
        (audio_clip("E-AC-3"), b"dec3"),
        (audio_clip("FLAC"), b"dfLa"),
        (audio_clip("Opus"), b"dOps"),
        (video_clip("VP9"), b"vpcC"),
        (video_clip("AV1"), b"av1C"),
        (video_clip("HEVC"), b"hvcC"),
    ],
    ids=["dac3", "dec3", "dfLa", "dOps", "vpcC", "av1C", "hvcC"],
)
def test_box_that_describes_the_codec_is_the_same_as_that_of_ffmpeg(clip: Clip, kind: bytes) -> None:
    file, _ = as_mp4(list(clip.frames()))
    assert box_content(file, kind) == box_content(clip.file, kind)


def test_vp9_configuration_may_have_its_version_in_front() -> None:
    clip = video_clip("VP9")
    frames = list(clip.frames())
    versioned = MediaFrame(MediaKind.VIDEO, 0, b"\x90vp09\x01\0\0\0" + clip.configuration)
    assert box_content(as_mp4([versioned, *frames[1:]])[0], b"vpcC") == b"\x01\0\0\0" + clip.configuration


def test_flac_configuration_may_have_its_marker_in_front() -> None:
    clip = audio_clip("FLAC")
    frames = list(clip.frames())
    marked = b"fLaC\0\0\0\x22" + clip.configuration + b"\x84\0\0\4more"
    changed = [MediaFrame(MediaKind.AUDIO, 0, b"\x90fLaC" + marked), *frames[1:]]
    assert box_content(as_mp4(changed)[0], b"dfLa") == box_content(clip.file, b"dfLa")


@pytest.mark.parametrize("codec", [None, *Codec])
def test_every_codec_is_carried_or_refused_in_one_sentence(codec: Codec | None) -> None:
    reason = why_not_in_mp4(codec)
    assert (reason is None) is (codec is None or codec in SUPPORTED_CODECS)
    assert reason is None or (codec is not None and reason == f"{codec.value} cannot be put into an MP4 here")
