"""How sound is sampled, by the headers of its codecs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.demo.test_card.codes import fixed, to_bytes
from rtmprelay.flv.codec_headers import Sampling, aac_sampling, mp3_sampling, opus_packet_samples

AAC = [
    ("1210", Sampling(44100, 2, 1024)),
    ("1190", Sampling(48000, 2, 1024)),
    ("1188", Sampling(48000, 1, 1024)),
    # Frames of 960 samples.
    ("1194", Sampling(48000, 2, 960)),
    # 5.1 and 7.1; a custom layout counts as two channels.
    ("11b0", Sampling(48000, 6, 1024)),
    ("11b8", Sampling(48000, 8, 1024)),
    ("1180", Sampling(48000, 2, 1024)),
    # HE-AAC: a core of 22050 Hz in an output of 44100; v2 with one channel in the core.
    ("2b920800", Sampling(22050, 2, 1024)),
    ("eb8a0800", Sampling(22050, 1, 1024)),
    # FFmpeg's way to say that there is no extension.
    ("121056e500", Sampling(44100, 2, 1024)),
    # Low delay.
    ("b990", Sampling(48000, 2, 512)),
    ("b994", Sampling(48000, 2, 480)),
    ("f8e640", Sampling(48000, 2, 512)),
    ("", None),
    ("12", None),
    ("1690", None),
    ("0210", None),
]


def aac(*fields: tuple[int, int]) -> bytes:
    return to_bytes(fixed(value, count) for value, count in fields)


@pytest.mark.parametrize(
    ("number", "rate"),
    list(
        enumerate((96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350))
    ),
)
def test_aac_rate_is_read_from_its_index(number: int, rate: int) -> None:
    assert aac_sampling(aac((2, 5), (number, 4), (1, 4), (0, 3))) == Sampling(rate, 1, 1024)


def test_aac_rate_as_24_bits() -> None:
    assert aac_sampling(aac((2, 5), (15, 4), (12345, 24), (2, 4), (0, 3))) == Sampling(12345, 2, 1024)
    assert aac_sampling(aac((2, 5), (15, 4), (0, 24), (2, 4), (0, 3))) is None


@pytest.mark.parametrize("number", [13, 14])
def test_reserved_aac_rates_are_refused(number: int) -> None:
    assert aac_sampling(aac((2, 5), (number, 4), (1, 4), (0, 3))) is None


def test_aac_object_types_above_31_have_more_bits() -> None:
    # 32 and 39, which has short frames.
    assert aac_sampling(aac((31, 5), (0, 6), (3, 4), (1, 4), (0, 1))) == Sampling(48000, 1, 1024)
    assert aac_sampling(aac((31, 5), (7, 6), (3, 4), (1, 4), (0, 1))) == Sampling(48000, 1, 512)


def test_aac_is_read_up_to_its_last_bit() -> None:
    configuration = aac((2, 5), (3, 4), (2, 4), (1, 1), (0, 2))
    assert aac_sampling(configuration) == Sampling(48000, 2, 960)
    # An extension with two rates of 24 bits: 5 + 4 + 24 + 4 + 4 + 24 + 5 + 1 bits.
    long = aac((5, 5), (15, 4), (8000, 24), (2, 4), (15, 4), (16000, 24), (2, 5), (1, 1))
    assert aac_sampling(long) == Sampling(8000, 2, 960)
    assert aac_sampling(long[:-1]) is None


@pytest.mark.parametrize(("text", "expected"), AAC)
def test_aac_configuration_gives_its_sampling(text: str, expected: Sampling | None) -> None:
    assert aac_sampling(bytes.fromhex(text)) == expected


MP3 = [
    ("fffb9000", Sampling(44100, 2, 1152)),
    ("fffa94c0", Sampling(48000, 1, 1152)),
    ("fffb9840", Sampling(32000, 2, 1152)),
    ("fff340c0", Sampling(22050, 1, 576)),
    ("ffe348c0", Sampling(8000, 1, 576)),
    ("fffb9c00", None),
    ("ffeb9000", None),
    ("fffd9000", None),
    ("fffb90", None),
    ("49443303", None),
]


@pytest.mark.parametrize(("text", "expected"), MP3)
def test_mp3_header_gives_its_sampling(text: str, expected: Sampling | None) -> None:
    assert mp3_sampling(bytes.fromhex(text)) == expected


#: Samples of one frame by the first 5 bits (RFC 6716, table 2).
OPUS_FRAMES = [480, 960, 1920, 2880] * 3 + [480, 960] * 2 + [120, 240, 480, 960] * 4


@pytest.mark.parametrize(
    ("packet", "samples"),
    [
        (b"", None),
        *((bytes([number << 3]), samples) for number, samples in enumerate(OPUS_FRAMES)),
        (b"\x1c", 2880),
        (b"\x78", 960),
        (b"\xe0", 120),
        (b"\xf8", 960),
        (b"\xf9", 1920),
        (b"\xfa", 1920),
        (b"\xfb\x06", 5760),
        (b"\xfb\xc6", 5760),
        (b"\xfb\x07", None),
        (b"\xfb\x00", None),
        (b"\xfb", None),
    ],
)
def test_opus_packet_gives_its_length(packet: bytes, samples: int | None) -> None:
    assert opus_packet_samples(packet) == samples


@given(st.binary(max_size=40))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    for sampling in (aac_sampling(data), mp3_sampling(data)):
        assert sampling is None or sampling.rate > 0
    assert opus_packet_samples(data) != 0
