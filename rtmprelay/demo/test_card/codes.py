"""Numbers as bits, and the variable-length codes of H.264 for coefficients (CAVLC), as far as the test card needs them.

Bits are kept as text, such as "0101": simple, and fast enough. The tables are those of ITU-T H.264, 9.2. There, the number
of coefficients in the neighbouring blocks chooses one of several tables; the blocks of this encoder have only their DC,
which does not count, so it is always the first table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: By the number of coefficients, then by how many of the last ones are 1 or -1.
_COEFFICIENT_TOKENS = tuple(
    tuple(codes.split())
    for codes in (
        "1",
        "000101 01",
        "00000111 000100 001",
        "000000111 00000110 0000101 00011",
        "0000000111 000000110 00000101 000011",
        "00000000111 0000000110 000000101 0000100",
        "0000000001111 00000000110 0000000101 00000100",
        "0000000001011 0000000001110 00000000101 000000100",
        "0000000001000 0000000001010 0000000001101 0000000100",
        "00000000001111 00000000001110 0000000001001 00000000100",
        "00000000001011 00000000001010 00000000001101 0000000001100",
        "000000000001111 000000000001110 00000000001001 00000000001100",
        "000000000001011 000000000001010 000000000001101 00000000001000",
        "0000000000001111 000000000000001 000000000001001 000000000001100",
        "0000000000001011 0000000000001110 0000000000001101 000000000001000",
        "0000000000000111 0000000000001010 0000000000001001 0000000000001100",
        "0000000000000100 0000000000000110 0000000000000101 0000000000001000",
    )
)

#: By the number of coefficients minus one, then by the number of zeros before the last of them.
_TOTAL_ZEROS = tuple(
    tuple(codes.split())
    for codes in (
        "1 011 010 0011 0010 00011 00010 000011 000010 0000011 0000010 00000011 00000010 000000011 000000010 000000001",
        "111 110 101 100 011 0101 0100 0011 0010 00011 00010 000011 000010 000001 000000",
        "0101 111 110 101 0100 0011 100 011 0010 00011 00010 000001 00001 000000",
        "00011 111 0101 0100 110 101 100 0011 011 0010 00010 00001 00000",
        "0101 0100 0011 111 110 101 100 011 0010 00001 0001 00000",
        "000001 00001 111 110 101 100 011 010 0001 001 000000",
        "000001 00001 101 100 011 11 010 0001 001 000000",
        "000001 0001 00001 011 11 10 010 001 000000",
        "000001 000000 0001 11 10 001 01 00001",
        "00001 00000 001 11 10 01 0001",
        "0000 0001 001 010 1 011",
        "0000 0001 01 1 001",
        "000 001 1 01",
        "00 01 1",
        "0 1",
    )
)

#: By the number of zeros that are left minus one, then by the number of those before this coefficient.
_RUNS = tuple(
    tuple(codes.split())
    for codes in (
        "1 0",
        "1 01 00",
        "11 10 01 00",
        "11 10 01 001 000",
        "11 10 011 010 001 000",
        "11 000 001 011 010 101 100",
        "111 110 101 100 011 010 001 0001 00001 000001 0000001 00000001 000000001 0000000001 00000000001",
    )
)

#: The DC of a whole colour plane: none, one that is not 1 or -1, or one that is; then only zeros.
_CHROMA_TOKENS = ("01", "000111", "1")
_NO_CHROMA_ZEROS = "1"

_MAX_SUFFIX = 6


def fixed(value: int, count: int) -> str:
    """An unsigned number in `count` bits."""
    if not 0 <= value < 1 << count:
        raise ValueError(f"{value} does not fit into {count} bits")
    return f"{value:0{count}b}" if count else ""


def exponential(value: int) -> str:
    """An unsigned Exp-Golomb number."""
    digits = f"{value + 1:b}"
    return "0" * (len(digits) - 1) + digits


def signed(value: int) -> str:
    """A signed Exp-Golomb number."""
    return exponential(2 * value - 1 if value > 0 else -2 * value)


def to_bytes(parts: Iterable[str]) -> bytes:
    """All bits, with zeros after them up to a whole byte."""
    text = "".join(parts)
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8) if text else b""


def encode_block(coefficients: Sequence[int]) -> str:
    """The 16 coefficients of a block, in the order of the standard's zigzag."""
    places = [place for place, value in enumerate(coefficients) if value]
    if not places:
        return _COEFFICIENT_TOKENS[0][0]
    count = len(places)
    levels = [coefficients[place] for place in reversed(places)]
    ones = _trailing_ones(levels)
    parts = [_COEFFICIENT_TOKENS[count][ones], *("1" if level < 0 else "0" for level in levels[:ones])]
    parts += _levels(levels[ones:], 1 if count > 10 and ones < 3 else 0, ones)
    zeros = places[-1] + 1 - count
    if count < len(coefficients):
        parts.append(_TOTAL_ZEROS[count - 1][zeros])
    parts += _runs(places, zeros)
    return "".join(parts)


def encode_flat_chroma(level: int) -> str:
    """The DC coefficients of a colour plane that has one colour: only the first one can differ from zero."""
    if not level:
        return _CHROMA_TOKENS[0]
    if abs(level) == 1:
        return f"{_CHROMA_TOKENS[2]}{int(level < 0)}{_NO_CHROMA_ZEROS}"
    return "".join((_CHROMA_TOKENS[1], *_levels([level], 0, 0), _NO_CHROMA_ZEROS))


def _trailing_ones(levels: Sequence[int]) -> int:
    ones = 0
    while ones < min(3, len(levels)) and abs(levels[ones]) == 1:
        ones += 1
    return ones


def _levels(levels: Sequence[int], suffix: int, ones: int) -> list[str]:
    """Coefficients from the last to the first. The larger they get, the more bits their suffixes have."""
    parts = []
    for position, level in enumerate(levels):
        code = 2 * abs(level) - 2 + (level < 0)
        if position == 0 and ones < 3:
            # It cannot be 1 or -1, or it would have been counted among those.
            code -= 2
        parts.append(_level(code, suffix))
        suffix = max(suffix, 1)
        if abs(level) > 3 << (suffix - 1) and suffix < _MAX_SUFFIX:
            suffix += 1
    return parts


def _level(code: int, suffix: int) -> str:
    if suffix == 0:
        if code < 14:
            return "0" * code + "1"
        if code < 30:
            return "0" * 14 + "1" + fixed(code - 14, 4)
        return "0" * 15 + "1" + fixed(code - 30, 12)
    if code < 15 << suffix:
        return "0" * (code >> suffix) + "1" + fixed(code & ((1 << suffix) - 1), suffix)
    return "0" * 15 + "1" + fixed(code - (15 << suffix), 12)


def _runs(places: Sequence[int], zeros: int) -> list[str]:
    """The number of zeros before each coefficient, from the last to the second."""
    parts = []
    for index in range(len(places) - 1, 0, -1):
        if zeros == 0:
            break
        run = places[index] - places[index - 1] - 1
        parts.append(_RUNS[min(zeros, len(_RUNS)) - 1][run])
        zeros -= run
    return parts
