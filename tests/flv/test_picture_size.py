"""Width and height of H.264, HEVC and AV1, for publishers whose metadata lacks them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import imageio_ffmpeg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtmprelay.demo.test_card.codes import exponential, fixed
from rtmprelay.flv.codec_headers import picture_size
from rtmprelay.flv.container import read_tags
from rtmprelay.flv.tags import describe_video
from rtmprelay.media import MediaKind
from tests.flv.codec_headers import (
    SizedHeader,
    av1_headers,
    avc_header,
    avc_headers,
    hevc_header,
    hevc_headers,
    nal_unit,
)
from tests.rounds import rounds


def sequence_header(path: Path, size: str, options: str) -> bytes:
    """The decoder configuration of a real encoder."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", "-f", "lavfi"]
    command += ["-i", f"testsrc=size={size}:rate=1", "-frames:v", "1", *options.split(), str(path)]
    subprocess.run(command, check=True, timeout=30)
    with path.open("rb") as file:
        headers = [
            tag.payload
            for tag in read_tags(file)
            if tag.kind is MediaKind.VIDEO and describe_video(tag.payload).sequence_header
        ]
    # FFmpeg sends an empty one first when the encoder makes its configuration with the first picture.
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
def test_size_of_real_h264_headers(tmp_path: Path, size: str, options: str) -> None:
    header = sequence_header(tmp_path / "size.flv", size, options)
    found = picture_size(header)
    assert found is not None
    assert f"{found[0]}x{found[1]}" == size
    # The same configuration as Enhanced RTMP.
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
def test_size_of_real_hevc_and_av1_headers(tmp_path: Path, size: str, options: str) -> None:
    header = sequence_header(tmp_path / "size.flv", size, f"-strict experimental {options}")
    found = picture_size(header)
    assert found is not None
    assert f"{found[0]}x{found[1]}" == size


@settings(max_examples=rounds(30, full=150))
@given(st.one_of(avc_headers(), hevc_headers(), av1_headers()))
def test_size_is_read_after_all_optional_parts(sized: SizedHeader) -> None:
    header, size = sized
    assert picture_size(header) == size


@given(st.one_of(avc_headers(), hevc_headers(), av1_headers()), st.data())
def test_truncated_header_has_no_wrong_size(sized: SizedHeader, data: st.DataObject) -> None:
    header, size = sized
    cut = data.draw(st.integers(0, len(header)))
    assert picture_size(header[:cut]) in (None, size)


def plain_avc(columns: int, rows: int, crop: str = "0") -> bytes:
    """A baseline header of whole frames, in macroblocks."""
    order = exponential(0) + exponential(0)
    size = exponential(columns - 1) + exponential(rows - 1)
    return avc_header(
        fixed(66, 8)
        + fixed(0, 16)
        + exponential(0) * 2
        + order
        + exponential(1)
        + "0"
        + size
        + "1"
        + "1"
        + crop
    )


@pytest.mark.parametrize(
    ("columns", "rows", "size"),
    [
        (4096, 1, (65536, 16)),
        (1, 4096, (16, 65536)),
        (4097, 1, None),
        (1, 4097, None),
    ],
)
def test_largest_side_is_65536(columns: int, rows: int, size: tuple[int, int] | None) -> None:
    assert picture_size(plain_avc(columns, rows)) == size


@pytest.mark.parametrize(("left", "top"), [(8, 0), (0, 8), (9, 0), (0, 9)])
def test_picture_cropped_to_nothing_has_no_size(left: int, top: int) -> None:
    crop = "1" + exponential(left) + exponential(0) + exponential(top) + exponential(0)
    assert picture_size(plain_avc(1, 1, crop)) is None


def test_huge_hevc_side_has_no_size() -> None:
    bits = "0" * 8 + "0" * 96 + exponential(0) + exponential(1) + exponential(65537) + exponential(16) + "0"
    assert picture_size(hevc_header(nal_unit(b"\x42\1", bits))) is None


def sps_with_offsets(count: int) -> SizedHeader:
    offsets = exponential(1) + "0" + "11" + exponential(count) + "1" * count
    size = exponential(19) + exponential(14) + "1" + "1" + "0"
    return avc_header(
        fixed(66, 8) + fixed(0, 16) + exponential(0) * 2 + offsets + exponential(1) + "0" + size
    ), (
        320,
        240,
    )


def test_at_most_255_picture_order_offsets_are_skipped() -> None:
    header, size = sps_with_offsets(255)
    assert picture_size(header) == size
    header, size = sps_with_offsets(256)
    assert picture_size(header) != size


@pytest.mark.parametrize(("zeros", "size"), [(31, (16, 16)), (32, None)])
def test_exponential_numbers_have_at_most_31_zeros(zeros: int, size: tuple[int, int] | None) -> None:
    identifier = "0" * zeros + "1" + "0" * zeros
    bits = fixed(66, 8) + fixed(0, 16) + identifier + "1" + "1" + "1" + "1" + "0" + "11" + "11" + "0"
    assert picture_size(avc_header(bits)) == size


@pytest.mark.parametrize(("padding", "size"), [(65524, (1, 1)), (65525, None)])
def test_only_65536_bytes_of_a_configuration_are_read(padding: int, size: tuple[int, int] | None) -> None:
    """Four bytes in front, a unit of padding with four of its own, and four of the sequence header."""
    groups = bytes([padding & 0x7F | 0x80, padding >> 7 & 0x7F | 0x80, padding >> 14])
    configuration = b"\x81\0\0\0" + b"\x7a" + groups + bytes(padding) + b"\x08\x18\0\0"
    assert picture_size(b"\x90av01" + configuration) == size


@pytest.mark.parametrize(
    "payload",
    [
        b"\x90hvc1" + bytes(22) + b"\1\x20\0\2\0\1x",
        b"\x90hvc1" + bytes(22) + b"\1\x20\0\2\0\0\0\0",
        b"\x90hvc1" + bytes(23),
        b"\x90av01\x81\0\0\0",
        b"\x90av01\x81\0\0\0\x0a" + b"\xff" * 8,
        b"\x90av01\x81\0\0\0\x08",
        b"",
        b"\x17",
        b"\x17\x01\0\0\0",
        b"\x90hvc1xx",
        b"\x90vp09" + bytes(30),
        b"\x12xx",
        b"\x17\0\0\0\0\1\x64\0\x1f\xff\xe0\0",
    ],
)
def test_other_payloads_have_no_size(payload: bytes) -> None:
    assert picture_size(payload) is None


@given(st.binary(max_size=80))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    for payload in (
        b"\x17\0\0\0\0\1\x64\0\x1f\xff\xe1\0\x40" + data,
        data,
        b"\x90hvc1" + bytes(22) + b"\1\x21\0\1\0\x40" + data,
        b"\x90av01\x81\0\0\0\x0a\x20" + data,
    ):
        size = picture_size(payload)
        assert size is None or (0 < size[0] <= 65536 and 0 < size[1] <= 65536)
