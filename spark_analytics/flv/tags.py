"""Many tags at once, as arrays: what their headers say, and the first bytes of their payloads."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import repeat
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from rtmprelay.flv.container import MAX_PAYLOAD_SIZE, TAG_HEADER_SIZE, TRAILER_SIZE
from spark_analytics.flv.sources import Bytes, Window

Integers = npt.NDArray[np.int64]

#: Bytes of a tag besides its payload.
FRAME_SIZE = TAG_HEADER_SIZE + TRAILER_SIZE

#: The largest tag.
MAX_TAG_SIZE = FRAME_SIZE + MAX_PAYLOAD_SIZE

#: How much of a payload is looked at: enough for codec, frame type and composition time.
HEAD_SIZE = 9

#: What is looked at of a tag: what stands before it, its header, and that.
_ROW_SIZE = TRAILER_SIZE + TAG_HEADER_SIZE + HEAD_SIZE

_TYPE_AND_SIZE = Struct(">I")


@attrs.frozen(eq=False)
class TagArrays:
    """Tags that follow each other.

    Attributes:
        heads: The first bytes of each payload, a row for each; what is after a short one is not a part of it.
    """

    offsets: Integers
    types: npt.NDArray[np.uint8]
    sizes: Integers
    timestamps: Integers
    heads: Bytes

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def joined(cls, parts: Sequence[TagArrays]) -> TagArrays:
        """All of them, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.offsets for part in parts]),
            np.concatenate([part.types for part in parts]),
            np.concatenate([part.sizes for part in parts]),
            np.concatenate([part.timestamps for part in parts]),
            np.concatenate([part.heads for part in parts]),
        )

    def first(self, count: int) -> TagArrays:
        """The first ones of them."""
        return TagArrays(
            self.offsets[:count],
            self.types[:count],
            self.sizes[:count],
            self.timestamps[:count],
            self.heads[:count],
        )

    def chosen(self, which: npt.NDArray[np.bool_]) -> TagArrays:
        """Some of them."""
        return TagArrays(
            self.offsets[which],
            self.types[which],
            self.sizes[which],
            self.timestamps[which],
            self.heads[which],
        )


def follow_sizes(window: Window, begin: int, stop: int, most: int) -> tuple[Integers, int]:
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
    return np.array(positions, np.int64) + base, at + base


def gather(window: Window, offsets: Integers, end: int) -> tuple[TagArrays, Integers]:
    """What the headers at these places say, and the sizes that stand after the payloads.

    Args:
        offsets: Where tags begin, each one where the one before it ends.
        end: Where the last of them ends.
    """
    # What stands after a payload stands before the next tag: one look takes both, and the looks are what takes time.
    rows = _rows(window.array, np.append(offsets, end) - (window.begin + TRAILER_SIZE))
    words = rows.view(">u4")
    first = words[:-1, 1].astype(np.int64)
    second = words[:-1, 2].astype(np.int64)
    tags = TagArrays(
        offsets,
        rows[:-1, TRAILER_SIZE],
        first & MAX_PAYLOAD_SIZE,
        second >> 8 | (second & 0xFF) << 24,
        rows[:-1, _ROW_SIZE - HEAD_SIZE :],
    )
    return tags, words[1:, 0].astype(np.int64)


def _rows(array: Bytes, places: Integers) -> Bytes:
    """What is before a tag, its header and the first bytes of its payload, a row for each; what is not there is zeros."""
    room = len(array) - _ROW_SIZE
    first = int(np.searchsorted(places, 0))
    last = int(np.searchsorted(places, room, side="right"))
    if first == 0 and last == len(places):
        return _slices(array, f"V{_ROW_SIZE}")[places].view(np.uint8).reshape(-1, _ROW_SIZE)
    rows = np.zeros((len(places), _ROW_SIZE), np.uint8)
    if last > first:
        rows[first:last] = _rows(array, places[first:last])
    for number in (*range(first), *range(max(first, last), len(places))):
        place = int(places[number])
        begin = max(0, -place)
        rest = array[place + begin : place + _ROW_SIZE]
        rows[number, begin : begin + len(rest)] = rest
    return rows


def numbers_at(array: Bytes, places: Integers) -> Integers:
    """The 32-bit numbers at these places."""
    found: Integers = _slices(array, ">u4")[places].astype(np.int64)
    return found


def sizes_at(array: Bytes, places: Integers) -> Integers:
    """The sizes in the tag headers that begin at these places."""
    return numbers_at(array, places) & MAX_PAYLOAD_SIZE


def _slices(array: Bytes, kind: str) -> npt.NDArray[Any]:
    """Something of this kind at every place, without copying."""
    size = np.dtype(kind).itemsize
    if len(array) < size:
        return np.empty(0, kind)
    return np.ndarray((len(array) - size + 1,), kind, array, strides=(1,))
