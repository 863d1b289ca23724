"""What payloads are: tables of hand-made ones, and no payload raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.flv import Codec, UnknownCodec, tags
from rtmprelay.flv.enhanced_header import AUDIO_FOURCC, MAX_EXTENSIONS, MAX_TRACKS, VIDEO_FOURCC
from rtmprelay.flv.tags import UNKNOWN, TagInfo, composition_time_ms, describe_audio, describe_video

Describe = Callable[[bytes], TagInfo]

DATA = b"\x00\x00\x00media"


def header_of(codec: str, tracks: tuple[int, ...] = ()) -> TagInfo:
    return TagInfo(codec=Codec(codec), sequence_header=True, coded=False, tracks=tracks)


def end_of(codec: str) -> TagInfo:
    return TagInfo(codec=Codec(codec), sequence_end=True, coded=False)


def command_of(codec: str | None) -> TagInfo:
    return TagInfo(codec=None if codec is None else Codec(codec), coded=False)


def frame_of(codec: str, *, key: bool = False, tracks: tuple[int, ...] = ()) -> TagInfo:
    return TagInfo(codec=Codec(codec), keyframe=key, tracks=tracks)


def extras_of(codec: str) -> TagInfo:
    return TagInfo(codec=Codec(codec), startup_metadata=True, coded=False)


def track(track_id: int, data: bytes) -> bytes:
    return bytes([track_id]) + len(data).to_bytes(3, "big") + data


def mod_ex(data: bytes, next_packet_type: int) -> bytes:
    size = len(data) - 1
    length = bytes([size]) if size < 255 else b"\xff" + size.to_bytes(2, "big")
    return length + data + bytes([next_packet_type])


def legacy_packeted(codec_id: int, codec: str) -> list[tuple[bytes, TagInfo]]:
    return [
        (bytes([0x10 | codec_id, 0]) + DATA, header_of(codec)),
        (bytes([0x10 | codec_id, 1]) + DATA, frame_of(codec, key=True)),
        (bytes([0x20 | codec_id, 1]) + DATA, frame_of(codec)),
        (bytes([0x30 | codec_id, 1]) + DATA, TagInfo(codec=Codec(codec))),
        (bytes([0x40 | codec_id, 1]) + DATA, frame_of(codec, key=True)),
        (bytes([0x10 | codec_id, 2]) + bytes(3), end_of(codec)),
        # The second byte of a command frame is the command: this must not become a sequence header.
        (bytes([0x50 | codec_id, 0]), command_of(codec)),
        (bytes([0x10 | codec_id, 3]) + DATA, UNKNOWN),
    ]


def legacy_plain(codec_id: int, codec: str) -> list[tuple[bytes, TagInfo]]:
    return [
        (bytes([0x10 | codec_id]) + DATA, frame_of(codec, key=True)),
        (bytes([0x20 | codec_id]) + DATA, frame_of(codec)),
        (bytes([0x30 | codec_id]) + DATA, TagInfo(codec=Codec(codec))),
        (bytes([0x40 | codec_id]) + DATA, frame_of(codec, key=True)),
        (bytes([0x50 | codec_id]) + b"\x00", command_of(codec)),
    ]


def enhanced_video(fourcc: bytes, codec: str) -> list[tuple[bytes, TagInfo]]:
    return [
        (b"\x90" + fourcc + DATA, header_of(codec)),
        (b"\x91" + fourcc + DATA, frame_of(codec, key=True)),
        (b"\xa1" + fourcc + DATA, frame_of(codec)),
        (b"\xb1" + fourcc + DATA, TagInfo(codec=Codec(codec))),
        (b"\x92" + fourcc, end_of(codec)),
        (b"\x93" + fourcc + DATA, frame_of(codec, key=True)),
        (b"\xa3" + fourcc + DATA, frame_of(codec)),
        # Metadata of OBS has frame type 0, that of FFmpeg has frame type 5.
        (b"\x84" + fourcc + DATA, extras_of(codec)),
        (b"\xd4" + fourcc + DATA, extras_of(codec)),
        (b"\x95" + fourcc + DATA, header_of(codec)),
        (b"\x98" + fourcc + DATA, UNKNOWN),
    ]


def enhanced_audio(fourcc: bytes, codec: str) -> list[tuple[bytes, TagInfo]]:
    return [
        (b"\x90" + fourcc + DATA, header_of(codec)),
        (b"\x91" + fourcc + DATA, frame_of(codec)),
        (b"\x92" + fourcc, end_of(codec)),
        (b"\x93" + fourcc + DATA, UNKNOWN),
        (b"\x94" + fourcc + DATA, extras_of(codec)),
        (b"\x96" + fourcc + DATA, UNKNOWN),
    ]


NANO = mod_ex(b"\x00\x01\x02", 1)
HEVC_KEY = frame_of("H.265 HEVC", key=True)

VIDEO: list[tuple[bytes, TagInfo]] = [
    *legacy_packeted(7, "H.264 AVC"),
    *legacy_packeted(12, "H.265 HEVC"),
    *legacy_packeted(13, "AV1"),
    *legacy_plain(2, "Sorenson H.263"),
    *legacy_plain(3, "Screen video"),
    *legacy_plain(4, "On2 VP6"),
    *legacy_plain(5, "On2 VP6 with alpha"),
    *legacy_plain(6, "Screen video 2"),
    *enhanced_video(b"vp08", "VP8"),
    *enhanced_video(b"vp09", "VP9"),
    *enhanced_video(b"av01", "AV1"),
    *enhanced_video(b"avc1", "H.264 AVC"),
    *enhanced_video(b"hvc1", "H.265 HEVC"),
    *enhanced_video(b"vvc1", "H.266 VVC"),
    # commands: no FourCC follows
    (b"\xd0\x00", command_of(None)),
    (b"\xd7" + mod_ex(b"x", 0) + b"\x01", command_of(None)),
    # extensions: one, several, and those with the long size
    (b"\x97" + NANO + b"hvc1" + DATA, HEVC_KEY),
    (b"\x97" + mod_ex(b"a", 7) + mod_ex(b"bc", 7) + NANO + b"hvc1" + DATA, HEVC_KEY),
    (b"\x97" + mod_ex(bytes(255), 1) + b"hvc1" + DATA, HEVC_KEY),
    (b"\x97" + mod_ex(bytes(256), 1) + b"hvc1" + DATA, HEVC_KEY),
    (b"\x97" + mod_ex(bytes(700), 0x71) + b"hvc1" + DATA, HEVC_KEY),
    (b"\x97" + mod_ex(b"a", 7) * (MAX_EXTENSIONS - 1) + NANO + b"hvc1", HEVC_KEY),
    (b"\x97" + mod_ex(b"a", 7) * MAX_EXTENSIONS + NANO + b"hvc1", UNKNOWN),
    # one track, many tracks, many tracks and codecs
    (b"\x96\x01hvc1\x03" + DATA, frame_of("H.265 HEVC", key=True, tracks=(3,))),
    (b"\x96\x00av01\x01" + DATA, header_of("AV1", (1,))),
    (
        b"\xa6\x13vp09" + track(0, DATA) + track(7, b""),
        frame_of("VP9", tracks=(0, 7)),
    ),
    (
        b"\x96\x21avc1" + track(0, DATA) + b"vvc1" + track(1, DATA * 9),
        frame_of("H.264 AVC", key=True, tracks=(0, 1)),
    ),
    (
        b"\x97" + mod_ex(b"a", 6) + b"\x01hvc1\x02" + DATA,
        frame_of("H.265 HEVC", key=True, tracks=(2,)),
    ),
    (b"\x96\x31hvc1\x00" + DATA, UNKNOWN),  # no such multitrack type
    (b"\x96\x06hvc1\x00" + DATA, UNKNOWN),  # tracks in tracks
    (b"\x96\x11hvc1", UNKNOWN),
    (
        b"\x96\x11hvc1" + track(0, b"") * MAX_TRACKS,
        frame_of("H.265 HEVC", key=True, tracks=(0,) * MAX_TRACKS),
    ),
    (b"\x96\x11hvc1" + track(0, b"") * (MAX_TRACKS + 1), UNKNOWN),
    # unknown codecs and frames
    (b"", UNKNOWN),
    (b"\x00", UNKNOWN),
    (b"\x1e\x01" + DATA, UNKNOWN),
    (b"\x91abcd" + DATA, TagInfo(codec=UnknownCodec(b"abcd"), keyframe=True)),
    (b"\x91ab\xffd" + DATA, UNKNOWN),
    (b"\x91ab\nd" + DATA, UNKNOWN),
]

AUDIO: list[tuple[bytes, TagInfo]] = [
    (b"\x0f" + DATA, frame_of("PCM")),
    (b"\x1f" + DATA, frame_of("ADPCM")),
    (b"\x2f" + DATA, frame_of("MP3")),
    (b"\x3f" + DATA, frame_of("PCM")),
    (b"\x4a" + DATA, frame_of("Nellymoser")),
    (b"\x52" + DATA, frame_of("Nellymoser")),
    (b"\x6a" + DATA, frame_of("Nellymoser")),
    (b"\x72" + DATA, frame_of("G.711 A-law")),
    (b"\x82" + DATA, frame_of("G.711 mu-law")),
    (b"\xaf\x00\x12\x10", header_of("AAC")),
    (b"\xaf\x01" + DATA, frame_of("AAC")),
    (b"\xa0\x01" + DATA, frame_of("AAC")),
    (b"\xaf\x02" + DATA, UNKNOWN),
    (b"\xb2" + DATA, frame_of("Speex")),
    (b"\xef" + DATA, frame_of("MP3")),
    *enhanced_audio(b"ac-3", "AC-3"),
    *enhanced_audio(b"ec-3", "E-AC-3"),
    *enhanced_audio(b"Opus", "Opus"),
    *enhanced_audio(b".mp3", "MP3"),
    *enhanced_audio(b"fLaC", "FLAC"),
    *enhanced_audio(b"mp4a", "AAC"),
    (b"\x97" + NANO + b"Opus" + DATA, frame_of("Opus")),
    (b"\x97" + mod_ex(bytes(256), 7) + NANO + b"Opus" + DATA, frame_of("Opus")),
    (b"\x95\x01Opus\x04" + DATA, frame_of("Opus", tracks=(4,))),
    (b"\x95\x11mp4a" + track(0, DATA) + track(1, DATA), frame_of("AAC", tracks=(0, 1))),
    (b"\x95\x20fLaC" + track(2, DATA) + b"Opus" + track(5, b"x"), header_of("FLAC", (2, 5))),
    (b"\x95\x05Opus\x00" + DATA, UNKNOWN),
    (b"\x91abcd" + DATA, TagInfo(codec=UnknownCodec(b"abcd"))),
    (b"", UNKNOWN),
    (b"\xc0" + DATA, UNKNOWN),
    (b"\xd0" + DATA, UNKNOWN),
    (b"\xff" + DATA, UNKNOWN),
]

TIMES: list[tuple[bytes, int]] = [
    (b"\x17\x01\x00\x00\x50" + DATA, 80),
    (b"\x27\x01\xff\xff\xd8" + DATA, -40),
    (b"\x27\x01\x80\x00\x00" + DATA, -(1 << 23)),
    (b"\x2c\x01\x00\x01\x00" + DATA, 256),
    (b"\x17\x00\x00\x00\x50" + DATA, 0),
    (b"\x57\x01\x00\x00\x50" + DATA, 0),
    (b"\x22\x01\x00\x00\x50" + DATA, 0),
    (b"\x17\x01\x00\x00", 0),
    (b"\xa1avc1\x00\x00\x21" + DATA, 33),
    (b"\xa1hvc1\xff\xff\xff" + DATA, -1),
    (b"\xa1vvc1\x00\x00\x02" + DATA, 2),
    (b"\xa1av01\x00\x00\x02" + DATA, 0),
    (b"\xa1vp09\x00\x00\x02" + DATA, 0),
    (b"\xa3hvc1\x00\x00\x02" + DATA, 0),
    (b"\xa0hvc1\x00\x00\x02" + DATA, 0),
    (b"\xd1hvc1\x00\x00\x02" + DATA, 0),
    (b"\xa7" + NANO + b"hvc1\xff\xff\xfe" + DATA, -2),
    (b"\xa7" + mod_ex(bytes(300), 1) + b"avc1\x00\x00\x09", 9),
    (b"\xa6\x01hvc1\x05\x00\x00\x28" + DATA, 40),
    (b"\xa6\x11avc1" + track(0, b"\x00\x00\x0aA") + track(1, b"\x00\x00\x14B"), 10),
    (b"\xa6\x21hvc1" + track(0, b"\x00\x00\x0bA") + b"av01" + track(1, b"B"), 11),
    (b"\xa1hvc1\x00\x00", 0),
    (b"\xa1hv", 0),
    (b"", 0),
]


@pytest.mark.parametrize(
    ("payload", "expected"), VIDEO, ids=lambda value: value[:12].hex() if isinstance(value, bytes) else ""
)
def test_video_payload_is_described(payload: bytes, expected: TagInfo) -> None:
    assert describe_video(payload) == expected


@pytest.mark.parametrize(
    ("payload", "expected"), AUDIO, ids=lambda value: value[:12].hex() if isinstance(value, bytes) else ""
)
def test_audio_payload_is_described(payload: bytes, expected: TagInfo) -> None:
    assert describe_audio(payload) == expected


@pytest.mark.parametrize(("payload", "expected"), TIMES)
def test_composition_time_is_that_of_the_first_track(payload: bytes, expected: int) -> None:
    assert composition_time_ms(payload) == expected


def test_truncated_payload_is_unknown_or_the_same() -> None:
    for describe, cases in ((describe_video, VIDEO), (describe_audio, AUDIO)):
        for payload, expected in cases:
            for cut in range(len(payload) if expected != UNKNOWN else 0):
                info = describe(payload[:cut])
                # Fewer tracks may be left.
                assert info in (UNKNOWN, attrs.evolve(expected, tracks=info.tracks))


def test_truncated_composition_time_is_zero_or_the_same() -> None:
    for payload, expected in TIMES:
        for cut in range(len(payload)):
            assert composition_time_ms(payload[:cut]) in (0, expected)


@pytest.mark.parametrize(
    "payload",
    [
        b"\x17\x01",
        b"\x91hvc1",
        b"\x97" + NANO + b"hvc1",
        b"\x97" + mod_ex(bytes(300), 7) + NANO + b"hvc1",
        b"\x96\x01hvc1\x03",
        b"\x96\x11hvc1" + track(0, DATA),
        b"\x96\x21hvc1" + track(0, DATA),
        b"\xd0\x00",
    ],
)
def test_truncated_video_header_is_unknown(payload: bytes) -> None:
    assert describe_video(payload) != UNKNOWN
    assert all(describe_video(payload[:cut]) == UNKNOWN for cut in range(len(payload)))


@pytest.mark.parametrize("payload", [b"\xaf\x01", b"\x91Opus", b"\x95\x01Opus\x00", b"\x97" + NANO + b"Opus"])
def test_truncated_audio_header_is_unknown(payload: bytes) -> None:
    assert describe_audio(payload) != UNKNOWN
    assert all(describe_audio(payload[:cut]) == UNKNOWN for cut in range(len(payload)))


@given(
    st.binary(max_size=64)
    | st.builds(
        lambda first, rest: bytes([first]) + rest,
        st.sampled_from([0x96, 0x97, 0xA6, 0xA7, 0xD7, 0x95]),
        st.binary(max_size=64),
    )
)
def test_arbitrary_bytes_never_raise(payload: bytes) -> None:
    for info in (describe_video(payload), describe_audio(payload)):
        assert len(info.tracks) <= MAX_TRACKS
    assert -(1 << 23) <= composition_time_ms(payload) < 1 << 23


def test_no_payload_is_a_header_and_a_frame_at_once() -> None:
    for first, second in product(range(256), range(256)):
        payload = bytes([first, second]) + b"vc1" + DATA
        for info in (describe_video(payload), describe_audio(payload)):
            assert info.sequence_header + info.sequence_end + info.startup_metadata + info.coded <= 1
            assert info.coded or not info.keyframe


@pytest.mark.parametrize(
    ("describe", "read", "fourccs"),
    [
        (describe_video, tags._read_video, (*VIDEO_FOURCC, b"none", b"\xff\xff\xff\xff")),
        (describe_audio, tags._read_audio, (*AUDIO_FOURCC, b"none", b"\xff\xff\xff\xff")),
    ],
)
def test_lookup_tables_agree_with_the_readers(
    describe: Describe, read: Describe, fourccs: Sequence[bytes]
) -> None:
    for first, rest in product(range(256), (*fourccs, b"", b"\0", b"\1", b"\2", b"\3")):
        payload = bytes([first]) + rest
        for data in (payload, payload + DATA):
            assert describe(data) == read(data)


def test_equal_descriptions_of_usual_payloads_are_one_value() -> None:
    assert describe_video(b"\x17\x01" + DATA) is describe_video(b"\x17\x01other")
    assert describe_video(b"\xa3hvc1" + DATA) is describe_video(b"\xa3hvc1other")
    assert describe_audio(b"\xaf\x01" + DATA) is describe_audio(b"\xaf\x01other")
