"""VP9: its decoder configuration (VP Codec ISO Media File Format Binding), and the size in the header of a keyframe."""

from __future__ import annotations

from rtmprelay.flv.bits import Bits

#: The box in an MP4 has a version before the record; some publishers send it along.
_VERSION = b"\x01\0\0\0"
_RECORD_SIZE = 8

_FRAME_MARKER = 2
_SYNC_CODE = 0x498342
_RGB = 7


def vp9_record(configuration: bytes) -> bytes | None:
    """The record without a version in front; None if it is something else."""
    record = configuration.removeprefix(_VERSION)
    return record if len(record) >= _RECORD_SIZE and record[0] <= 3 else None


def vp9_picture_size(picture: bytes) -> tuple[int, int] | None:
    """Width and height from a keyframe; None if this is none."""
    bits = Bits(picture[:32])
    try:
        if bits.read(2) != _FRAME_MARKER:
            return None
        profile = bits.read(1) | bits.read(1) << 1
        if profile == 3:
            bits.read(1)
        shows_another, kind = bits.read(1), bits.read(1)
        bits.read(2)
        if shows_another or kind or bits.read(24) != _SYNC_CODE:
            return None
        _skip_colours(bits, profile)
        return bits.read(16) + 1, bits.read(16) + 1
    except IndexError:
        return None


def _skip_colours(bits: Bits, profile: int) -> None:
    if profile >= 2:
        bits.read(1)
    if bits.read(3) != _RGB:
        bits.read(1)
        if profile & 1:
            bits.read(3)
    elif profile & 1:
        bits.read(1)
