"""The FLV file: its header and its tags, written and read."""

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
# Type and size; the lower 24 bits of the timestamp, then the upper 8, which were added in 2005; stream id 0.
_TAG_HEADER = struct.Struct(">II3x")
_TRAILER = struct.Struct(">I")

_SIGNATURE = b"FLV"
_VERSION = 1
_AUDIO_FLAG = 4
_VIDEO_FLAG = 1

_MEDIA_KINDS = {int(kind): kind for kind in MediaKind}


@attrs.frozen
class FlvTag:
    """One tag of a file. The type is the raw byte, so tags of unknown or encrypted types are kept."""

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
        """The media message in this tag; None for other types."""
        kind = self.kind
        return None if kind is None else MediaFrame(kind, self.timestamp_ms, self.payload)


def file_header(has_audio: bool = True, has_video: bool = True) -> bytes:
    """All that comes before the first tag, which includes a "size of the previous tag" of 0."""
    flags = has_audio * _AUDIO_FLAG | has_video * _VIDEO_FLAG
    return _FILE_HEADER.pack(_SIGNATURE, _VERSION, flags, _FILE_HEADER.size) + _TRAILER.pack(0)


def encode_tag(frame: MediaFrame) -> bytes:
    """The frame as a tag, with the size after it."""
    return encode_tags((frame,))


def encode_tags(frames: Iterable[MediaFrame]) -> bytes:
    """The frames as tags, one after the other; each payload is copied once."""
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
    """The size of a payload's tag, with the size after it."""
    return TAG_HEADER_SIZE + len(payload) + TRAILER_SIZE


def tag_trailer(payload_size: int) -> bytes:
    """The size that follows a tag: of its header and payload."""
    return _TRAILER.pack(TAG_HEADER_SIZE + payload_size)


def parse_tag_header(header: bytes) -> tuple[int, int, int]:
    """The type byte, the size of the payload and the timestamp; the header must be whole."""
    type_and_size, timestamp = _TAG_HEADER.unpack(header)
    return type_and_size >> 24, type_and_size & MAX_PAYLOAD_SIZE, (timestamp & 0xFF) << 24 | timestamp >> 8


def read_tags(file: BinaryIO) -> Iterator[FlvTag]:
    """The tags of a file, up to the first one that is not whole.

    A recording whose writer died ends in half a tag, or in zeros after a power cut. That is no error: the
    iteration ends there. A tag is whole if the size after it agrees with the one in front. `rtmprelay.flv.scan`
    also finds the tags after damage.

    Args:
        file: It must be at its beginning.

    Raises:
        BadRecordingError: It is not FLV. A file that is too short to tell has no tags instead.
    """
    begin = _read_file_header(file)
    return iter(()) if begin is None else _read_whole_tags(file, begin)


def _read_file_header(file: BinaryIO) -> int | None:
    """Where the first tag begins; None if the file is cut before that."""
    start = _read_up_to(file, _FILE_HEADER.size)
    expected = _SIGNATURE + bytes([_VERSION])
    if start[:4] != expected[: len(start)]:
        raise BadRecordingError(
            f"This is not an FLV file: it begins with {start!r} and not with {expected!r}."
        )
    if len(start) < _FILE_HEADER.size:
        return None
    _, _, _, size = _FILE_HEADER.unpack(start)
    if not _FILE_HEADER.size <= size <= _MAX_FILE_HEADER_SIZE:
        raise BadRecordingError(f"This is not a usable FLV file: its header claims to have {size} bytes.")
    rest = size - _FILE_HEADER.size + TRAILER_SIZE
    return size + TRAILER_SIZE if len(_read_up_to(file, rest)) == rest else None


def _read_whole_tags(file: BinaryIO, offset: int) -> Iterator[FlvTag]:
    while len(header := _read_up_to(file, TAG_HEADER_SIZE)) == TAG_HEADER_SIZE:
        type_byte, size, timestamp_ms = parse_tag_header(header)
        payload = _read_up_to(file, size)
        if _read_up_to(file, TRAILER_SIZE) != tag_trailer(size):
            return
        tag = FlvTag(offset, type_byte, timestamp_ms, payload)
        yield tag
        offset = tag.end


def _read_up_to(file: BinaryIO, size: int) -> bytes:
    """`size` bytes, or fewer at the end of the file; one read of a pipe may return less."""
    data = file.read(size)
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data
