"""Writes an FLV file that is playable after a crash at any moment, and completes its metadata at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv.container import (
    MAX_PAYLOAD_SIZE,
    TAG_HEADER_SIZE,
    encode_tags,
    file_header,
    tag_size,
)
from rtmprelay.flv.file_metadata import DEFAULT_SPACE, FileFacts, ReservedMetadata
from rtmprelay.media import MediaFrame, MediaKind

_FILE_HEADER_SIZE = len(file_header())


class RawFile(Protocol):
    """The file that a writer writes to. Tests use one that fails as disks do."""

    def append(self, data: bytes | memoryview) -> int:
        """Write at the end; return how many bytes the system took."""

    def write_at(self, data: bytes, offset: int) -> None:
        """Overwrite what is at the offset."""

    def truncate(self, size: int) -> None:
        """Cut the file to this size; `append` continues there."""

    def sync(self) -> None:
        """Wait until the data is on the disk."""


class FlvWriter:
    """One file, from its header to its completed metadata. Any method may raise OSError.

    Only whole tags are appended, several in one write. Whatever happens, the file is whole up to its last whole tag.

    Attributes:
        facts: What has been written so far.
        size: The size of the file up to its last whole tag.
        whole: How many frames of the last `append` are in the file.
    """

    def __init__(
        self,
        raw: RawFile,
        startup: Iterable[MediaFrame] = (),
        metadata: Mapping[str, AmfValue] | None = None,
        space: int = DEFAULT_SPACE,
    ) -> None:
        """Nothing is written before the first `append`, which also writes the file header, the metadata and `startup`.

        Args:
            startup: The metadata of the publisher, and the decoder configuration.
            metadata: Values to add to those of the publisher.
            space: Bytes to reserve for completing the metadata.
        """
        self.facts = FileFacts()
        self.size = 0
        self.whole = 0
        self._raw = raw
        self._added = dict(metadata or {})
        startup = list(startup)
        for frame in startup:
            if frame.kind is MediaKind.DATA:
                self.facts.note_metadata(frame.payload)
        self._initial = {**self.facts.metadata, **self._added}
        self._reserved = ReservedMetadata.with_space(self._initial, space)
        if len(self._reserved.payload) > MAX_PAYLOAD_SIZE:
            self._initial = dict(self._added)
            self._reserved = ReservedMetadata.with_space(self._initial, space)
        self._header = b""
        metadata_frame = MediaFrame(MediaKind.DATA, 0, self._reserved.payload)
        self._before = [metadata_frame, *(frame for frame in startup if frame.kind is not MediaKind.DATA)]

    def append(self, frames: Sequence[MediaFrame]) -> None:
        """Write frames in one write. After an error, `whole` says how many are in the file; append nothing more then."""
        before, self._before = self._before, []
        everything = [*before, *frames]
        data = encode_tags(everything)
        begin = self.size or _FILE_HEADER_SIZE
        header = self._header_with(everything)
        try:
            if before:
                data = header + data
            elif header != self._header:
                # The first audio or video of a file that had none; players read in the header what to wait for.
                self._raw.write_at(header, 0)
            self._header = header
            self._append_bytes(data)
        finally:
            whole, self.size = self._note_whole(everything, begin)
            self.whole = max(0, whole - len(before))
            if whole < len(everything):
                # A full disk takes only a part of the data.
                self._raw.truncate(self.size)

    def _header_with(self, frames: Iterable[MediaFrame]) -> bytes:
        kinds = {frame.kind for frame in frames}
        return file_header(
            self.facts.has_audio or MediaKind.AUDIO in kinds, self.facts.has_video or MediaKind.VIDEO in kinds
        )

    def _append_bytes(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = self._raw.append(view)
            self.size += written
            view = view[written:]

    def _note_whole(self, frames: Iterable[MediaFrame], begin: int) -> tuple[int, int]:
        """Note the frames that are in the file as a whole; return how many they are, and where the last one ends."""
        whole = 0
        position = begin
        for frame in frames:
            end = position + tag_size(frame.payload)
            if end > self.size:
                break
            self.facts.note(frame, position)
            whole += 1
            position = end
        return whole, position if self.size >= begin else 0

    def finish(self) -> None:
        """Complete the metadata in place, in the order that `ReservedMetadata` describes."""
        if not self.size:
            return
        stream = self.facts.stream_values()
        of_file = self.facts.file_values(self.size)
        payload = self._reserved.completed(
            {**stream, **self._added, **of_file}, {**self._initial, **of_file}, self.facts.index
        )
        start = _FILE_HEADER_SIZE + TAG_HEADER_SIZE
        cut = self._reserved.values_end
        self._raw.sync()
        self._raw.write_at(payload[cut:], start + cut)
        self._raw.sync()
        self._raw.write_at(payload[:cut], start)
        self._raw.sync()
