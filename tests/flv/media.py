"""Frames and files for the tests of the writer, the scanner and the repair."""

from __future__ import annotations

import io
from collections.abc import Sequence

from hypothesis import strategies as st

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv.container import FlvTag, encode_tag, file_header, read_tags
from rtmprelay.flv.script import decode_metadata
from rtmprelay.flv.writer import FlvWriter
from rtmprelay.media import MediaFrame, MediaKind

AVC_HEADER = MediaFrame(MediaKind.VIDEO, 0, b"\x17\x00\x00\x00\x00avcC")
AAC_HEADER = MediaFrame(MediaKind.AUDIO, 0, b"\xaf\x00\x12\x10")


def picture(timestamp_ms: int, *, key: bool = False, size: int = 20) -> MediaFrame:
    """Coded H.264."""
    return MediaFrame(
        MediaKind.VIDEO, timestamp_ms, (b"\x17\x01\0\0\0" if key else b"\x27\x01\0\0\0").ljust(size, b"v")
    )


def sound(timestamp_ms: int, size: int = 10) -> MediaFrame:
    """Coded AAC."""
    return MediaFrame(MediaKind.AUDIO, timestamp_ms, b"\xaf\x01".ljust(size, b"a"))


def groups(count: int, begin_ms: int = 0, pictures: int = 5) -> list[MediaFrame]:
    """Groups of pictures with sound, 40 ms apart."""
    frames = []
    for number in range(count * pictures):
        time = begin_ms + 40 * number
        frames += [picture(time, key=number % pictures == 0), sound(time)]
    return frames


FRAMES = st.lists(
    st.builds(MediaFrame, st.sampled_from(MediaKind), st.integers(0, 0xFFFFFFFF), st.binary(max_size=60)),
    max_size=12,
)


class MemoryFile:
    """A file in memory, which may be full, and remembers its writes."""

    def __init__(self, room: int | None = None) -> None:
        self.data = bytearray()
        self.room = room
        self.writes: list[tuple[int, bytes]] = []
        self.synced = 0

    def append(self, data: bytes | memoryview) -> int:
        taken = len(data)
        if self.room is not None:
            taken = min(taken, self.room - len(self.data))
            if taken <= 0:
                raise OSError(28, "No space left on device")
        self.writes.append((len(self.data), bytes(data[:taken])))
        self.data += data[:taken]
        return taken

    def write_at(self, data: bytes, offset: int) -> None:
        assert offset + len(data) <= len(self.data), "in place means in place"
        self.writes.append((offset, data))
        self.data[offset : offset + len(data)] = data

    def truncate(self, size: int) -> None:
        del self.data[size:]

    def sync(self) -> None:
        self.synced += 1


def write_file(frames: Sequence[MediaFrame], startup: Sequence[MediaFrame] = (), space: int = 4000) -> bytes:
    """A finished file."""
    raw = MemoryFile()
    writer = FlvWriter(raw, startup, space=space)
    writer.append(frames)
    writer.finish()
    return bytes(raw.data)


def plain_file(frames: Sequence[MediaFrame]) -> bytes:
    """Header and tags, nothing else."""
    return file_header() + b"".join(map(encode_tag, frames))


def tags_in(data: bytes) -> list[FlvTag]:
    """The whole tags of a file."""
    return list(read_tags(io.BytesIO(data)))


def frames_in(data: bytes) -> list[MediaFrame | None]:
    """All frames of a file."""
    return [tag.to_frame() for tag in tags_in(data)]


def metadata_of(data: bytes) -> dict[str, AmfValue]:
    """The metadata at the start of a file."""
    first = frames_in(data)[0]
    assert first is not None
    values = decode_metadata(first.payload)
    assert values is not None
    return values


STARTUP = [AVC_HEADER, AAC_HEADER]

#: A finished recording of 63 tags: metadata, two decoder configurations, six groups of five pictures with sound.
WHOLE = write_file(groups(6), STARTUP)
