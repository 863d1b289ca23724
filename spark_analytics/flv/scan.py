"""Goes through a part of a file, tags by the thousand and damage by damage, by the rules of `rtmprelay.flv.scan`.

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

from collections.abc import Iterator

import attrs
import numpy as np
import numpy.typing as npt

from rtmprelay.flv.container import MAX_PAYLOAD_SIZE, TAG_HEADER_SIZE, TRAILER_SIZE, parse_tag_header
from rtmprelay.flv.scan import HARMLESS, DamageKind, has_file_header, judge_damage
from rtmprelay.media import MediaKind
from spark_analytics.flv.sources import Bytes, ByteSource, Window
from spark_analytics.flv.tags import (
    FRAME_SIZE,
    HEAD_SIZE,
    MAX_TAG_SIZE,
    Integers,
    TagArrays,
    follow_sizes,
    gather,
    numbers_at,
    sizes_at,
)

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


#: Tags that are looked at together: enough for numpy, few enough for the caches.
BLOCK_TAGS = 8_192

#: Tags that are looked at after a damage, and twice as many each time that all is well: where one is, others may follow.
_AFTER_DAMAGE = 16

#: Of a tag that says to be larger than this, the end is looked at first.
_LARGE_TAG = 1 << 20

#: Where the tags begin after a file header.
FILE_START = 13

#: How far back to look for a place to begin, where the part itself does not tell.
_STEPS_BACK = (2 * MAX_TAG_SIZE, 8 * MAX_TAG_SIZE, 64 * MAX_TAG_SIZE)


@attrs.frozen(eq=False)
class DamagedPart:
    """A part of a file that holds no whole tag, as `rtmprelay.flv.scan.Damage`.

    Attributes:
        tag: The tag that fills it, if only one of its sizes is wrong.
    """

    kind: DamageKind
    begin: int
    end: int
    tag: TagArrays | None = None

    @property
    def lost_bytes(self) -> int:
        """How many bytes cannot be saved."""
        return 0 if self.kind in HARMLESS else self.end - self.begin


def first_tag(source: ByteSource) -> int:
    """Where the tags begin: after the file header, if there is one."""
    return FILE_START if has_file_header(source.read(0, FILE_START)) else 0


class RangeScanner:
    """All tags and damages that begin in a part of a file.

    Attributes:
        position: How far it is; in the end, where the first tag begins that belongs to the next part.
    """

    def __init__(self, source: ByteSource, begin: int, stop: int, block_tags: int = BLOCK_TAGS) -> None:
        """Begin at a place where a tag begins, or should."""
        self._source = source
        self._stop = min(stop, source.size)
        self._block_tags = block_tags
        self._next_tags = block_tags
        # How many bytes the next tag has, as far as that is known.
        self._needed = FRAME_SIZE
        self.position = begin

    def __iter__(self) -> Iterator[TagArrays | DamagedPart]:
        # Blocks of a few large tags are handed on together: what is done with them takes its time for each lot.
        waiting: list[TagArrays] = []
        for found in self._found():
            if isinstance(found, TagArrays):
                waiting.append(found)
                if 2 * sum(map(len, waiting)) < self._block_tags:
                    continue
            if waiting:
                yield TagArrays.joined(waiting)
                waiting = []
            if isinstance(found, DamagedPart):
                yield found
        if waiting:
            yield TagArrays.joined(waiting)

    def _found(self) -> Iterator[TagArrays | DamagedPart]:
        while self.position < self._stop:
            # With a few bytes before: what stands before a tag is looked at together with it.
            window = self._source.window(self.position - HEAD_SIZE, self._needed + HEAD_SIZE)
            tags, broken = self._whole_tags(window)
            if len(tags):
                self.position = int(tags.offsets[-1] + tags.sizes[-1]) + FRAME_SIZE
                yield tags
            if broken:
                damage = self._damage_at(self.position)
                self.position, self._needed = damage.end, FRAME_SIZE
                self._next_tags = min(_AFTER_DAMAGE, self._block_tags)
                yield damage

    def _whole_tags(self, window: Window) -> tuple[TagArrays, bool]:
        """The tags from here on, as far as the window goes; and whether there surely is none after them."""
        places, end = follow_sizes(window, self.position, self._stop, self._next_tags)
        self._next_tags = min(2 * self._next_tags, self._block_tags)
        is_last = window.end == self._source.size
        self._needed = FRAME_SIZE
        if len(places) and end > window.end:
            # The window ends inside of this tag.
            self._needed = end - int(places[-1])
            broken = is_last or not self._may_be_whole(end)
            places, end = places[:-1], int(places[-1])
        else:
            broken = is_last and not len(places)
        tags, trailers = gather(window, places, end)
        wrong = np.flatnonzero(trailers != tags.sizes + TAG_HEADER_SIZE)
        return (tags.first(int(wrong[0])), True) if len(wrong) else (tags, broken)

    def _may_be_whole(self, end: int) -> bool:
        """Whether the next tag is worth being read. To read 16 MiB for each one that lies about its size would take long."""
        if self._needed < _LARGE_TAG:
            return True
        size = self._needed - FRAME_SIZE + TAG_HEADER_SIZE
        return self._source.read(end - TRAILER_SIZE, TRAILER_SIZE) == size.to_bytes(TRAILER_SIZE, "big")

    def _damage_at(self, begin: int) -> DamagedPart:
        source = self._source
        found = find_start(source, begin + 1, source.size)
        end = source.size if found is None else found
        kind, _ = judge_damage(source.read, begin, end, found is None)
        if kind not in HARMLESS:
            return DamagedPart(kind, begin, end)
        size = end - begin - FRAME_SIZE
        header = source.read(begin, TAG_HEADER_SIZE)
        type_byte, _, timestamp_ms = parse_tag_header(header)
        head = source.read(begin + TAG_HEADER_SIZE, min(size, HEAD_SIZE)).ljust(HEAD_SIZE, b"\0")
        tag = TagArrays(
            np.array([begin], np.int64),
            np.array([type_byte], np.uint8),
            np.array([size], np.int64),
            np.array([timestamp_ms], np.int64),
            np.frombuffer(head, np.uint8).reshape(1, HEAD_SIZE),
        )
        return DamagedPart(kind, begin, end, tag)


def start_of_part(source: ByteSource, lo: int, hi: int) -> int:
    """The first tag, or damage, of the sequence that begins in this part of a file; `hi` if none does.

    See `spark_analytics.flv.scan` for why this is right without reading what is before.
    """
    begin = first_tag(source)
    if lo <= begin:
        return min(begin, hi)
    sure = _sure_start(source, lo, hi)
    if sure is not None:
        return sure
    for distance in _STEPS_BACK:
        earlier = lo - distance
        if earlier <= begin:
            break
        anchor = _sure_start(source, earlier, lo)
        if anchor is not None:
            return _follow(source, anchor, lo, hi)
    return _follow(source, begin, lo, hi)


def _sure_start(source: ByteSource, lo: int, hi: int) -> int | None:
    """The start if it is beyond doubt; `hi` if it surely is not before that."""
    start = find_start(source, lo, hi)
    ends = ends_of_tags_across(source, lo)
    if start is None:
        return hi if bool(np.all(ends >= hi)) else None
    return start if bool(np.all(ends == start)) else None


def _follow(source: ByteSource, begin: int, lo: int, hi: int) -> int:
    scanner = RangeScanner(source, begin, lo)
    for _ in scanner:
        pass
    return min(scanner.position, hi)
