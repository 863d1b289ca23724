"""Finds the whole tags of any file that was FLV once, however much of it is damaged."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from enum import Enum

import attrs

from rtmprelay.errors import BadRecordingError
from rtmprelay.flv.container import (
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
_TAG_START = re.compile(rb"(?=[\x08\x09\x12].{7}\0\0\0)", re.DOTALL)

_FILE_HEADER_SIZE = 9


class DamageKind(Enum):
    """What is wrong with a part of a file."""

    TORN_TAIL = "a torn tag at the end"
    ZERO_TAIL = "zeros at the end"
    GARBAGE = "damage"


@attrs.frozen
class Damage:
    """A part of a file that holds no whole tag.

    Attributes:
        timestamp_ms: The time of the tag that was cut off, if its header is left.
    """

    kind: DamageKind
    begin: int
    end: int
    timestamp_ms: int | None = None

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.end - self.begin


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
        self.has_header = start.startswith(b"FLV\x01") and start[5:] == b"\0\0\0\x09\0\0\0\0"
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
            yield self._describe(at, size) if found is None else Damage(DamageKind.GARBAGE, at, found)
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
            for match in _TAG_START.finditer(window):
                if self._end_of_tag_at(begin + match.start()) is not None:
                    return begin + match.start()
            begin += max(1, len(window) - overlap)
        return None

    def _describe(self, begin: int, end: int) -> Damage:
        """What is left at the end."""
        if self._is_zero(begin, end):
            return Damage(DamageKind.ZERO_TAIL, begin, end)
        header = self._file.read(begin, TAG_HEADER_SIZE)
        if len(header) == TAG_HEADER_SIZE and _TAG_START.match(header):
            return Damage(DamageKind.TORN_TAIL, begin, end, parse_tag_header(header)[2])
        return Damage(DamageKind.TORN_TAIL, begin, end)

    def _is_zero(self, begin: int, end: int) -> bool:
        while begin < end:
            window = self._file.read(begin, min(_WINDOW_SIZE, end - begin))
            if not window or window.strip(b"\0"):
                return False
            begin += len(window)
        return True
