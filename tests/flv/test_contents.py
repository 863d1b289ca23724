"""Where the codec's own bytes begin and end in a payload."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.flv import Codec, UnknownCodec
from rtmprelay.flv.tags import (
    Content,
    audio_content,
    composition_time_ms,
    describe_audio,
    describe_video,
    video_content,
)

VIDEO = [
    (b"\x17\0\0\0\0avcC", Content(Codec.AVC, True, 5, 9)),
    (b"\x17\1\0\0\x28data", Content(Codec.AVC, False, 5, 9, 40, keyframe=True)),
    (b"\x27\1\xff\xff\xd8data", Content(Codec.AVC, False, 5, 9, -40)),
    (b"\x37\1\0\0\0data", Content(Codec.AVC, False, 5, 9, disposable=True)),
    (b"\x1c\0\0\0\0hvcC", Content(Codec.HEVC, True, 5, 9)),
    (b"\x2d\1\0\0\0data", Content(Codec.AV1, False, 5, 9)),
    (b"\x90hvc1hvcC", Content(Codec.HEVC, True, 5, 9)),
    (b"\x91hvc1\0\0\x28data", Content(Codec.HEVC, False, 8, 12, 40, keyframe=True)),
    (b"\xa3hvc1data", Content(Codec.HEVC, False, 5, 9)),
    (b"\xb1av01data", Content(Codec.AV1, False, 5, 9, disposable=True)),
    (b"\xb1hvc1\0\0\0", Content(Codec.HEVC, False, 8, 8, disposable=True)),
    (b"\xa1avc1\xff\xff\xd8data", Content(Codec.AVC, False, 8, 12, -40)),
    (b"\xa1newcdata", Content(UnknownCodec(b"newc"), False, 5, 9)),
    (b"\xb3newcdata", Content(UnknownCodec(b"newc"), False, 5, 9, disposable=True)),
    # An extension of three bytes in front.
    (b"\x97\2xyz\1av01data", Content(Codec.AV1, False, 10, 14, keyframe=True)),
    # One track; two tracks; two tracks with a codec each.
    (b"\x96\1av01\0data", Content(Codec.AV1, False, 7, 11, keyframe=True)),
    (b"\x96\x11av01\1\0\0\3one\0\0\0\4zero", Content(Codec.AV1, False, 17, 21, keyframe=True)),
    (b"\x96\x21vp09\1\0\0\3oneav01\0\0\0\4zero", Content(Codec.AV1, False, 21, 25, keyframe=True)),
    (b"\x96\x20vp09\1\0\0\3oneav01\0\0\0\4zero", Content(Codec.AV1, True, 21, 25)),
]

AUDIO = [
    (b"\xaf\0ab", Content(Codec.AAC, True, 2, 4)),
    (b"\xaf\1data", Content(Codec.AAC, False, 2, 6)),
    (b"\x2fdata", Content(Codec.MP3, False, 1, 5)),
    (b"\xefdata", Content(Codec.MP3, False, 1, 5)),
    (b"\x90OpusHead", Content(Codec.OPUS, True, 5, 9)),
    (b"\x91Opusdata", Content(Codec.OPUS, False, 5, 9)),
    (b"\x95\1Opus\0data", Content(Codec.OPUS, False, 7, 11)),
    (b"\x95\x10Opus\0\0\0\4data\1\0\0\2xx", Content(Codec.OPUS, True, 10, 14)),
    (b"\xaf\1", Content(Codec.AAC, False, 2, 2)),
    (b"\x91newcdata", Content(UnknownCodec(b"newc"), False, 5, 9)),
    (b"\x97\0x\1Opusdata", Content(Codec.OPUS, False, 8, 12)),
]


@pytest.mark.parametrize(("payload", "content"), VIDEO)
def test_video_content_is_found(payload: bytes, content: Content) -> None:
    assert video_content(payload) == content


@pytest.mark.parametrize(("payload", "content"), AUDIO)
def test_audio_content_is_found(payload: bytes, content: Content) -> None:
    assert audio_content(payload) == content


NO_VIDEO = [
    b"",
    b"\x17",
    b"\x17\1\0\0",
    b"\x17\2\0\0\0",
    b"\x17\3\0\0\0",
    b"\x57\0\0\0\0",
    b"\x12data",
    b"\x92hvc1",
    b"\x94hvc1data",
    b"\xd1\0\0\0\0",
    b"\x91hvc1\0\0",
    b"\x91\xffvc1data",
    b"\x90hvc",
    b"\x96\1av01\1data",
    b"\x96\x31av01\0data",
]


@pytest.mark.parametrize("payload", NO_VIDEO)
def test_other_video_payloads_have_no_content(payload: bytes) -> None:
    assert video_content(payload) is None


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xaf",
        b"\xaf\2ab",
        b"\xbfdata",
        b"\x92Opus",
        b"\x94Opusxx",
        b"\x91\xffpusdata",
        b"\x95\1Opus\1data",
        b"\x9f1234",
    ],
)
def test_other_audio_payloads_have_no_content(payload: bytes) -> None:
    assert audio_content(payload) is None


PREFIXES = st.sampled_from([payload for payload, _ in VIDEO + AUDIO]).map(
    lambda payload: payload[:9]
) | st.just(b"")


def test_content_that_ends_where_it_begins_is_empty() -> None:
    header, picture = video_content(b"\x17\0\0\0\0"), video_content(b"\x17\1\0\0\0data")
    assert header is not None
    assert picture is not None
    assert (header.is_empty, header.of(b"\x17\0\0\0\0")) == (True, b"")
    assert (picture.is_empty, picture.of(b"\x17\1\0\0\0data")) == (False, b"data")


@given(st.builds(lambda prefix, rest: prefix + rest, PREFIXES, st.binary(max_size=30)))
def test_content_agrees_with_the_description(payload: bytes) -> None:
    video = video_content(payload)
    if video is not None:
        info = describe_video(payload)
        assert 0 < video.begin <= video.end <= len(payload)
        assert video.codec == info.codec
        assert (video.configuration, video.keyframe) == (info.sequence_header, info.keyframe)
        if not info.tracks:
            assert video.composition_ms == composition_time_ms(payload)
    audio = audio_content(payload)
    if audio is not None:
        assert 0 < audio.begin <= audio.end <= len(payload)
        described = describe_audio(payload)
        assert audio.codec == described.codec
        assert audio.configuration == described.sequence_header
