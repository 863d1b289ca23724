"""Finds where tags begin: after damage, and at any place of a file without reading what is before it.

The sequence of tags is what `rtmprelay.flv.scan` finds from the start of the file on. A part of the file that is read
alone must begin with exactly the first of them that begins in it, even if a publisher has put other files, or
an endless chain of other tags, into his payloads. This is how:

    Let `start` be the first place from `lo` on where a whole tag of a known type begins. If every whole tag that lies
    across `lo`, wherever it begins, ends at `start`, then `start` it is.

For the last tag or damage of the sequence that begins before `lo` is either a whole tag across `lo`, and ends at `start`; or
it is damage, after which the sequence goes on at the first such place, which is `start`. A tag has at most 16 MiB, so
only so much needs to be looked at. Where it does not hold, which takes malice or an accident of one in some thousand places,
the sequence is followed from an earlier place where it holds, in the worst case from the start of the file.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rtmprelay.flv.container import MAX_PAYLOAD_SIZE, TAG_HEADER_SIZE, TRAILER_SIZE
from rtmprelay.media import MediaKind
from spark_analytics.flv.sources import Bytes, ByteSource, Window
from spark_analytics.flv.tags import FRAME_SIZE, MAX_TAG_SIZE, Integers, numbers_at, sizes_at

#: How much is searched at a time: little at first, because after small damages it is enough.
_FIRST_STEP = 1 << 9
_LARGEST_STEP = 1 << 22

#: How much of what may lie after a place is looked at at a time.
_TRAILER_STEP = 1 << 20

#: As many places are looked at one by one. More take malice: they are looked at in blocks.
_FEW = 16

_IS_TAG_TYPE = np.zeros(256, np.bool_)
_IS_TAG_TYPE[[int(kind) for kind in MediaKind]] = True


def find_start(source: ByteSource, begin: int, limit: int) -> int | None:
    """The first place from `begin` on, and before `limit`, where a whole tag of a known type and of stream 0 begins."""
    step = _FIRST_STEP
    limit = min(limit, source.size - FRAME_SIZE + 1)
    while begin < limit:
        end = min(begin + step, limit)
        # Most tags that begin in this step end after it: as much again is at hand without asking for each.
        window = source.window(begin, 2 * (end - begin) + TAG_HEADER_SIZE)
        found = _first_whole(source, window, _candidates(window, begin, end))
        if found is not None:
            return found
        begin = end
        step = min(2 * step, _LARGEST_STEP)
    return None


def _candidates(window: Window, begin: int, end: int) -> Integers:
    """Where the bytes look like the start of a tag."""
    first, count = begin - window.begin, end - begin
    array = window.array
    stream = array[first + 8 : first + count + 10]
    looks_right = _IS_TAG_TYPE[array[first : first + count]]
    looks_right &= (stream[:count] | stream[1 : count + 1] | stream[2 : count + 2]) == 0
    return np.flatnonzero(looks_right) + begin


def _first_whole(source: ByteSource, window: Window, places: Integers) -> int | None:
    """The first of these places at which the size after the tag is right."""
    if not len(places):
        return None
    sizes = sizes_at(window.array, places - window.begin)
    payload_ends = places + TAG_HEADER_SIZE + sizes
    inside = payload_ends + TRAILER_SIZE <= window.end
    right = np.zeros(len(places), np.bool_)
    right[inside] = (
        numbers_at(window.array, payload_ends[inside] - window.begin) == sizes[inside] + TAG_HEADER_SIZE
    )
    hits = np.flatnonzero(right)
    best = int(places[hits[0]]) if len(hits) else None
    far = ~inside & (payload_ends + TRAILER_SIZE <= source.size)
    if best is not None:
        far &= places < best
    found = _first_far(source, places[far], payload_ends[far], sizes[far] + TAG_HEADER_SIZE)
    return best if found is None else found


def _first_far(source: ByteSource, places: Integers, trailers: Integers, wholes: Integers) -> int | None:
    """The first of these places after which the right size stands, where that is not at hand."""
    if len(places) <= _FEW:
        for place, trailer, whole in zip(places.tolist(), trailers.tolist(), wholes.tolist(), strict=True):
            if source.read(trailer, TRAILER_SIZE) == whole.to_bytes(TRAILER_SIZE, "big"):
                return int(place)
        return None
    best: int | None = None
    order = np.argsort(trailers, kind="stable")
    while len(order):
        begin = int(trailers[order[0]])
        count = int(np.searchsorted(trailers[order], begin + _TRAILER_STEP))
        lot, order = order[:count], order[count:]
        size = int(trailers[lot[-1]]) - begin + TRAILER_SIZE
        array = np.frombuffer(source.read(begin, size), np.uint8)
        right = numbers_at(array, trailers[lot] - begin) == wholes[lot]
        if right.any():
            best = int(places[lot[right]].min())
            # Only what is before it can still be the first.
            order = order[places[order] < best]
    return best


def ends_of_tags_across(source: ByteSource, place: int) -> Integers:
    """Where all those tags end, of whatever type, that begin before a place and end at it or after it."""
    # What is sought is a size after a tag, and so a number below 2**24 + 11: its first byte is 0 or 1.
    begin = max(place - TRAILER_SIZE, 0)
    end = min(place + MAX_TAG_SIZE - TRAILER_SIZE, source.size - TRAILER_SIZE + 1)
    first = max(0, place - MAX_TAG_SIZE)
    window = source.window(first, end + TRAILER_SIZE - first)
    found = [
        _ends_in(window, place, at, min(at + _TRAILER_STEP, end)) for at in range(begin, end, _TRAILER_STEP)
    ]
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def _ends_in(window: Window, place: int, begin: int, end: int) -> Integers:
    """The same for those whose trailers are in this part."""
    array: Bytes = window.array
    base = window.begin
    trailers: npt.NDArray[np.int64] = np.flatnonzero(array[begin - base : end - base] <= 1) + begin
    wholes = numbers_at(array, trailers - base)
    tags = trailers - wholes
    possible = (wholes >= TAG_HEADER_SIZE) & (wholes <= TAG_HEADER_SIZE + MAX_PAYLOAD_SIZE)
    possible &= (tags < place) & (tags >= base)
    trailers, wholes, tags = trailers[possible], wholes[possible], tags[possible]
    ends: Integers = trailers[sizes_at(array, tags - base) == wholes - TAG_HEADER_SIZE] + TRAILER_SIZE
    return ends
