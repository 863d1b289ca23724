"""Finds the whole tags in a damaged FLV file.

A tag is whole if the size after it agrees with the one in front, wherever the tag before it ended. Where there is no whole
tag, the file is damaged up to the next place where a whole tag of a known type and of stream 0 begins. If the size at the
end of the damage covers all of it, or the size at its beginning leads to its end, only the other size is wrong and the tag
is good.

So what a place in the file is depends on the bytes after it and on nothing before it. `spark_analytics` relies on that when
it reads one file in many places at once, by the same rules.
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
    tag_trailer,
)

#: How much of the file is in memory at a time, besides one tag.
_WINDOW_SIZE = 4 * 1024 * 1024

#: The start of a tag: audio, video or script data, size and time of any value, stream 0. Together with the size
#: after it that is 8 bytes that must be right, which does not happen by chance. A publisher can put whole tags into a
#: payload on purpose, and then any number of them in a row, so requiring more than one would only lose good ones.
_TAG_START = re.compile(rb"(?=[\x08\x09\x12].{7}\0\0\0)", re.DOTALL)

_FILE_HEADER_SIZE = 9

#: This many zeros at the end are no payload.
_ZERO_RUN = 16


class DamageKind(Enum):
    """What is wrong with a part of a file."""

    TORN_TAIL = "a torn tag at the end"
    ZERO_TAIL = "zeros at the end"
    GARBAGE = "damage"
    WRONG_SIZE = "a tag with a wrong size in front"
    WRONG_TRAILER = "a tag with a wrong size after it"


#: Nothing is lost: the part is one tag.
HARMLESS = frozenset({DamageKind.WRONG_SIZE, DamageKind.WRONG_TRAILER})


@attrs.frozen
class Damage:
    """A part of a file that holds no whole tag.

    Attributes:
        timestamp_ms: The time of the tag that was cut off, if its header is left.
        tag: The tag that this part is, if only one of its sizes is wrong.
    """

    kind: DamageKind
    begin: int
    end: int
    timestamp_ms: int | None = None
    tag: FlvTag | None = None

    @property
    def size(self) -> int:
        return self.end - self.begin

    @property
    def lost_bytes(self) -> int:
        """How many of its bytes cannot be saved."""
        return 0 if self.kind in HARMLESS else self.size


class WindowedFile:
    """Random access to a file of any size in little memory. What is appended after it was opened is ignored."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self._window = b""
        self._begin = 0

    def read(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset` on, or fewer at the end of the file."""
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
        while wanted > 0 and (part := os.pread(self._descriptor, wanted, at)):
            parts.append(part)
            wanted -= len(part)
            at += len(part)
        self._window = b"".join(parts)
        self._begin = offset


class TagScanner:
    """Goes through a file, tag by tag and damage by damage.

    Attributes:
        has_header: Whether the file header is whole.
        flags: What the file header says of audio and video.
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
        if not self.has_header and not start.startswith(b"FLV") and self._next_whole_tag(0) is None:
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
            following = self._next_whole_tag(at + 1)
            yield self._damage(at, following)
            at = size if following is None else following
        self._progress(size)

    def _tag_at(self, at: int) -> FlvTag | None:
        header = self._file.read(at, TAG_HEADER_SIZE)
        if len(header) < TAG_HEADER_SIZE:
            return None
        type_byte, size, timestamp_ms = parse_tag_header(header)
        rest = self._file.read(at + TAG_HEADER_SIZE, size + TRAILER_SIZE)
        return FlvTag(at, type_byte, timestamp_ms, rest[:size]) if rest[size:] == tag_trailer(size) else None

    def _is_whole(self, at: int) -> bool:
        """Whether the tag that begins here is whole; the window stays where it is."""
        size = int.from_bytes(self._file.peek(at + 1, 3))
        return self._file.peek(at + TAG_HEADER_SIZE + size, TRAILER_SIZE) == tag_trailer(size)

    def _next_whole_tag(self, begin: int) -> int | None:
        """Where the next whole tag begins."""
        overlap = TAG_HEADER_SIZE - 1
        while begin + TAG_HEADER_SIZE <= self._file.size:
            self._progress(begin)
            window = self._file.read(begin, _WINDOW_SIZE)
            for match in _TAG_START.finditer(window):
                if self._is_whole(begin + match.start()):
                    return begin + match.start()
            begin += max(1, len(window) - overlap)
        return None

    def _damage(self, begin: int, following: int | None) -> Damage:
        """The damage up to the following tag, or to the end of the file."""
        end = self._file.size if following is None else following
        kind, timestamp_ms = judge_damage(self._file.peek, begin, end, following is None)
        if kind not in HARMLESS:
            return Damage(kind, begin, end, timestamp_ms if following is None else None)
        header = self._file.read(begin, TAG_HEADER_SIZE)
        payload = self._file.read(begin + TAG_HEADER_SIZE, end - begin - TAG_HEADER_SIZE - TRAILER_SIZE)
        type_byte, _, timestamp_ms = parse_tag_header(header)
        return Damage(kind, begin, end, tag=FlvTag(begin, type_byte, timestamp_ms, payload))


def has_file_header(start: bytes) -> bool:
    """Whether these first bytes of a file are a file header, after which the tags begin."""
    return start.startswith(b"FLV\x01") and start[5:13] == b"\0\0\0\x09\0\0\0\0"


def judge_damage(
    read: Callable[[int, int], bytes], begin: int, end: int, at_end: bool
) -> tuple[DamageKind, int | None]:
    """The kind of damage in a part that begins where a tag should, and the timestamp of that tag if it can be told.

    Args:
        read: Takes an offset in the file and a size, and returns the bytes.
        at_end: The file ends there; otherwise a whole tag follows.
    """
    header = read(begin, TAG_HEADER_SIZE)
    if not _TAG_START.match(header):
        torn = len(header) < TAG_HEADER_SIZE
        return _judge_tail(read, begin, end, torn) if at_end else DamageKind.GARBAGE, None
    _, size, timestamp_ms = parse_tag_header(header)
    payload_size = end - begin - TAG_HEADER_SIZE - TRAILER_SIZE
    if at_end:
        return _judge_tail(read, begin, end, torn=size > payload_size), timestamp_ms
    if 0 <= payload_size <= MAX_PAYLOAD_SIZE:
        if read(end - TRAILER_SIZE, TRAILER_SIZE) == tag_trailer(payload_size):
            return DamageKind.WRONG_SIZE, timestamp_ms
        if size == payload_size:
            return DamageKind.WRONG_TRAILER, timestamp_ms
    return DamageKind.GARBAGE, timestamp_ms


def _judge_tail(read: Callable[[int, int], bytes], begin: int, end: int, torn: bool) -> DamageKind:
    if not read(max(begin, end - _ZERO_RUN), min(_ZERO_RUN, end - begin)).strip(b"\0"):
        # A power cut leaves zeros, sometimes after half a tag.
        return DamageKind.ZERO_TAIL
    return DamageKind.TORN_TAIL if torn else DamageKind.GARBAGE
