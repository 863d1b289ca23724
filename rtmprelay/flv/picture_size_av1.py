"""Width and height out of the decoder configuration of AV1 (AV1 in ISO BMFF, and the AV1 specification, section 5.5)."""

from __future__ import annotations

from rtmprelay.flv.bits import Bits

_SEQUENCE_HEADER = 1


def av1_size(configuration: bytes) -> tuple[int, int] | None:
    """The largest size of a frame that the sequence header says; an IndexError if it is cut short."""
    at = 4
    while at < len(configuration):
        header = configuration[at]
        at += 2 if header & 4 else 1
        if not header & 2:
            size = len(configuration) - at
        else:
            size, at = _read_leb128(configuration, at)
        if header >> 3 & 15 == _SEQUENCE_HEADER:
            return _read_sequence_header(Bits(configuration[at : at + size]))
        at += size
    return None


def _read_leb128(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first; and where it ends."""
    value = 0
    for index in range(8):
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return value, at + index + 1
    raise IndexError("no such number")


def _read_sequence_header(bits: Bits) -> tuple[int, int]:
    bits.read(4)
    if bits.read(1):
        # A still picture: only the level comes before its size.
        bits.read(5)
    else:
        delay_bits = _skip_timing(bits) if bits.read(1) else 0
        _skip_operating_points(bits, delay_bits)
    width_bits = bits.read(4) + 1
    height_bits = bits.read(4) + 1
    return bits.read(width_bits) + 1, bits.read(height_bits) + 1


def _skip_timing(bits: Bits) -> int:
    """The timing, and how many bits a buffer delay has; 0 if there is none."""
    bits.read(64)
    if bits.read(1):
        bits.read_exponential()
    if not bits.read(1):
        return 0
    delay_bits = bits.read(5) + 1
    bits.read(32 + 5 + 5)
    return delay_bits


def _skip_operating_points(bits: Bits, delay_bits: int) -> None:
    display_delay = bits.read(1)
    for _ in range(bits.read(5) + 1):
        bits.read(12)
        if bits.read(5) > 7:
            bits.read(1)
        if delay_bits and bits.read(1):
            bits.read(2 * delay_bits + 1)
        if display_delay and bits.read(1):
            bits.read(4)
