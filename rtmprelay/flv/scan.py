"""Finds the whole tags of any file that was FLV once, however much of it is damaged.

A tag is whole if the size behind it agrees with the one in front, wherever the tag before it ended. Where none is, the
file is damaged up to the next place that begins a whole tag of a known type and of stream 0. If the size behind the damage is
that of all of it, or the size in front of it leads to its end, only the other size is wrong and the tag is good.

So what follows a place depends on the bytes behind it and on nothing before it. `spark_analytics` builds on that when
it reads one file in many places at once, with the same rules.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from enum import Enum

import attrs

from rtmprelay.errors import BadRecordingError
from rtmprelay.flv.container import (
    MAX_PAYLOAD_SIZE,
    TAG_HEADER_SIZE,
    TRAILER_SIZE,
    FlvTag,
    parse_tag_header,
)

#: How much of the file is in memory at a time, besides one tag.
_WINDOW_SIZE = 4 * 1024 * 1024

#: The start of a tag: audio, video or script data, size and time of any value, stream 0. Together with the size
#: behind it that is 8 bytes that must be right, which does not happen by chance. A publisher can put whole tags into a
#: payload on purpose, and then any number of them in a row; so asking for more than one would only lose good ones.
TAG_START = re.compile(rb"(?=[\x08\x09\x12].{7}\0\0\0)", re.DOTALL)

_FILE_HEADER_SIZE = 9

#: So many zeros at the end are no payload.
_ZERO_RUN = 16


class DamageKind(Enum):
    """What is wrong with a part of a file."""

    TORN_TAIL = "a torn tag at the end"
    ZERO_TAIL = "zeros at the end"
    GARBAGE = "damage"
    WRONG_SIZE = "a tag whose size in front is wrong"
    WRONG_TRAILER = "a tag whose size behind it is wrong"


#: Nothing is lost: a tag fills the part.
HARMLESS = frozenset({DamageKind.WRONG_SIZE, DamageKind.WRONG_TRAILER})


@attrs.frozen
class Damage:
    """A part of a file that holds no whole tag.

    Attributes:
        timestamp_ms: The time of the tag that was cut off, if its header is left.
        tag: The tag that fills this part, if only one of its sizes is wrong: nothing is lost then.
    """

    kind: DamageKind
    begin: int
    end: int
    timestamp_ms: int | None = None
    tag: FlvTag | None = None

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.end - self.begin

    @property
    def lost_bytes(self) -> int:
        """How many of them cannot be saved."""
        return 0 if self.kind in HARMLESS else self.size


class WindowedFile:
    """Random access to a file of any size in little memory. It may grow meanwhile; that is not looked at."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self._window = b""
        self._begin = 0

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes from here on, or fewer at the end of the file."""
        begin = offset - self._begin
        if begin < 0 or begin + size > len(self._window):
            self._load(offset, size)
            begin = 0
        return self._window[begin : begin + size]

    def peek(self, offset: int, size: int) -> bytes:
        """The same for a few bytes anywhere, without moving the window there."""
        begin = offset - self._begin
        if begin >= 0 and begin + size <= len(self._window):
            return self._window[begin : begin + size]
        return os.pread(self._descriptor, size, offset)

    def _load(self, offset: int, size: int) -> None:
        wanted = min(max(size, _WINDOW_SIZE), max(0, self.size - offset))
        parts: list[bytes] = []
        at = offset
        while wanted > 0:
            part = os.pread(self._descriptor, wanted, at)
            if not part:
                break
            parts.append(part)
            wanted -= len(part)
            at += len(part)
        self._window = b"".join(parts)
        self._begin = offset


class TagScanner:
    """Goes through a file, tag by tag and damage by damage.

    Attributes:
        first_tag: Where tags begin, if the file header is whole.
    """

    def __init__(self, file: WindowedFile, progress: Callable[[int], None] = lambda _: None) -> None:
        """Look at the file header.

        Raises:
            BadRecordingError: This is no FLV file, not even a damaged one.
        """
        self._file = file
        self._progress = progress
        start = file.read(0, _FILE_HEADER_SIZE + TRAILER_SIZE)
        self.has_header = has_file_header(start)
        self.flags = start[4] if self.has_header else 0
        self.first_tag = len(start) if self.has_header else 0
        if not self.has_header and not start.startswith(b"FLV") and self._resynchronise(0) is None:
            raise BadRecordingError("This is not an FLV file, and no FLV tags are in it.")

    def __iter__(self) -> Iterator[FlvTag | Damage]:
        at, size = self.first_tag, self._file.size
        while at < size:
            self._progress(at)
            tag = self._tag_at(at)
            if tag is not None:
                yield tag
                at = tag.end
                continue
            found = self._resynchronise(at + 1)
            yield self._describe(at, found)
            at = size if found is None else found
        self._progress(size)

    def _end_of_tag_at(self, at: int) -> int | None:
        """Where the tag that begins here ends; None if it is not whole."""
        header = self._file.peek(at, TAG_HEADER_SIZE)
        if len(header) < TAG_HEADER_SIZE:
            return None
        size = TAG_HEADER_SIZE + int.from_bytes(header[1:4], "big")
        trailer = self._file.peek(at + size, TRAILER_SIZE)
        return at + size + TRAILER_SIZE if trailer == size.to_bytes(TRAILER_SIZE, "big") else None

    def _tag_at(self, at: int) -> FlvTag | None:
        header = self._file.read(at, TAG_HEADER_SIZE)
        if len(header) < TAG_HEADER_SIZE:
            return None
        type_byte, size, timestamp_ms = parse_tag_header(header)
        rest = self._file.read(at + TAG_HEADER_SIZE, size + TRAILER_SIZE)
        if rest[size:] != (TAG_HEADER_SIZE + size).to_bytes(TRAILER_SIZE, "big"):
            return None
        return FlvTag(at, type_byte, timestamp_ms, rest[:size])

    # -- behind damage ---------------------------------------------------------------------------------------

    def _resynchronise(self, begin: int) -> int | None:
        """The next place from which the sizes behind the tags agree with those in front of them."""
        overlap = TAG_HEADER_SIZE - 1
        while begin + TAG_HEADER_SIZE <= self._file.size:
            self._progress(begin)
            window = self._file.read(begin, _WINDOW_SIZE)
            for match in TAG_START.finditer(window):
                if self._end_of_tag_at(begin + match.start()) is not None:
                    return begin + match.start()
            begin += max(1, len(window) - overlap)
        return None

    def _describe(self, begin: int, found: int | None) -> Damage:
        """What is between two places where tags begin, or could; or up to the end, where none does."""
        end = self._file.size if found is None else found
        kind, timestamp_ms = judge_damage(self._file.peek, begin, end, found is None)
        if kind not in HARMLESS:
            return Damage(kind, begin, end, timestamp_ms if found is None else None)
        header = self._file.read(begin, TAG_HEADER_SIZE)
        payload = self._file.read(begin + TAG_HEADER_SIZE, end - begin - TAG_HEADER_SIZE - TRAILER_SIZE)
        type_byte, _, timestamp_ms = parse_tag_header(header)
        return Damage(kind, begin, end, tag=FlvTag(begin, type_byte, timestamp_ms, payload))


def has_file_header(start: bytes) -> bool:
    """Whether a file that starts with these bytes has a file header, behind which the tags begin."""
    return start.startswith(b"FLV\x01") and start[5:13] == b"\0\0\0\x09\0\0\0\0"


def judge_damage(
    read: Callable[[int, int], bytes], begin: int, end: int, at_end: bool
) -> tuple[DamageKind, int | None]:
    """What a part of a file is that begins where a tag should, and the timestamp of that tag if it can be told.

    Args:
        read: Gives the bytes at an offset of the file, so many of them.
        at_end: The file ends there; otherwise a whole tag follows.
    """
    header = read(begin, TAG_HEADER_SIZE)
    if not TAG_START.match(header):
        torn = len(header) < TAG_HEADER_SIZE
        return _judge_tail(read, begin, end, torn) if at_end else DamageKind.GARBAGE, None
    _, size, timestamp_ms = parse_tag_header(header)
    whole = end - begin - TRAILER_SIZE
    if at_end:
        return _judge_tail(read, begin, end, TAG_HEADER_SIZE + size > whole), timestamp_ms
    if 0 <= whole - TAG_HEADER_SIZE <= MAX_PAYLOAD_SIZE:
        if read(end - TRAILER_SIZE, TRAILER_SIZE) == whole.to_bytes(TRAILER_SIZE, "big"):
            return DamageKind.WRONG_SIZE, timestamp_ms
        if TAG_HEADER_SIZE + size == whole:
            return DamageKind.WRONG_TRAILER, timestamp_ms
    return DamageKind.GARBAGE, timestamp_ms


def _judge_tail(read: Callable[[int, int], bytes], begin: int, end: int, torn: bool) -> DamageKind:
    if not read(max(begin, end - _ZERO_RUN), min(_ZERO_RUN, end - begin)).strip(b"\0"):
        # A power cut leaves zeros, be it behind half a tag.
        return DamageKind.ZERO_TAIL
    return DamageKind.TORN_TAIL if torn else DamageKind.GARBAGE
