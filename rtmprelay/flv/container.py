"""The FLV file: its header, its tags, and how to read what a crash left of one."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import attrs

from rtmprelay.errors import BadRecordingError, LocalProtocolError
from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind

#: The size of a tag has 24 bits.
MAX_PAYLOAD_SIZE = 0xFFFFFF

TAG_HEADER_SIZE = 11
TRAILER_SIZE = 4

#: A file header is 9 bytes; the format lets it grow, but no writer is known that does.
_MAX_FILE_HEADER_SIZE = 1024

_FILE_HEADER = struct.Struct(">3sBBI")
# Type and size; the lower 24 bits of the timestamp and then, as an afterthought of 2005, the upper 8;
# stream id 0.
_TAG_HEADER = struct.Struct(">II3x")
_TRAILER = struct.Struct(">I")

_SIGNATURE = b"FLV"
_VERSION = 1
_AUDIO_FLAG = 4
_VIDEO_FLAG = 1

_MEDIA_KINDS = {int(kind): kind for kind in MediaKind}


@attrs.frozen
class FlvTag:
    """One tag of a file. The type is the raw byte, so that tags of unknown or encrypted types survive."""

    offset: int
    type_byte: int
    timestamp_ms: int
    payload: bytes

    @property
    def kind(self) -> MediaKind | None:
        """What the tag carries; None for types that are neither audio, video nor script data."""
        return _MEDIA_KINDS.get(self.type_byte)

    @property
    def end(self) -> int:
        """The offset of the next tag."""
        return self.offset + tag_size(self.payload)

    def to_frame(self) -> MediaFrame | None:
        """The media message in this tag, if it is one."""
        kind = self.kind
        return None if kind is None else MediaFrame(kind, self.timestamp_ms, self.payload)


def file_header(has_audio: bool = True, has_video: bool = True) -> bytes:
    """What comes before the first tag, its leading "size of the previous tag" included."""
    flags = has_audio * _AUDIO_FLAG | has_video * _VIDEO_FLAG
    return _FILE_HEADER.pack(_SIGNATURE, _VERSION, flags, _FILE_HEADER.size) + _TRAILER.pack(0)


def encode_tag(frame: MediaFrame) -> bytes:
    """The frame as a tag, its size behind it."""
    return encode_tags((frame,))


def encode_tags(frames: Iterable[MediaFrame]) -> bytes:
    """The frames as tags, one behind the other; each payload is copied once."""
    parts: list[bytes] = []
    for frame in frames:
        payload = frame.payload
        size = len(payload)
        if size > MAX_PAYLOAD_SIZE:
            raise LocalProtocolError(
                f"An FLV tag holds at most {MAX_PAYLOAD_SIZE} bytes; this frame has {size}."
            )
        timestamp = frame.timestamp_ms % TIMESTAMP_MODULUS
        header = _TAG_HEADER.pack(frame.kind << 24 | size, (timestamp & 0xFFFFFF) << 8 | timestamp >> 24)
        parts += (header, payload, _TRAILER.pack(TAG_HEADER_SIZE + size))
    return b"".join(parts)


def tag_size(payload: bytes) -> int:
    """How many bytes the tag of a payload has, the size behind it included."""
    return TAG_HEADER_SIZE + len(payload) + TRAILER_SIZE


def parse_tag_header(header: bytes) -> tuple[int, int, int]:
    """The type byte, the size of the payload and the timestamp of a tag; the header must be whole."""
    type_and_size, timestamp = _TAG_HEADER.unpack(header)
    return type_and_size >> 24, type_and_size & MAX_PAYLOAD_SIZE, (timestamp & 0xFF) << 24 | timestamp >> 8


class TagReader(Iterator[FlvTag]):
    """Reads the tags of a file one by one, as far as they are whole.

    A recording whose writer died ends in half a tag, or in zeros after a power cut. That is no
    error: the iteration ends there, `truncated` becomes True and `good_until` is the size to cut
    the file to. A tag counts as whole if the size behind it agrees with the one in front.

    Attributes:
        good_until: Where the last whole tag, or before any tag the file header, ends.
        truncated: Whether bytes that are no whole tag follow; meaningful when the iteration is over.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Read the file header; the file must be at its beginning.

        Raises:
            BadRecordingError: It is not FLV. A file that is too short to tell is truncated instead.
        """
        self.good_until = 0
        self.truncated = False
        self.has_audio = False
        self.has_video = False
        self._file = file
        self._over = False
        self._read_file_header()

    def __next__(self) -> FlvTag:
        tag = None if self._over else self._read_tag()
        if tag is None:
            self._over = True
            raise StopIteration
        self.good_until = tag.end
        return tag

    def _read_file_header(self) -> None:
        start = _read_up_to(self._file, _FILE_HEADER.size)
        expected = _SIGNATURE + bytes([_VERSION])
        if start[:4] != expected[: len(start)]:
            raise BadRecordingError(
                f"This is not an FLV file: it begins with {start!r} and not with {expected!r}."
            )
        if len(start) < _FILE_HEADER.size:
            return self._stop_torn()
        _, _, flags, size = _FILE_HEADER.unpack(start)
        if not _FILE_HEADER.size <= size <= _MAX_FILE_HEADER_SIZE:
            raise BadRecordingError(f"This is not a usable FLV file: its header claims to have {size} bytes.")
        rest = size - _FILE_HEADER.size + TRAILER_SIZE
        if len(_read_up_to(self._file, rest)) < rest:
            return self._stop_torn()
        self.has_audio = bool(flags & _AUDIO_FLAG)
        self.has_video = bool(flags & _VIDEO_FLAG)
        self.good_until = size + TRAILER_SIZE

    def _read_tag(self) -> FlvTag | None:
        header = _read_up_to(self._file, TAG_HEADER_SIZE)
        if not header:
            return None
        if len(header) < TAG_HEADER_SIZE:
            self._stop_torn()
            return None
        type_byte, size, timestamp_ms = parse_tag_header(header)
        payload = _read_up_to(self._file, size)
        if _read_up_to(self._file, TRAILER_SIZE) != _TRAILER.pack(TAG_HEADER_SIZE + size):
            self._stop_torn()
            return None
        return FlvTag(
            offset=self.good_until,
            type_byte=type_byte,
            timestamp_ms=timestamp_ms,
            payload=payload,
        )

    def _stop_torn(self) -> None:
        self.truncated = self._over = True


def read_tags(file: BinaryIO) -> TagReader:
    """Read the tags of an FLV file; see `TagReader` for torn files."""
    return TagReader(file)


def _read_up_to(file: BinaryIO, size: int) -> bytes:
    """Exactly so many bytes, or fewer at the end of the file; one read of a pipe may give less."""
    data = file.read(size)
    while len(data) < size:
        more = file.read(size - len(data))
        if not more:
            break
        data += more
    return data
