"""Width and height of H.264, for publishers that do not say them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import imageio_ffmpeg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.flv.container import read_tags
from rtmprelay.flv.picture_size import picture_size
from rtmprelay.flv.tags import describe_video
from rtmprelay.media import MediaKind


def sequence_header(path: Path, size: str, options: str) -> bytes:
    """The decoder configuration that a real encoder makes."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", "-f", "lavfi"]
    command += ["-i", f"testsrc=size={size}:rate=1", "-frames:v", "1", *options.split(), str(path)]
    subprocess.run(command, check=True, timeout=30)
    with path.open("rb") as file:
        return next(
            tag.payload
            for tag in read_tags(file)
            if tag.kind is MediaKind.VIDEO and describe_video(tag.payload).sequence_header
        )


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
    "payload",
    [b"", b"\x17", b"\x17\x01\0\0\0", b"\x90hvc1xx", b"\x12xx", b"\x17\0\0\0\0\1\x64\0\x1f\xff\xe0\0"],
)
def test_other_payloads_have_none(payload: bytes) -> None:
    assert picture_size(payload) is None


@given(st.binary(max_size=80))
def test_any_bytes_can_be_looked_at(data: bytes) -> None:
    picture_size(b"\x17\0\0\0\0\1\x64\0\x1f\xff\xe1\0\x40" + data)
    picture_size(data)
