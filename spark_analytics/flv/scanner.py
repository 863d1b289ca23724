"""Goes through a part of a file, tags by the thousand and damage by damage, by the rules of `rtmprelay.flv.scan`."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from rtmprelay.flv.container import TAG_HEADER_SIZE, TRAILER_SIZE, parse_tag_header
from rtmprelay.flv.scan import HARMLESS, DamageKind, has_file_header, judge_damage
from spark_analytics.flv.sources import ByteSource, Window
from spark_analytics.flv.sync import ends_of_tags_across, find_start
from spark_analytics.flv.tags import (
    FRAME_SIZE,
    HEAD_SIZE,
    MAX_TAG_SIZE,
    TagArrays,
    follow_sizes,
    gather,
)

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

    See `spark_analytics.flv.sync` for why this is right without reading what is before.
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
