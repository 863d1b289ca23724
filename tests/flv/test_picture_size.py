"""Width and height of H.264, HEVC and AV1, for publishers that do not say them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import imageio_ffmpeg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.flv.codec_headers import picture_size
from rtmprelay.flv.container import read_tags
from rtmprelay.flv.tags import describe_video
from rtmprelay.media import MediaKind


def sequence_header(path: Path, size: str, options: str) -> bytes:
    """The decoder configuration that a real encoder makes."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", "-f", "lavfi"]
    command += ["-i", f"testsrc=size={size}:rate=1", "-frames:v", "1", *options.split(), str(path)]
    subprocess.run(command, check=True, timeout=30)
    with path.open("rb") as file:
        headers = [
            tag.payload
            for tag in read_tags(file)
            if tag.kind is MediaKind.VIDEO and describe_video(tag.payload).sequence_header
        ]
    # FFmpeg sends an empty one first when the encoder tells its configuration with the first picture.
    return headers[-1]


@pytest.mark.parametrize(
    ("size", "options"),
    [
        ("318x238", "-c:v libx264 -pix_fmt yuv420p"),
        ("1920x1080", "-c:v libx264 -pix_fmt yuv420p -preset ultrafast -profile:v baseline"),
        ("1920x1080", "-c:v libx264 -pix_fmt yuv420p -preset ultrafast -x264-params interlaced=1"),
        ("322x242", "-c:v libx264 -pix_fmt yuv422p"),
        ("323x241", "-c:v libx264 -pix_fmt yuv444p"),
        ("64x64", "-c:v libx264 -pix_fmt yuv420p -x264-params cqm=jvt"),
    ],
)
def test_sizes_of_a_real_encoder(tmp_path: Path, size: str, options: str) -> None:
    header = sequence_header(tmp_path / "size.flv", size, options)
    found = picture_size(header)
    assert found is not None
    assert f"{found[0]}x{found[1]}" == size
    # The same configuration in the envelope of Enhanced RTMP.
    assert picture_size(b"\x90avc1" + header[5:]) == found


@pytest.mark.parametrize(
    ("size", "options"),
    [
        ("320x240", "-c:v libx265 -pix_fmt yuv420p"),
        ("1918x1078", "-c:v libx265 -pix_fmt yuv420p10le -preset ultrafast"),
        ("321x243", "-c:v libx265 -pix_fmt yuv444p"),
        ("322x242", "-c:v libx265 -pix_fmt yuv422p"),
        ("326x242", "-c:v libaom-av1 -cpu-used 8 -usage realtime"),
        ("64x1080", "-c:v libaom-av1 -cpu-used 8 -usage realtime -pix_fmt yuv420p10le"),
        ("72x40", "-c:v libaom-av1 -cpu-used 8 -still-picture 1"),
    ],
)
def test_sizes_of_newer_codecs(tmp_path: Path, size: str, options: str) -> None:
    header = sequence_header(tmp_path / "size.flv", size, f"-strict experimental {options}")
    found = picture_size(header)
    assert found is not None
    assert f"{found[0]}x{found[1]}" == size


def golomb(number: int) -> str:
    """An unsigned Exp-Golomb number as bits."""
    digits = f"{number + 1:b}"
    return "0" * (len(digits) - 1) + digits


def bytes_of(bits: str) -> bytes:
    size = (len(bits) + 7) // 8
    return int(bits.ljust(8 * size, "0"), 2).to_bytes(size)


def avc_header(
    high: str = "",
    *,
    profile: int = 66,
    order: str = golomb(0) + golomb(0),
    columns: int = 20,
    rows: int = 15,
    fields: str = "1",
    crop: str = "0",
) -> bytes:
    """A sequence header of H.264; `high` is what only a high profile has, `order` the order of the pictures."""
    bits = f"{profile:08b}" + "0" * 8 + "00011111" + golomb(0) + high + golomb(0) + order
    bits += golomb(1) + "0" + golomb(columns - 1) + golomb(rows - 1) + fields + "1" + crop
    unit = b"\x67" + bytes_of(bits + "1")
    return b"\x17\0\0\0\0\1\x64\0\x1f\xff\xe1" + len(unit).to_bytes(2) + unit


#: A scaling list that ends with its first number.
SHORT_LIST = "1" + golomb(16)


@pytest.mark.parametrize(
    ("chroma", "lists"),
    [
        (golomb(1), 8),
        (golomb(3) + "0", 12),
        (golomb(3) + "1", 12),
    ],
    ids=["4:2:0", "4:4:4", "three separate planes"],
)
def test_scaling_lists_before_the_size_are_skipped(chroma: str, lists: int) -> None:
    high = chroma + golomb(0) + golomb(0) + "0" + "1" + SHORT_LIST * lists
    assert picture_size(avc_header(high, profile=244)) == (320, 240)


def hevc_header(set_bits: str) -> bytes:
    """A decoder configuration with one parameter set of these bits."""
    unit = b"\x42\1" + bytes_of(set_bits)
    return b"\x90hvc1" + bytes(22) + b"\1\x21\0\1" + len(unit).to_bytes(2) + unit


def test_hevc_with_sub_layers() -> None:
    """Profiles and levels of the sub-layers stand before the size; one has both, one has a level."""
    layers = "11" + "01" + "00" * 6 + "1" * 96 + "1" * 8
    text = "0000" + "010" + "1" + "0" * 96 + layers + "1" + "010" + "00000101001" + "000010101" + "0"
    assert picture_size(hevc_header(text)) == (40, 20)


def av1_header(bits: str) -> bytes:
    data = bytes_of(bits)
    # A temporal delimiter before it, and an extension in its header.
    return b"\x90av01\x81\0\0\0\x12\0\x0e\0" + bytes([len(data)]) + data


@pytest.mark.parametrize(
    "timing",
    [
        "0",
        "1" + "0" * 64 + "0" + "0",
        "1" + "0" * 64 + "1" + "00101" + "0",
        "1" + "0" * 64 + "0" + "1" + "00011" + "0" * 32 + "0" * 10,
    ],
)
def test_av1_with_everything_before_the_size(timing: str) -> None:
    """Timing, a model of the decoder's buffer, two operating points, one of a high level."""
    has_model = len(timing) > 80
    point = "0" * 12 + "01000" + "1"
    model = "1" + "0" * 9 if has_model else ""
    other = "0" * 12 + "00111" + ("0" if has_model else "")
    points = "1" + "00001" + point + model + "1" + "0000" + other + "0"
    size = "0111" + "0110" + f"{319:08b}"[-8:] + f"{63:07b}"
    assert picture_size(av1_header("000" + "0" + "0" + timing + points + size)) == (64, 64)


@pytest.mark.parametrize(
    "payload",
    [
        b"\x90hvc1" + bytes(22) + b"\1\x20\0\2\0\1x",
        b"\x90hvc1" + bytes(22) + b"\1\x20\0\2\0\0\0\0",
        b"\x90hvc1" + bytes(23),
        b"\x90av01\x81\0\0\0",
        b"\x90av01\x81\0\0\0\x0a" + b"\xff" * 8,
        b"\x90av01\x81\0\0\0\x08",
    ],
)
def test_newer_codecs_that_are_cut_short(payload: bytes) -> None:
    assert picture_size(payload) is None


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x17", b"\x17\x01\0\0\0", b"\x90hvc1xx", b"\x12xx", b"\x17\0\0\0\0\1\x64\0\x1f\xff\xe0\0"],
)
def test_other_payloads_have_none(payload: bytes) -> None:
    assert picture_size(payload) is None


@given(st.binary(max_size=80))
def test_any_bytes_can_be_looked_at(data: bytes) -> None:
    picture_size(b"\x17\0\0\0\0\1\x64\0\x1f\xff\xe1\0\x40" + data)
    picture_size(data)
    picture_size(b"\x90hvc1" + bytes(22) + b"\1\x21\0\1\0\x40" + data)
    picture_size(b"\x90av01\x81\0\0\0\x0a\x20" + data)
