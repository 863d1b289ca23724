"""Cuts a part out of recordings, into a file that plays by itself: from which of them, and where it changes to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtmprelay.files.disk import OsFile
from rtmprelay.flv.container import TAG_HEADER_SIZE, tag_size
from rtmprelay.flv.script import is_metadata
from rtmprelay.flv.tags import describe_audio, describe_video
from rtmprelay.flv.writer import FlvWriter
from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind, milliseconds_between
from spark_analytics.errors import CatalogueError
from spark_analytics.flv.classify import Classifier, Codes
from spark_analytics.flv.scan import DamagedPart, RangeScanner, first_tag
from spark_analytics.flv.sources import ByteSource, open_source
from spark_analytics.flv.tags import TagArrays
from spark_analytics.questions.api import Moment, quality
from spark_analytics.recordings.rules import BEFORE_START_MS, SESSION_HOLE
from spark_analytics.whole_file import whole_file

#: Milliseconds between the last frame of a file and the first of the next, if its timestamps simply go on.
GOES_ON_MS = 2000

#: Longer holes are not bridged.
_LONGEST_HOLE = timedelta(seconds=SESSION_HOLE)

#: Names say to the second when a recording began: what overlaps by less may be one after the other.
_OF_A_NAME = timedelta(seconds=1)

#: Nobody sees that so much is missing.
_UNSEEN = timedelta(milliseconds=100)

_MILLISECOND = timedelta(milliseconds=1)

Row = dict[str, Any]


@attrs.frozen
class ClipPart:
    """What a clip takes from a recording.

    Attributes:
        byte_offset: Where to begin to read; None for the first tag.
        begin_ms: Frames before this time of the file are left out; None for none.
        end_ms: Frames from this time of the file on are left out; None for none.
    """

    recording: Row
    byte_offset: int | None = None
    begin_ms: int | None = None
    end_ms: int | None = None

    @property
    def begins_at(self) -> datetime:
        """When what it shows was recorded."""
        started: datetime = self.recording["started_at"]
        return started + timedelta(milliseconds=self.begin_ms or 0)


@attrs.frozen
class ClipPlan:
    """Finds what follows.

    Attributes:
        recordings: All of the stream.
        until: Where the clip ends.
        keyframes_of: The rows of `keyframes` of a recording, in the order of time.
    """

    recordings: Sequence[Row]
    until: datetime
    keyframes_of: Callable[[Row], pa.Table]

    def parts(self, moment: Moment) -> list[ClipPart]:
        """The recording of the moment, and those that go on where it ends, as long as one does."""
        parts = [ClipPart(moment.recording, moment.byte_offset, moment.time_ms)]
        while parts[-1].recording["ended_at"] < self.until:
            joined = self._with_next(parts[-1])
            if joined is None:
                break
            parts[-1:] = joined
        return parts

    def _with_next(self, part: ClipPart) -> tuple[ClipPart, ClipPart] | None:
        for following in self._candidates(part.recording):
            joined = self._join(part, following)
            if joined is not None:
                return joined
        return None

    def _candidates(self, current: Row) -> list[Row]:
        """What goes on after the end of a recording, the best one first."""
        found = [
            row
            for row in self.recordings
            if row["ended_at"] > current["ended_at"]
            and row["started_at"] <= current["ended_at"] + _LONGEST_HOLE
            and row["started_at"] < self.until
        ]
        there = [row for row in found if all(quality(row)[:2])]
        return sorted(there, key=lambda row: _disadvantages(current, row))

    def _join(self, part: ClipPart, following: Row) -> tuple[ClipPart, ClipPart] | None:
        """Both, cut so that nothing is shown twice; None if there is no place where the second one can begin."""
        current = part.recording
        if _goes_on(current, following) or following["started_at"] >= current["ended_at"] - _OF_A_NAME:
            return part, ClipPart(following)
        if not following["video_frames"]:
            behind = (current["ended_at"] - following["started_at"]) // _MILLISECOND + 1
            return part, ClipPart(following, begin_ms=behind)
        keyframe = self._place_to_change(part, following)
        if keyframe is None:
            return None
        end_ms = (keyframe["wall"] - current["started_at"]) // _MILLISECOND
        return attrs.evolve(part, end_ms=end_ms), ClipPart(
            following, keyframe["byte_offset"], keyframe["time_ms"]
        )

    def _place_to_change(self, part: ClipPart, following: Row) -> Row | None:
        """The keyframe that is so close after the end that nobody sees the hole; or else the last one before the end,
        from which on the part is not needed; or else the next one.
        """
        end = part.recording["ended_at"]
        keyframes = self.keyframes_of(following)
        wall, latest = keyframes["wall"], min(end + _LONGEST_HOLE, self.until)
        in_reach = pc.and_(pc.greater(wall, part.begins_at), pc.less_equal(wall, latest))
        rows: list[Row] = keyframes.filter(in_reach).to_pylist()
        before = [row for row in rows if row["wall"] <= end]
        after = [row for row in rows if row["wall"] > end]
        if before and not (after and after[0]["wall"] <= end + _UNSEEN):
            return before[-1]
        return after[0] if after else None


def _goes_on(current: Row, following: Row) -> bool:
    """Whether the timestamps say that one recording is the continuation of the other."""
    last = (current["first_timestamp_ms"] or 0) + (current["duration_ms"] or 0)
    return 0 <= milliseconds_between(last, following["first_timestamp_ms"] or 0) <= GOES_ON_MS


def _disadvantages(current: Row, following: Row) -> tuple[Any, ...]:
    """The first difference decides: a hole, damage, another server, one more change soon."""
    hole = following["started_at"] - current["ended_at"]
    wholeness = quality(following)[2]
    return (
        hole if hole > _OF_A_NAME else timedelta(0),
        -wholeness,
        not _goes_on(current, following),
        -following["ended_at"].timestamp(),
        following["path"],
    )


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
