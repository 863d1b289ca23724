"""Cuts a part out of recordings, into a file that plays by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import attrs
import numpy as np

from rtmprelay.files.disk import OsFile
from rtmprelay.flv.container import TAG_HEADER_SIZE, tag_size
from rtmprelay.flv.script import is_metadata
from rtmprelay.flv.tags import describe_audio, describe_video
from rtmprelay.flv.writer import FlvWriter
from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind, milliseconds_between
from spark_analytics.errors import CatalogueError
from spark_analytics.flv.classify import Classifier, Codes
from spark_analytics.flv.scanner import DamagedPart, RangeScanner, first_tag
from spark_analytics.flv.sources import ByteSource, open_source
from spark_analytics.flv.tags import TagArrays
from spark_analytics.recordings.clip_parts import GOES_ON_MS, ClipPart
from spark_analytics.recordings.rules import BEFORE_START_MS
from spark_analytics.whole_file import whole_file

#: Frames are written together up to so many bytes.
_WRITE_SIZE = 4 * 1024 * 1024

#: When so many tags in a row are after the end, nothing more is expected. One alone says little: sound and pictures are
#: not exactly in the order of their timestamps, and some have a wrong one.
_MOST_BEHIND = 256

_MILLISECOND = timedelta(milliseconds=1)


@attrs.frozen
class Clip:
    """What was cut out."""

    path: str
    duration_ms: int
    frames: int
    size: int
    sources: tuple[str, ...]


def cut_clip(parts: Sequence[ClipPart], until: datetime, out: Path) -> Clip:
    """Cut from where the first part begins up to a moment.

    Args:
        parts: What is shown one after the other.
        until: Where to end; the recordings may end before.

    Raises:
        CatalogueError: There is nothing to cut, or there is a file of that name.
        OSError: A recording cannot be read, or the clip cannot be written.
    """
    begin = parts[0].begins_at
    sources: list[str] = []
    with whole_file(out) as descriptor:
        writer = _ClipWriter(OsFile(descriptor, Path(out)), (until - begin) // _MILLISECOND)
        for part in parts:
            if writer.take(part, (part.recording["started_at"] - begin) // _MILLISECOND):
                sources.append(part.recording["path"])
        duration_ms, frames, size = writer.finish()
        if not frames:
            raise CatalogueError(f"There is no frame to cut out of {parts[0].recording['path']}.")
    return Clip(str(out), duration_ms, frames, size, tuple(sources))


@attrs.frozen
class _Tag:
    """A tag, and what kind of header it is: the name of what it replaces, or None for media."""

    frame: MediaFrame
    header: str | None


class _TagReader:
    """Reads tags of a recording with their payloads."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._classifier = Classifier()

    def headers_before(self, end: int) -> dict[str, _Tag]:
        """Metadata and decoder configurations that hold at a place."""
        found: dict[str, _Tag] = {}
        for tags, codes in self._blocks(first_tag(self._source), end):
            table = self._classifier.table
            wanted = table.where(
                codes,
                lambda one: (
                    one.kind is MediaKind.DATA or one.info.sequence_header or one.info.startup_metadata
                ),
            )
            for number in np.flatnonzero(wanted & (tags.offsets < end)).tolist():
                tag = self._tag(tags, codes, number)
                if tag is not None and tag.header is not None:
                    found[tag.header] = tag
        return found

    def tags(self, begin: int) -> Iterator[_Tag]:
        """All tags from a place on."""
        for tags, codes in self._blocks(begin, self._source.size):
            for number in range(len(tags)):
                tag = self._tag(tags, codes, number)
                if tag is not None:
                    yield tag

    def _blocks(self, begin: int, stop: int) -> Iterator[tuple[TagArrays, Codes]]:
        for found in RangeScanner(self._source, begin, stop):
            tags = found.tag if isinstance(found, DamagedPart) else found
            if tags is not None:
                yield tags, self._classifier.classify(self._source, tags)

    def _tag(self, tags: TagArrays, codes: Codes, number: int) -> _Tag | None:
        tag_class = self._classifier.table.classes[codes[number]]
        kind, info = tag_class.kind, tag_class.info
        if kind is None:
            return None
        payload = self._source.read(int(tags.offsets[number]) + TAG_HEADER_SIZE, int(tags.sizes[number]))
        frame = MediaFrame(kind, int(tags.timestamps[number]), payload)
        if kind is MediaKind.DATA:
            return _Tag(frame, "metadata" if is_metadata(payload) else None)
        if not info.sequence_header and not info.startup_metadata:
            return _Tag(frame, None)
        # Each track has its own; classes do not tell tracks apart.
        tracks = (describe_video if kind is MediaKind.VIDEO else describe_audio)(payload).tracks
        what = "configuration" if info.sequence_header else "metadata"
        return _Tag(frame, f"{kind.name} {what} {tracks}")


class _ClipWriter:
    """Writes frames of one recording after the other, on one timeline that begins at 0."""

    def __init__(self, raw: OsFile, limit_ms: int) -> None:
        self._raw = raw
        self._limit_ms = limit_ms
        self._headers: dict[str, MediaFrame] = {}
        self._writer: FlvWriter | None = None
        self._waiting: list[MediaFrame] = []
        self._waiting_bytes = 0
        self._frames = 0
        self._last_ms = -1
        # The timestamp that is 0 in the clip, and the last one that was taken, both as the recordings have them.
        self._zero: int | None = None
        self._last_timestamp = 0

    def take(self, part: ClipPart, started_ms: int) -> bool:
        """Add what a part has; whether that is anything.

        Args:
            started_ms: When the recording began, on the timeline of the clip.
        """
        before = self._frames
        source = open_source(part.recording["path"], part.recording["size"])
        try:
            reader = _TagReader(source)
            begin = first_tag(source)
            if part.byte_offset is not None:
                begin = part.byte_offset
                for tag in reader.headers_before(begin).values():
                    self._take_header(tag)
            self._take_tags(reader.tags(begin), part, started_ms)
        finally:
            source.close()
        return self._frames > before

    def _take_tags(self, tags: Iterator[_Tag], part: ClipPart, started_ms: int) -> None:
        has_begun = False
        behind = 0
        for tag in tags:
            time_ms = _time_in(part, tag.frame.timestamp_ms)
            is_behind = part.end_ms is not None and time_ms >= part.end_ms
            if not is_behind and tag.header is not None:
                self._take_header(tag)
            elif not is_behind and (part.begin_ms is None or time_ms >= part.begin_ms):
                if not has_begun:
                    if tag.frame.kind is MediaKind.DATA:
                        continue
                    self._go_on_at(tag.frame.timestamp_ms, started_ms + time_ms)
                    has_begun = True
                is_behind = not self._take_frame(tag.frame)
            behind = behind + 1 if is_behind else 0
            if behind == _MOST_BEHIND:
                return

    def _go_on_at(self, timestamp_ms: int, expected_ms: int) -> None:
        """Decide which timestamp of the next recording is 0."""
        if (
            self._zero is None
            or not 0 <= milliseconds_between(self._last_timestamp, timestamp_ms) <= GOES_ON_MS
        ):
            # At first, or in another broadcast: the clock on the wall says where it belongs.
            self._zero = timestamp_ms - max(expected_ms, self._last_ms + 1)

    def _take_header(self, tag: _Tag) -> None:
        name = tag.header
        before = self._headers.get(name or "")
        if name is None or (before is not None and before.payload == tag.frame.payload):
            return
        self._headers[name] = tag.frame
        if self._writer is not None and name != "metadata":
            self._append(attrs.evolve(tag.frame, timestamp_ms=self._last_ms))

    def _take_frame(self, frame: MediaFrame) -> bool:
        """Write a frame; False if it is after the end."""
        if self._zero is None:
            return True
        at = milliseconds_between(self._zero, frame.timestamp_ms)
        if at >= self._limit_ms:
            return False
        if at < 0:
            # The timestamps went back.
            return True
        self._append(attrs.evolve(frame, timestamp_ms=at))
        if frame.kind is not MediaKind.DATA:
            self._frames += 1
            self._last_ms = max(self._last_ms, at)
            self._last_timestamp = frame.timestamp_ms
        return True

    def _append(self, frame: MediaFrame) -> None:
        if self._writer is None:
            startup = [attrs.evolve(header, timestamp_ms=0) for header in self._headers.values()]
            self._writer = FlvWriter(self._raw, startup)
        self._waiting.append(frame)
        self._waiting_bytes += tag_size(frame.payload)
        if self._waiting_bytes >= _WRITE_SIZE:
            self._flush()

    def _flush(self) -> None:
        if self._writer is not None and self._waiting:
            self._writer.append(self._waiting)
            self._waiting, self._waiting_bytes = [], 0

    def finish(self) -> tuple[int, int, int]:
        """Complete the file: its milliseconds, frames and bytes."""
        self._flush()
        if self._writer is None:
            return 0, 0, 0
        self._writer.finish()
        return self._writer.facts.duration_ms, self._frames, self._writer.size


def _time_in(part: ClipPart, timestamp_ms: int) -> int:
    """The time of a timestamp, as the tables have it: since the first frame of the file."""
    since = timestamp_ms - (part.recording["first_timestamp_ms"] or 0)
    return (since + BEFORE_START_MS) % TIMESTAMP_MODULUS - BEFORE_START_MS
