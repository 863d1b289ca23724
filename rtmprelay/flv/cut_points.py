"""Where a recording can be cut, and where it ends: from the keyframe index in the file, and without one from the tags' headers.

Nothing but the beginning of the file and headers of tags is read. A file that grows is looked at again from where the last
look ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import attrs

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import BadRecordingError
from rtmprelay.flv.container import (
    TAG_HEADER_SIZE,
    TRAILER_SIZE,
    FlvTag,
    parse_tag_header,
    tag_size,
    tag_trailer,
)
from rtmprelay.flv.scan import has_file_header
from rtmprelay.flv.script import decode_metadata
from rtmprelay.flv.tags import TagInfo, describe_audio, describe_video
from rtmprelay.media import TIMESTAMP_MODULUS, MediaKind, milliseconds_between

#: Reads so many bytes at an offset, or fewer at the end of the file.
Read = Callable[[int, int], bytes]

#: Milliseconds between two cuts at least: shorter segments cost more requests and save nothing.
SPACING_MS = 4000

#: Tags that are looked at for a file without an index: eight hours at 70 a second.
MAX_TAGS = 2_000_000

#: Cuts in memory for one file: two days.
_MAX_POINTS = 50_000

_FILE_HEADER_SIZE = 13

#: Bytes of a payload that tell what it is, for all but payloads with several tracks.
_ENOUGH = 48

#: Tags before the first coded frame of a file whose index is used: metadata and decoder configurations.
_MAX_BEFORE_MEDIA = 1000

#: The metadata with the index may have this many bytes; a publisher may have sent anything.
_MAX_METADATA = 4 * 1024 * 1024


class TooLongError(Exception):
    """A file without an index has more tags than are looked at."""


@attrs.frozen
class CutPoint:
    """A tag at which a part may begin, and its time since the beginning of the file in milliseconds."""

    time_ms: int
    position: int


@attrs.frozen
class FilePart:
    """The tags from `begin` up to `end`, which can be decoded without those before."""

    begin: int
    end: int
    time_ms: int
    duration_ms: int


class CutPoints:
    """What is known of one file. `look` learns more; everything else only reads.

    Attributes:
        first_tag: Where the first tag begins.
        metadata: The values of its onMetaData tag.
        begin_ms: The timestamp that is time zero; None while the file has no coded frame.
        end: Where the last whole tag ends, as far as the file was looked at.
        end_ms: The time of the newest frame.
    """

    def __init__(self, read: Read) -> None:
        """Read the beginning of a file.

        Raises:
            BadRecordingError: It is no FLV file.
        """
        start = read(0, _FILE_HEADER_SIZE)
        if not has_file_header(start):
            raise BadRecordingError("This is not an FLV file.")
        self.first_tag = _FILE_HEADER_SIZE
        self.metadata = _read_metadata(read, self.first_tag)
        self.begin_ms: int | None = None
        self.end = self.first_tag
        self.end_ms = 0
        self._keyframes: list[CutPoint] = []
        # For files without pictures, which may be cut anywhere.
        self._sounds: list[CutPoint] = []
        self._newest = 0
        self._newest_ms = 0
        self._has_pictures = False
        self._looked_at = 0

    # -- looking ---------------------------------------------------------------------------------------------

    def use_index(self, read: Read, size: int) -> None:
        """Take the keyframes from the index, if it is true of this file, and go on looking at the last one of them."""
        index = _read_index(self.metadata, self.first_tag, size)
        if not index:
            return
        last_ms, position = index[-1]
        tag = _read_header(read, position)
        if tag is None or tag[0] != MediaKind.VIDEO or abs(milliseconds_between(last_ms, tag[2])) > 1:
            return
        for _ in range(_MAX_BEFORE_MEDIA):
            if self.begin_ms is not None or self.look(read, size, 1):
                break
        begin_ms = self.begin_ms
        if begin_ms is None:
            return
        self._has_pictures = True
        self._keyframes.clear()
        for time_ms, at in index:
            self._add(self._keyframes, CutPoint(max(0, time_ms - begin_ms), at))
        # The last entry was perhaps too near to the one before, but what follows it must be looked at.
        self.end = position
        self._newest, self._newest_ms = tag[2], max(0, last_ms - begin_ms)
        self.end_ms = self._newest_ms

    def look(self, read: Read, size: int, most: int) -> bool:
        """Look at tags up to the end of the file, at most `most` of them. Returns whether the end was reached.

        Raises:
            TooLongError: The file has too many tags.
        """
        at = self.end
        data = read(at, TAG_HEADER_SIZE + _ENOUGH)
        for _ in range(most):
            if len(data) < TAG_HEADER_SIZE:
                return True
            type_byte, payload_size, timestamp_ms = parse_tag_header(data[:TAG_HEADER_SIZE])
            end = at + TAG_HEADER_SIZE + payload_size + TRAILER_SIZE
            if end > size:
                return True
            following = read(end - TRAILER_SIZE, TRAILER_SIZE + TAG_HEADER_SIZE + _ENOUGH)
            if following[:TRAILER_SIZE] != tag_trailer(payload_size):
                return True
            self._looked_at += 1
            if self._looked_at > MAX_TAGS:
                raise TooLongError
            start = data[TAG_HEADER_SIZE : TAG_HEADER_SIZE + payload_size]
            info = _describe(type_byte, start)
            if info is not None and info.codec is None and payload_size > len(start):
                # Several tracks in one payload: only the whole of it can be understood.
                info = _describe(type_byte, read(at + TAG_HEADER_SIZE, payload_size))
            if info is not None and info.coded and payload_size:
                self._note(type_byte, info, timestamp_ms, at)
            self.end = at = end
            data = following[TRAILER_SIZE:]
        return False

    def _note(self, type_byte: int, info: TagInfo, timestamp_ms: int, position: int) -> None:
        if self.begin_ms is None:
            self.begin_ms = self._newest = timestamp_ms
        self._newest_ms += milliseconds_between(self._newest, timestamp_ms)
        self._newest = timestamp_ms
        time_ms = self._newest_ms
        self.end_ms = max(self.end_ms, time_ms)
        if type_byte == MediaKind.VIDEO:
            self._has_pictures = True
            if info.keyframe:
                self._add(self._keyframes, CutPoint(time_ms, position))
        elif not self._has_pictures:
            self._add(self._sounds, CutPoint(time_ms, position))

    @staticmethod
    def _add(points: list[CutPoint], point: CutPoint) -> None:
        spacing_ok = not points or point.time_ms >= points[-1].time_ms + SPACING_MS
        if spacing_ok and len(points) < _MAX_POINTS:
            points.append(point)

    # -- what was found --------------------------------------------------------------------------------------

    def parts(self) -> Iterator[FilePart]:
        """All parts, one after the other without a gap. The last one ends with the file, which may be still growing."""
        points = self._keyframes if self._has_pictures else self._sounds
        if self.begin_ms is None:
            return
        # The first part has what comes before the first keyframe: the decoder configuration, and sound.
        starts = [CutPoint(0, self.first_tag)]
        starts += [point for point in points[1:] if point.time_ms >= 1]
        ends = CutPoint(max(self.end_ms, starts[-1].time_ms + 1), self.end)
        for here, following in pairwise([*starts, ends]):
            yield FilePart(here.position, following.position, here.time_ms, following.time_ms - here.time_ms)


def read_tags_at(read: Read, position: int, most_bytes: int, end: int) -> tuple[list[FlvTag], int]:
    """The whole tags from a position on, at least one of them and otherwise about so many bytes; and where they end.

    There are none if no whole tag begins there.
    """
    data = read(position, min(max(most_bytes, TAG_HEADER_SIZE), end - position))
    tags: list[FlvTag] = []
    at = 0
    while position + at < end:
        header = data[at : at + TAG_HEADER_SIZE]
        if len(header) < TAG_HEADER_SIZE:
            break
        type_byte, size, timestamp_ms = parse_tag_header(header)
        rest = data[at + TAG_HEADER_SIZE : at + TAG_HEADER_SIZE + size + TRAILER_SIZE]
        if len(rest) < size + TRAILER_SIZE:
            if tags or len(data) >= min(TAG_HEADER_SIZE + size + TRAILER_SIZE, end - position):
                break
            data = read(position, min(TAG_HEADER_SIZE + size + TRAILER_SIZE, end - position))
            rest = data[TAG_HEADER_SIZE:]
        if rest[size : size + TRAILER_SIZE] != tag_trailer(size):
            break
        tags.append(FlvTag(position + at, type_byte, timestamp_ms, rest[:size]))
        at += tag_size(rest[:size])
    return tags, position + at


def _describe(type_byte: int, payload: bytes) -> TagInfo | None:
    if type_byte == MediaKind.VIDEO:
        return describe_video(payload)
    if type_byte == MediaKind.AUDIO:
        return describe_audio(payload)
    return None


def _read_header(read: Read, position: int) -> tuple[int, int, int] | None:
    """Type, size of the payload and timestamp of a whole tag."""
    header = read(position, TAG_HEADER_SIZE)
    if len(header) < TAG_HEADER_SIZE:
        return None
    type_byte, size, timestamp_ms = parse_tag_header(header)
    whole = read(position + TAG_HEADER_SIZE + size, TRAILER_SIZE) == tag_trailer(size)
    return (type_byte, size, timestamp_ms) if whole else None


def _read_metadata(read: Read, position: int) -> Mapping[str, AmfValue]:
    header = read(position, TAG_HEADER_SIZE)
    if len(header) < TAG_HEADER_SIZE:
        return {}
    type_byte, size, _ = parse_tag_header(header)
    if type_byte != MediaKind.DATA or size > _MAX_METADATA:
        return {}
    return decode_metadata(read(position + TAG_HEADER_SIZE, size)) or {}


def _read_index(metadata: Mapping[str, AmfValue], first_tag: int, size: int) -> list[tuple[int, int]]:
    """Times in milliseconds and positions of the keyframes that lie in the file; none if the index makes no sense."""
    index = metadata.get("keyframes")
    if not isinstance(index, dict):
        return []
    times, positions = index.get("times"), index.get("filepositions")
    if not isinstance(times, list) or not isinstance(positions, list) or len(times) != len(positions):
        return []
    found: list[tuple[int, int]] = []
    for time, position in zip(times, positions, strict=True):
        if not isinstance(time, float) or not isinstance(position, float):
            return []
        if not (0 <= time < TIMESTAMP_MODULUS and 0 <= position < 2**53):
            return []
        if position < size:
            found.append((round(time * 1000), int(position)))
    rising = all(one[0] <= other[0] and one[1] < other[1] for one, other in pairwise(found))
    return found if rising and (not found or found[0][1] >= first_tag) else []
