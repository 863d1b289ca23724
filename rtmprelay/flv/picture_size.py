"""Width and height out of the decoder configuration of a video codec, for encoders whose metadata lacks them."""

from __future__ import annotations

from rtmprelay.flv.bits import Bits
from rtmprelay.flv.contents import video_content
from rtmprelay.flv.picture_size_av1 import av1_size
from rtmprelay.flv.picture_size_hevc import hevc_size

#: A profile that says how colour is sampled, and may have scaling lists.
_HIGH_PROFILES = frozenset({44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244})

#: No picture has more macroblocks in a row: 16 times this is 65,536.
_MAX_MACROBLOCKS = 4096

#: Real configurations have some hundred bytes; a huge one made of tiny parts would cost much to walk through.
_MOST_LOOKED_AT = 65536


def picture_size(payload: bytes) -> tuple[int, int] | None:
    """Width and height in pixels, from a sequence header of H.264, HEVC or AV1; None if it cannot be read."""
    content = video_content(payload)
    read = None if content is None or not content.configuration else _READERS.get(content.codec)
    if content is None or read is None:
        return None
    try:
        size = read(content.of(payload)[:_MOST_LOOKED_AT])
    except IndexError:
        return None
    return size if size is not None and 0 < size[0] <= 65536 and 0 < size[1] <= 65536 else None


def _avc_size(configuration: bytes) -> tuple[int, int] | None:
    size = int.from_bytes(configuration[6:8], "big")
    return _read_parameter_set(configuration[8 : 8 + size]) if configuration[5] & 31 else None


def _read_parameter_set(unit: bytes) -> tuple[int, int] | None:
    bits = Bits(unit[1:].replace(b"\0\0\3", b"\0\0"))
    profile = bits.read(8)
    bits.read(16)
    bits.read_exponential()
    chroma = _read_chroma(bits) if profile in _HIGH_PROFILES else 1
    _skip_picture_order(bits)
    bits.read_exponential()
    bits.read(1)
    columns = bits.read_exponential() + 1
    rows = bits.read_exponential() + 1
    frames_only = bits.read(1)
    if not frames_only:
        bits.read(1)
    bits.read(1)
    if columns > _MAX_MACROBLOCKS or rows > _MAX_MACROBLOCKS:
        return None
    width, height = columns * 16, rows * 16 * (2 - frames_only)
    if bits.read(1):
        left, right, top, bottom = (bits.read_exponential() for _ in range(4))
        width -= (left + right) * (2 if chroma in (1, 2) else 1)
        height -= (top + bottom) * (2 if chroma == 1 else 1) * (2 - frames_only)
    return width, height


def _read_chroma(bits: Bits) -> int:
    chroma = bits.read_exponential()
    if chroma == 3 and bits.read(1):
        # Three separate pictures, each sampled like a grey one.
        chroma = 0
    bits.read_exponential()
    bits.read_exponential()
    bits.read(1)
    if bits.read(1):
        for number in range(12 if chroma == 3 else 8):
            if bits.read(1):
                _skip_scaling_list(bits, 16 if number < 6 else 64)
    return chroma


def _skip_scaling_list(bits: Bits, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + bits.read_signed()) % 256
        last = following or last


def _skip_picture_order(bits: Bits) -> None:
    bits.read_exponential()
    kind = bits.read_exponential()
    if kind == 0:
        bits.read_exponential()
    elif kind == 1:
        bits.read(1)
        bits.read_signed()
        bits.read_signed()
        for _ in range(min(bits.read_exponential(), 255)):
            bits.read_signed()


_READERS = {b"avc1": _avc_size, b"hvc1": hevc_size, b"av01": av1_size}
