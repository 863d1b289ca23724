"""The names of codecs, which events, the HTTP API and Spark tables show."""

from __future__ import annotations

import pickle

import pytest

from rtmprelay.flv import AnyCodec, Codec, UnknownCodec, display_name

#: These names are documented: programs compare them.
NAMES = {
    Codec.AVC: "H.264 AVC",
    Codec.HEVC: "H.265 HEVC",
    Codec.VVC: "H.266 VVC",
    Codec.AV1: "AV1",
    Codec.VP8: "VP8",
    Codec.VP9: "VP9",
    Codec.SORENSON_H263: "Sorenson H.263",
    Codec.SCREEN_VIDEO: "Screen video",
    Codec.SCREEN_VIDEO_2: "Screen video 2",
    Codec.VP6: "On2 VP6",
    Codec.VP6_ALPHA: "On2 VP6 with alpha",
    Codec.AAC: "AAC",
    Codec.MP3: "MP3",
    Codec.OPUS: "Opus",
    Codec.FLAC: "FLAC",
    Codec.AC3: "AC-3",
    Codec.EAC3: "E-AC-3",
    Codec.PCM: "PCM",
    Codec.ADPCM: "ADPCM",
    Codec.NELLYMOSER: "Nellymoser",
    Codec.G711_A_LAW: "G.711 A-law",
    Codec.G711_MU_LAW: "G.711 mu-law",
    Codec.SPEEX: "Speex",
}


def test_every_codec_has_its_documented_name() -> None:
    assert {codec: codec.display_name for codec in Codec} == NAMES


@pytest.mark.parametrize(
    ("codec", "name"),
    [(None, None), (Codec.AAC, "AAC"), (UnknownCodec(b"abcd"), "FourCC 'abcd'")],
)
def test_display_name_of_a_codec_that_may_be_missing(codec: AnyCodec | None, name: str | None) -> None:
    assert display_name(codec) == name


def test_codec_is_the_same_member_after_pickling() -> None:
    """Spark sends values from one process to another."""
    for codec in Codec:
        assert pickle.loads(pickle.dumps(codec)) is codec
