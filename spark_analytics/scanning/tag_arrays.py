"""Many tags at once, as arrays: what their headers say, and the first bytes of their payloads."""

from __future__ import annotations

from bisect import bisect_right
from itertools import repeat
from struct import Struct
from struct import error as StructError  # noqa: N812

import attrs
import numpy as np
import numpy.typing as npt

from rtmprelay.flv.container import MAX_PAYLOAD_SIZE, TAG_HEADER_SIZE, TRAILER_SIZE
from spark_analytics.scanning.sources import Bytes, Window

Integers = npt.NDArray[np.int64]

#: Bytes of a tag besides its payload.
FRAME_SIZE = TAG_HEADER_SIZE + TRAILER_SIZE

#: The largest tag.
MAX_TAG_SIZE = FRAME_SIZE + MAX_PAYLOAD_SIZE

#: How much of a payload is looked at: enough for codec, frame type and composition time.
HEAD_SIZE = 9

_ROW_SIZE = TAG_HEADER_SIZE + HEAD_SIZE

_TYPE_AND_SIZE = Struct(">I")


@attrs.frozen(eq=False)
class TagArrays:
    """Tags that follow each other.

    Attributes:
        heads: The first bytes of each payload, a row for each; what is behind a short one is not a part of it.
    """

    offsets: Integers
    types: npt.NDArray[np.uint8]
    sizes: Integers
    timestamps: Integers
    heads: Bytes

    def __len__(self) -> int:
        return len(self.offsets)

    def first(self, count: int) -> TagArrays:
        """The first ones of them."""
        return TagArrays(
            self.offsets[:count],
            self.types[:count],
            self.sizes[:count],
            self.timestamps[:count],
            self.heads[:count],
        )


def follow_sizes(window: Window, begin: int, stop: int, most: int) -> tuple[list[int], int]:
    """Go from tag to tag by their sizes alone; where they begin, and where the last one ends.

    Tags begin before `stop`, and end inside of the window as far as their sizes can be trusted: the last one may not.
    """
    positions: list[int] = []
    append = positions.append
    read = _TYPE_AND_SIZE.unpack_from
    buffer = window.buffer
    base = window.begin
    at = begin - base
    last = min(stop - 1, window.end - FRAME_SIZE) - base
    # This loop is most of the time that an index takes: it goes on until reading fails, and what was too much is cut off.
    try:
        for _ in repeat(None, most):
            append(at)
            (type_and_size,) = read(buffer, at)
            at += (type_and_size & MAX_PAYLOAD_SIZE) + FRAME_SIZE
    except StructError:
        positions.pop()
    if positions and positions[-1] > last:
        kept = bisect_right(positions, last)
        at = positions[kept]
        del positions[kept:]
    if base:
        return [position + base for position in positions], at + base
    return positions, at


def gather(window: Window, offsets: Integers) -> TagArrays:
    """What the headers at these places say; there must be room for a tag at each of them."""
    places = offsets - window.begin
    rows = _rows(window.array, places)
    words = rows.view(">u4")
    first = words[:, 0].astype(np.int64)
    second = words[:, 1].astype(np.int64)
    return TagArrays(
        offsets,
        rows[:, 0],
        first & MAX_PAYLOAD_SIZE,
        second >> 8 | (second & 0xFF) << 24,
        rows[:, TAG_HEADER_SIZE:],
    )


def _rows(array: Bytes, places: Integers) -> Bytes:
    """The header and the first bytes of the payload at each place, a row for each."""
    room = len(array) - _ROW_SIZE
    if not len(places) or places[-1] <= room:
        return _slices(array, _ROW_SIZE)[places]
    # A short tag at the very end: what is not there reads as zeros.
    rows = np.zeros((len(places), _ROW_SIZE), np.uint8)
    inside = int(np.searchsorted(places, room, side="right"))
    if inside:
        rows[:inside] = _slices(array, _ROW_SIZE)[places[:inside]]
    for number in range(inside, len(places)):
        rest = array[places[number] :]
        rows[number, : len(rest)] = rest
    return rows


def trailers(window: Window, ends_of_payload: Integers) -> Integers:
    """The sizes that stand behind payloads."""
    return numbers_at(window.array, ends_of_payload - window.begin)


def numbers_at(array: Bytes, places: Integers) -> Integers:
    """The 32-bit numbers at these places."""
    return _slices(array, TRAILER_SIZE)[places].view(">u4").ravel().astype(np.int64)


def sizes_at(array: Bytes, places: Integers) -> Integers:
    """The sizes in the tag headers that begin at these places."""
    return numbers_at(array, places) & MAX_PAYLOAD_SIZE


def _slices(array: Bytes, length: int) -> Bytes:
    """Every slice of this length, without copying: the one at place p is row p."""
    return np.lib.stride_tricks.as_strided(
        array, (max(0, len(array) - length + 1), length), (1, 1), writeable=False
    )
