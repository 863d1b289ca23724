"""What packets of AC-3, E-AC-3 and FLAC say, in tables; `tests/mp4/test_codecs.py` has what encoders make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.flv.sound_packets import (
    FlacHeader,
    flac_packet_samples,
    read_ac3,
    read_eac3,
    read_flac_header,
)


def bits(*fields: tuple[int, int]) -> bytes:
    """Numbers of so many bits, filled up with zeros to 16 bytes."""
    text = "".join(f"{value:b}".zfill(size) for value, size in fields if size)
    return int(text.ljust(128, "0"), 2).to_bytes(16)


def ac3(rate: int, size: int, version: int, mode: int, low: int) -> bytes:
    mixing = 2 * (mode in (3, 5, 7)) + 2 * (mode >= 4) + 2 * (mode == 2)
    start = ((0x0B77, 16), (0xABCD, 16), (rate, 2), (size, 6), (version, 5), (0, 3), (mode, 3))
    return bits(*start, (0, mixing), (low, 1))


#: Rate, size, version, channel mode and LFE, as the standard numbers them; samples a second and channels.
AC3 = [
    ((0, 28, 8, 2, 0), (48000, 2), "10 11 c0"),
    ((1, 28, 8, 7, 1), (44100, 6), "50 3d c0"),
    ((2, 0, 6, 5, 0), (32000, 4), "8c 28 00"),
    ((0, 10, 9, 3, 1), (24000, 4), "12 1c a0"),
    ((0, 10, 8, 1, 0), (48000, 1), "10 08 a0"),
]


@pytest.mark.parametrize(("fields", "sampling", "specific"), AC3)
def test_ac3_says_how_it_is_sampled(
    fields: tuple[int, int, int, int, int], sampling: tuple[int, int], specific: str
) -> None:
    found = read_ac3(ac3(*fields))
    assert found is not None
    assert (found.rate, found.channels, found.samples) == (*sampling, 1536)
    assert found.specific == bytes.fromhex(specific)


def eac3(
    kind: int,
    programme: int,
    size: int,
    rate: int,
    blocks: int,
    mode: int,
    low: int,
    places: int | None = None,
) -> bytes:
    """A frame of `size` bytes."""
    start = ((0x0B77, 16), (kind, 2), (programme, 3), (size // 2 - 1, 11), (rate, 2), (blocks, 2))
    loudness = [(16, 5), (31, 5), (0, 1)]
    if mode == 0:
        loudness += [(31, 5), (1, 1), (255, 8)]
    map_fields = [(0, 1)] if places is None else [(1, 1), (places, 16)]
    return bits(*start, (mode, 3), (low, 1), *loudness, *map_fields).ljust(size, b"x")


STEREO = eac3(0, 0, 384, 0, 3, 2, 0)
SURROUND = eac3(0, 0, 768, 0, 3, 7, 1)
REAR = eac3(1, 0, 256, 0, 3, 2, 0, places=1 << 9)
EAC3 = [
    # 384 bytes in 32 ms are 96 kbit/s.
    (STEREO, (48000, 2, 1536), "03 00 20 04 00"),
    # A fifth to eighth channel in a frame of their own: 256 kbit/s in all, and one dependent frame.
    (SURROUND + REAR, (48000, 8, 1536), "08 00 20 0f 02 02"),
    # Six frames of one block each.
    (eac3(0, 0, 64, 0, 0, 2, 0) * 6, (48000, 2, 1536), "03 00 20 04 00"),
    (eac3(0, 0, 64, 0, 1, 2, 0), (48000, 2, 512), "01 80 20 04 00"),
    # Half the rate has a number of its own.
    (eac3(0, 0, 192, 3, 0, 1, 0), (24000, 1, 1536), "00 c0 e0 02 00"),
    # Two programmes.
    (STEREO + eac3(0, 1, 384, 0, 3, 1, 0), (48000, 2, 1536), "06 01 20 04 00 20 02 00"),
]


@pytest.mark.parametrize(("packet", "sampling", "specific"), EAC3)
def test_eac3_says_how_it_is_sampled(packet: bytes, sampling: tuple[int, int, int], specific: str) -> None:
    found = read_eac3(packet)
    assert found is not None
    assert (found.rate, found.channels, found.samples) == sampling
    assert found.specific.hex(" ") == specific


@pytest.mark.parametrize(
    "packet",
    [b"", b"\x0b\x77", bytes(20), ac3(3, 0, 8, 2, 0), ac3(0, 38, 8, 2, 0), ac3(0, 0, 11, 2, 0), STEREO],
)
def test_packet_that_is_not_ac3_is_none(packet: bytes) -> None:
    assert read_ac3(packet) is None


@pytest.mark.parametrize(
    "packet", [b"", b"\x0b\x77", bytes(20), REAR, ac3(0, 28, 8, 2, 0), eac3(0, 0, 2, 3, 3, 2, 0)]
)
def test_packet_that_is_not_eac3_is_none(packet: bytes) -> None:
    assert read_eac3(packet) is None


STREAMINFO = bytes(10) + bits((44100, 20), (1, 3), (15, 5), (0, 36))[:8] + bytes(16)
FLAC = [
    STREAMINFO,
    b"\x80\0\0\x22" + STREAMINFO,
    b"fLaC\x80\0\0\x22" + STREAMINFO,
    b"fLaC\0\0\0\x22" + STREAMINFO + b"\x84\0\0\4text",
]


@pytest.mark.parametrize("configuration", FLAC)
def test_flac_header_in_every_form(configuration: bytes) -> None:
    assert read_flac_header(configuration) == FlacHeader(44100, 2, 16, b"\x80\0\0\x22" + STREAMINFO)


@pytest.mark.parametrize(
    "configuration", [b"", b"fLaC", STREAMINFO[:33], b"fLaC\x84\0\0\x22" + STREAMINFO, bytes(34)]
)
def test_configuration_that_is_not_flac_is_none(configuration: bytes) -> None:
    assert read_flac_header(configuration) is None


FLAC_PACKETS = [
    ("fff8 19", 192),
    ("fff8 29", 576),
    ("fff8 59", 4608),
    ("fff9 89", 256),
    ("fff8 c9", 4096),
    ("fff8 69 08 00 1f", 32),
    ("fff8 79 08 00 0fff", 4096),
    # The number of the frame has three bytes.
    ("fff8 69 08 e18080 1f", 32),
    ("fff8 09", None),
    ("fff0 c9", None),
    ("fff8 79 08 00", None),
]


@pytest.mark.parametrize(("packet", "samples"), FLAC_PACKETS)
def test_flac_frames_say_how_long_they_are(packet: str, samples: int | None) -> None:
    data = bytes.fromhex(packet)
    assert flac_packet_samples(data if samples is None else data.ljust(10, b"\0")) == samples


@given(st.binary(max_size=60))
def test_any_bytes_have_a_rate_and_a_length_or_are_nothing(data: bytes) -> None:
    for packet in (data, b"\x0b\x77" + data, b"fLaC" + data, b"\xff\xf8" + data):
        for dolby in (read_ac3(packet), read_eac3(packet)):
            assert dolby is None or (dolby.rate > 0 and dolby.channels > 0 and dolby.samples > 0)
        header = read_flac_header(packet)
        assert header is None or (header.rate > 0 and header.channels > 0)
        samples = flac_packet_samples(packet)
        assert samples is None or 0 < samples <= 65_536
