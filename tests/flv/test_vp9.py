"""The configuration of VP9, and the size of its pictures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.flv.vp9 import vp9_picture_size, vp9_record

RECORD = bytes([0, 31, 0x82, 1, 1, 1, 0, 0])


@pytest.mark.parametrize(
    ("configuration", "record"),
    [
        (RECORD, RECORD),
        (b"\1\0\0\0" + RECORD, RECORD),
        (RECORD[:7], None),
        (b"\1\0\0\0" + RECORD[:7], None),
        (b"\4" + RECORD[1:], None),
        (b"", None),
    ],
)
def test_record_may_have_its_version_in_front(configuration: bytes, record: bytes | None) -> None:
    assert vp9_record(configuration) == record


def keyframe(profile: int = 0, space: int = 2, sync: int = 0x498342, kind: int = 0) -> bytes:
    text = f"10{profile & 1}{profile >> 1}" + ("0" if profile == 3 else "") + f"0{kind}10{sync:024b}"
    text += "1" * (profile >= 2) + f"{space:03b}"
    text += ("0" + "110" * (profile & 1)) if space != 7 else "0" * (profile & 1)
    text += f"{1919:016b}{1079:016b}"
    return int(text.ljust(160, "0"), 2).to_bytes(20)


@pytest.mark.parametrize(
    "picture",
    [keyframe(), keyframe(1), keyframe(2), keyframe(3), keyframe(space=7), keyframe(1, 7), keyframe(3, 7)],
)
def test_keyframe_says_its_size(picture: bytes) -> None:
    assert vp9_picture_size(picture) == (1920, 1080)


@pytest.mark.parametrize(
    "picture", [b"", keyframe(kind=1), keyframe(sync=1), b"\x40" + bytes(20), keyframe()[:6]]
)
def test_picture_that_is_no_keyframe_has_no_size(picture: bytes) -> None:
    assert vp9_picture_size(picture) is None


@given(st.binary(max_size=40))
def test_any_bytes_have_a_size_of_16_bits_or_none(data: bytes) -> None:
    size = vp9_picture_size(data)
    assert size is None or all(0 < side <= 65_536 for side in size)
    record = vp9_record(data)
    assert record is None or data.endswith(record)
