"""Width and height out of the decoder configuration of H.264, for encoders whose metadata lacks them."""

from __future__ import annotations

from rtmprelay.flv.enhanced_header import VideoPacketType, read_video_header

#: A profile that says how colour is sampled, and may have scaling lists.
_HIGH_PROFILES = frozenset({44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244})

#: No picture has more macroblocks in a row: 16 times this is 65,536.
_MAX_MACROBLOCKS = 4096


class _Bits:
    """Reads numbers of any number of bits; past the end is an IndexError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, count: int) -> int:
        value = 0
        for _ in range(count):
            byte = self._data[self._at >> 3]
            value = value << 1 | byte >> (7 - (self._at & 7)) & 1
            self._at += 1
        return value

    def read_exponential(self) -> int:
        """An unsigned Exp-Golomb number."""
        zeros = 0
        while not self.read(1):
            zeros += 1
            if zeros > 31:
                raise IndexError("no such number")
        return (1 << zeros) - 1 + self.read(zeros)

    def read_signed(self) -> int:
        """A signed Exp-Golomb number."""
        number = self.read_exponential()
        return (number + 1) // 2 if number & 1 else -(number // 2)


def picture_size(payload: bytes) -> tuple[int, int] | None:
    """Width and height in pixels, from a sequence header of H.264; None for other codecs or if it cannot be read."""
    configuration = _avc_configuration(payload)
    if configuration is None:
        return None
    try:
        size = int.from_bytes(configuration[6:8], "big")
        return _read_parameter_set(configuration[8 : 8 + size]) if configuration[5] & 31 else None
    except IndexError:
        return None


def _avc_configuration(payload: bytes) -> bytes | None:
    if payload[:1] and payload[0] & 0x80:
        header = read_video_header(payload)
        if header is None or header.fourcc != b"avc1" or header.packet_type != VideoPacketType.SEQUENCE_START:
            return None
        return payload[header.data_at :]
    return payload[5:] if payload[:1] and payload[0] & 15 == 7 and payload[1:2] == b"\0" else None


def _read_parameter_set(unit: bytes) -> tuple[int, int] | None:
    bits = _Bits(unit[1:].replace(b"\0\0\3", b"\0\0"))
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
    return (width, height) if width > 0 and height > 0 else None


def _read_chroma(bits: _Bits) -> int:
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


def _skip_scaling_list(bits: _Bits, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + bits.read_signed()) % 256
        last = following or last


def _skip_picture_order(bits: _Bits) -> None:
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
