"""The names of codecs, as browsers and playlists have them."""

from __future__ import annotations

import pytest

from rtmprelay.flv import Codec
from rtmprelay.mp4.codec_strings import codec_string, codecs_parameter
from rtmprelay.mp4.tracks import AUDIO_CODECS, VIDEO_CODECS, AnyTrack, AudioTrack, VideoTrack


def video(codec: Codec, configuration: str, width: int = 1920, height: int = 1080) -> VideoTrack:
    return VideoTrack(codec, bytes.fromhex(configuration), width, height, 40)


def audio(codec: Codec, configuration: str = "", rate: int = 48000) -> AudioTrack:
    return AudioTrack(codec, bytes.fromhex(configuration), rate, 2, 1024)


STRINGS = [
    (video(Codec.AVC, "01 64 00 1f ff e1 00"), "avc1.64001f"),
    (video(Codec.AVC, "01 42 c0 0d ff e1 00"), "avc1.42c00d"),
    # The compatibility flags backwards, the constraints without their zeros at the end.
    (video(Codec.HEVC, "01 01 60000000 90 0000000000 5d" + "00" * 10), "hvc1.1.6.L93.90"),
    (video(Codec.HEVC, "01 22 20000000 b0 0000000000 99" + "00" * 10), "hvc1.2.4.H153.B0"),
    (video(Codec.HEVC, "01 41 60000000 00 0000000000 3c" + "00" * 10), "hvc1.A1.6.L60"),
    (video(Codec.AV1, "81 04 0c 00"), "av01.0.04M.08"),
    (video(Codec.AV1, "81 08 4c 00"), "av01.0.08M.10"),
    (video(Codec.AV1, "81 4d e0 00"), "av01.2.13H.12"),
    (video(Codec.VP9, "00 1f 82 02 02 02 0000"), "vp09.00.31.08"),
    (video(Codec.VP9, "00 1f 82 01 01 01 0000"), "vp09.00.31.08"),
    (video(Codec.VP9, "02 33 a2 09 10 09 0000"), "vp09.02.51.10.01.09.16.09.00"),
    (video(Codec.VP9, "01000000 00 1f 80 01 01 01 0000"), "vp09.00.31.08.00.01.01.01.00"),
    # Without a level, the one that the size of the picture needs.
    (video(Codec.VP9, "00 00 82 02 02 02 0000"), "vp09.00.40.08"),
    (video(Codec.VP9, "00 00 82 02 02 02 0000", 192, 112), "vp09.00.10.08"),
    (video(Codec.VP9, "00 00 82 02 02 02 0000", 7680, 4320), "vp09.00.60.08"),
    (audio(Codec.AAC, "12 10"), "mp4a.40.2"),
    (audio(Codec.AAC, "2b 92 08 00"), "mp4a.40.5"),
    (audio(Codec.AAC, "f9 48 80"), "mp4a.40.42"),
    (audio(Codec.MP3), "mp4a.6B"),
    (audio(Codec.MP3, rate=24000), "mp4a.69"),
    (audio(Codec.OPUS), "opus"),
    (audio(Codec.FLAC), "fLaC"),
    (audio(Codec.AC3), "ac-3"),
    (audio(Codec.EAC3), "ec-3"),
]


@pytest.mark.parametrize(("track", "text"), STRINGS)
def test_track_has_its_rfc_6381_codec_name(track: AnyTrack, text: str) -> None:
    assert codec_string(track) == text


def test_file_has_the_names_of_all_its_tracks() -> None:
    tracks: list[AnyTrack] = [video(Codec.AVC, "01 64 00 1f ff e1 00"), audio(Codec.AAC, "12 10")]
    assert codecs_parameter(tracks) == "avc1.64001f,mp4a.40.2"


def test_every_codec_of_an_mp4_has_a_name_here() -> None:
    assert {track.codec for track, _ in STRINGS} == VIDEO_CODECS | AUDIO_CODECS
