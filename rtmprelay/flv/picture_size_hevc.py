"""Width and height out of the decoder configuration of HEVC (ISO/IEC 14496-15 and 23008-2)."""

from __future__ import annotations

from rtmprelay.flv.bits import Bits

_PARAMETER_SET = 33

#: Profile and its compatibility flags; the level behind them has 8 bits.
_PROFILE_BITS = 88
_LEVEL_BITS = 8


def hevc_size(configuration: bytes) -> tuple[int, int] | None:
    """The size that the first sequence parameter set says; an IndexError if there is less than it announces."""
    at = 23
    for _ in range(configuration[22]):
        kind = configuration[at] & 0x3F
        count = int.from_bytes(configuration[at + 1 : at + 3], "big")
        at += 3
        for _ in range(count):
            size = int.from_bytes(configuration[at : at + 2], "big")
            unit = configuration[at + 2 : at + 2 + size]
            if kind == _PARAMETER_SET:
                return _read_parameter_set(unit)
            if len(unit) < size or not size:
                return None
            at += 2 + size
    return None


def _read_parameter_set(unit: bytes) -> tuple[int, int]:
    bits = Bits(unit[2:].replace(b"\0\0\3", b"\0\0"))
    bits.read(4)
    sub_layers = bits.read(3)
    bits.read(1)
    _skip_profiles(bits, sub_layers)
    bits.read_exponential()
    chroma = bits.read_exponential()
    if chroma == 3 and bits.read(1):
        # Three separate pictures, each sampled like a grey one.
        chroma = 0
    width = bits.read_exponential()
    height = bits.read_exponential()
    if bits.read(1):
        left, right, top, bottom = (bits.read_exponential() for _ in range(4))
        width -= (left + right) * (2 if chroma in (1, 2) else 1)
        height -= (top + bottom) * (2 if chroma == 1 else 1)
    return width, height


def _skip_profiles(bits: Bits, sub_layers: int) -> None:
    bits.read(_PROFILE_BITS + _LEVEL_BITS)
    present = [(bits.read(1), bits.read(1)) for _ in range(sub_layers)]
    if sub_layers:
        bits.read(2 * (8 - sub_layers))
    for profile, level in present:
        bits.read(profile * _PROFILE_BITS + level * _LEVEL_BITS)
