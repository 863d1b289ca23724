"""Decoder configurations of H.264, HEVC and AV1 with all optional parts, built bit by bit."""

from __future__ import annotations

from hypothesis import strategies as st

from rtmprelay.demo.test_card.codes import exponential, fixed, signed, to_bytes

#: A header, and the width and height that it says.
SizedHeader = tuple[bytes, tuple[int, int]]

_AVC_HIGH_PROFILES = (44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244)


def nal_unit(header: bytes, bits: str) -> bytes:
    """A NAL unit, escaped so that no start code is in it."""
    escaped = bytearray()
    for byte in to_bytes([bits, "1"]):
        if escaped[-2:] == b"\0\0" and byte <= 3:
            escaped.append(3)
        escaped.append(byte)
    return header + bytes(escaped)


@st.composite
def flags(draw: st.DrawFn, count: int) -> str:
    return fixed(draw(st.integers(0, (1 << count) - 1)), count)


def numbers(most: int) -> st.SearchStrategy[str]:
    return st.integers(0, most).map(exponential)


@st.composite
def _crop(draw: st.DrawFn, unit: tuple[int, int], size: tuple[int, int]) -> tuple[str, tuple[int, int]]:
    if not draw(st.booleans()):
        return "0", size
    left, right, top, bottom = (draw(st.integers(0, 3)) for _ in range(4))
    bits = "1" + "".join(map(exponential, (left, right, top, bottom)))
    return bits, (size[0] - (left + right) * unit[0], size[1] - (top + bottom) * unit[1])


@st.composite
def _chroma(draw: st.DrawFn) -> tuple[str, int, tuple[int, int]]:
    """Bits, the chroma format, and the unit of cropping."""
    chroma = draw(st.integers(0, 3))
    if chroma == 3:
        return exponential(3) + draw(flags(1)), 3, (1, 1)
    return exponential(chroma), chroma, (2 if chroma in (1, 2) else 1, 2 if chroma == 1 else 1)


# -- H.264 ---------------------------------------------------------------------------------------------------


@st.composite
def _scaling_list(draw: st.DrawFn, size: int) -> str:
    """Differences up to one that makes the next number zero, or to the end."""
    bits, last = "", 8
    ends_at = draw(st.integers(0, size))
    for position in range(size):
        following = 0 if position == ends_at else draw(st.integers(1, 255))
        delta = (following - last + 128) % 256 - 128
        bits += signed(delta)
        if not following:
            return bits
        last = following
    return bits


@st.composite
def _scaling(draw: st.DrawFn, lists: int) -> str:
    bits = draw(numbers(6)) + draw(numbers(6)) + draw(flags(1))
    if draw(st.booleans()):
        return bits + "0"
    present = [
        "1" + draw(_scaling_list(16 if number < 6 else 64)) if draw(st.booleans()) else "0"
        for number in range(lists)
    ]
    return bits + "1" + "".join(present)


@st.composite
def _picture_order(draw: st.DrawFn) -> str:
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return exponential(0) + draw(numbers(12))
    if kind == 2:
        return exponential(2)
    small = st.integers(-40, 40).map(signed)
    offsets = draw(st.lists(small, max_size=4))
    ahead = draw(flags(1)) + draw(small) + draw(small)
    return exponential(1) + ahead + exponential(len(offsets)) + "".join(offsets)


@st.composite
def avc_headers(draw: st.DrawFn) -> SizedHeader:
    profile = draw(st.sampled_from((66, 77, 88, *_AVC_HIGH_PROFILES)))
    bits = fixed(profile, 8) + draw(flags(16)) + draw(numbers(31))
    unit = (2, 2)
    if profile in _AVC_HIGH_PROFILES:
        chroma_bits, chroma, unit = draw(_chroma())
        bits += chroma_bits + draw(_scaling(12 if chroma == 3 else 8))
    bits += draw(numbers(12)) + draw(_picture_order()) + draw(numbers(16)) + draw(flags(1))
    columns, rows = draw(st.integers(2, 300)), draw(st.integers(2, 300))
    bits += exponential(columns - 1) + exponential(rows - 1)
    fields = draw(st.sampled_from((1, 2)))
    bits += "1" if fields == 1 else "0" + draw(flags(1))
    bits += draw(flags(1))
    crop, size = draw(_crop((unit[0], unit[1] * fields), (16 * columns, 16 * rows * fields)))
    return avc_header(bits + crop + draw(flags(3))), size


def avc_header(bits: str) -> bytes:
    """A sequence header with this sequence parameter set."""
    unit = nal_unit(b"\x67", bits)
    return b"\x17\0\0\0\0\1\x64\0\x1f\xff\xe1" + len(unit).to_bytes(2) + unit


# -- HEVC ----------------------------------------------------------------------------------------------------


@st.composite
def hevc_headers(draw: st.DrawFn) -> SizedHeader:
    layers = draw(st.integers(0, 6))
    bits = draw(flags(4)) + fixed(layers, 3) + draw(flags(1)) + draw(flags(88 + 8))
    present = [draw(st.tuples(st.booleans(), st.booleans())) for _ in range(layers)]
    if layers:
        bits += "".join(f"{profile:d}{level:d}" for profile, level in present)
        bits += draw(flags(2 * (8 - layers)))
    for profile, level in present:
        bits += draw(flags(88)) * profile + draw(flags(8)) * level
    chroma_bits, _, unit = draw(_chroma())
    size = draw(st.tuples(st.integers(16, 5000), st.integers(16, 5000)))
    bits += draw(numbers(15)) + chroma_bits + exponential(size[0]) + exponential(size[1])
    crop, size = draw(_crop(unit, size))
    others = draw(st.lists(st.binary(min_size=1, max_size=300), max_size=3))
    return hevc_header(nal_unit(b"\x42\1", bits + crop), others), size


def hevc_header(unit: bytes, others: list[bytes] | None = None) -> bytes:
    """A sequence header with this sequence parameter set after arrays of other units."""
    arrays = [(b"\x20", others)] if others else []
    arrays += [(b"\xa1", [unit])]
    content = b"".join(
        kind + len(units).to_bytes(2) + b"".join(len(one).to_bytes(2) + one for one in units)
        for kind, units in arrays
    )
    return b"\x90hvc1" + bytes(22) + bytes([len(arrays)]) + content


# -- AV1 -----------------------------------------------------------------------------------------------------


@st.composite
def _timing(draw: st.DrawFn) -> tuple[str, int]:
    """The timing, and how many bits a buffer delay has; 0 without a model of the decoder's buffer."""
    if draw(st.booleans()):
        return "0", 0
    bits = "1" + draw(flags(64))
    bits += "1" + draw(numbers(100)) if draw(st.booleans()) else "0"
    if draw(st.booleans()):
        return bits + "0", 0
    delay_bits = draw(st.integers(1, 32))
    return bits + "1" + fixed(delay_bits - 1, 5) + draw(flags(32 + 5 + 5)), delay_bits


@st.composite
def _operating_points(draw: st.DrawFn, delay_bits: int) -> str:
    display_delay = draw(st.booleans())
    count = draw(st.integers(1, 4))
    bits = f"{display_delay:d}" + fixed(count - 1, 5)
    for _ in range(count):
        level = draw(st.sampled_from((0, 7, 8, 31)))
        bits += draw(flags(12)) + fixed(level, 5) + (draw(flags(1)) if level > 7 else "")
        if delay_bits:
            bits += "1" + draw(flags(2 * delay_bits + 1)) if draw(st.booleans()) else "0"
        if display_delay:
            bits += "1" + draw(flags(4)) if draw(st.booleans()) else "0"
    return bits


@st.composite
def av1_headers(draw: st.DrawFn) -> SizedHeader:
    bits = draw(flags(4))
    if draw(st.booleans()):
        bits += "1" + draw(flags(5))
    else:
        timing, delay_bits = draw(_timing())
        bits += "0" + timing + draw(_operating_points(delay_bits))
    size = draw(st.tuples(st.integers(1, 65536), st.integers(1, 65536)))
    fields = [(number - 1, draw(st.integers(max(1, (number - 1).bit_length()), 16))) for number in size]
    bits += "".join(fixed(count - 1, 4) for _, count in fields)
    bits += "".join(fixed(number, count) for number, count in fields)
    header = to_bytes([bits, draw(flags(8))])
    before = b"".join(
        _obu(kind, content, draw(st.booleans()), draw(st.integers(1, 3)))
        for kind, content in draw(
            st.lists(st.tuples(st.sampled_from((2, 5, 15)), st.binary(max_size=200)), max_size=2)
        )
    )
    extended = draw(st.booleans())
    if draw(st.booleans()):
        # The last unit may be without a size.
        return b"\x90av01\x81\0\0\0" + before + bytes([0x0C, 0] if extended else [0x08]) + header, size
    return b"\x90av01\x81\0\0\0" + before + _obu(1, header, extended, 2) + bytes(5), size


def _obu(kind: int, content: bytes, extended: bool, size_bytes: int) -> bytes:
    """A unit with its size in at least this many groups of seven bits."""
    size_bytes = max(size_bytes, -(-len(content).bit_length() // 7))
    groups = [len(content) >> 7 * number & 0x7F for number in range(size_bytes)]
    size = bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])
    return bytes([kind << 3 | extended << 2 | 2]) + bytes(extended) + size + content
