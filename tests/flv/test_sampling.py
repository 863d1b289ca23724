"""How sound is sampled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.flv.codec_headers import Sampling, aac_sampling, mp3_sampling, opus_packet_samples

AAC = [
    ("1210", Sampling(44100, 2, 1024)),
    ("1190", Sampling(48000, 2, 1024)),
    ("1188", Sampling(48000, 1, 1024)),
    # Frames of 960 samples.
    ("1194", Sampling(48000, 2, 960)),
    # 5.1 and 7.1; a layout of its own is taken for two channels.
    ("11b0", Sampling(48000, 6, 1024)),
    ("11b8", Sampling(48000, 8, 1024)),
    ("1180", Sampling(48000, 2, 1024)),
    # HE-AAC: a core of 22050 Hz in an output of 44100; v2 with one channel in the core.
    ("2b920800", Sampling(22050, 2, 1024)),
    ("eb8a0800", Sampling(22050, 1, 1024)),
    # FFmpeg's way to say that there is no such extension.
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


def test_rates_without_a_number() -> None:
    bits = f"{2:05b}{15:04b}{12345:024b}{2:04b}000"
    assert aac_sampling(int(bits, 2).to_bytes(5)) == Sampling(12345, 2, 1024)


@pytest.mark.parametrize(("text", "expected"), AAC)
def test_aac(text: str, expected: Sampling | None) -> None:
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
def test_mp3(text: str, expected: Sampling | None) -> None:
    assert mp3_sampling(bytes.fromhex(text)) == expected


@pytest.mark.parametrize(
    ("packet", "samples"),
    [
        (b"", None),
        (b"\x00", 480),
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
def test_opus(packet: bytes, samples: int | None) -> None:
    assert opus_packet_samples(packet) == samples


@given(st.binary(max_size=40))
def test_any_bytes_can_be_looked_at(data: bytes) -> None:
    aac_sampling(data)
    mp3_sampling(data)
    opus_packet_samples(data)
