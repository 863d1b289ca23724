"""Checks whether a recording is whole, and repairs it if it is not."""

from __future__ import annotations

import os
import stat
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import attrs

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv.container import TAG_HEADER_SIZE, FlvTag, encode_tag, file_header, tag_trailer
from rtmprelay.flv.file_metadata import MAX_INDEXED, FileFacts, KeyframeIndex, whole_payload
from rtmprelay.flv.scan import Damage, TagScanner, WindowedFile
from rtmprelay.flv.script import decode_metadata
from rtmprelay.media import MediaFrame, MediaKind, milliseconds_between

#: How much is copied at a time.
_COPY_SIZE = 1024 * 1024

#: Keyframes that are compared with the index in the metadata; a real recording has fewer, a hostile one may have more.
_MAX_COMPARED = 200_000

#: Seconds by which a duration may be wrong: some writers add the length of the last frame.
_TIME_TOLERANCE = 1.0

Progress = Callable[[int], None]


def _no_progress(_: int) -> None:
    pass


@attrs.frozen
class Loss:
    """A damaged part, and the time that is lost with it; None if that cannot be known."""

    damage: Damage
    milliseconds: int | None


@attrs.define(eq=False)
class Inspection:
    """What was found in a whole file.

    Attributes:
        tags: The number of whole tags.
        ranges: Where they begin and end, without the metadata at the start.
        losses: What is between and after them.
        mended: The tags whose sizes must be written again: where they begin, and the size of their payload.
        complaints: What is wrong or missing in the header and the metadata.
    """

    size: int = 0
    tags: int = 0
    ranges: list[tuple[int, int]] = attrs.field(factory=list)
    losses: list[Loss] = attrs.field(factory=list)
    mended: list[tuple[int, int]] = attrs.field(factory=list)
    complaints: list[str] = attrs.field(factory=list)
    facts: FileFacts = attrs.field(factory=lambda: FileFacts(KeyframeIndex(_MAX_COMPARED)))

    @property
    def is_fine(self) -> bool:
        """Whether nothing needs repair."""
        return not self.losses and not self.complaints

    @property
    def lost_bytes(self) -> int:
        """The bytes that cannot be saved."""
        return sum(loss.damage.lost_bytes for loss in self.losses)

    @property
    def lost_ms(self) -> int:
        """The time that is lost, as far as it is known."""
        return sum(loss.milliseconds or 0 for loss in self.losses)


class _Inspector:
    """Goes through a file once."""

    def __init__(self, file: WindowedFile, progress: Progress) -> None:
        self._scanner = TagScanner(file, progress)
        self._result = Inspection(size=file.size)
        self._first_metadata: dict[str, AmfValue] | None = None
        self._newest_ms: int | None = None
        # Damage after which no audio or video has come yet: the time that is lost is not known.
        self._open_damage: list[Damage] = []

    def run(self) -> Inspection:
        result = self._result
        for found in self._scanner:
            if isinstance(found, FlvTag):
                self._take(found)
            elif found.tag is not None:
                self._mend(found, found.tag)
            else:
                self._open_damage.append(found)
        for damage in self._open_damage:
            result.losses.append(Loss(damage, self._lost_before(damage.timestamp_ms)))
        result.complaints += self._complaints()
        return result

    def _take(self, tag: FlvTag) -> None:
        result = self._result
        result.tags += 1
        frame = tag.to_frame()
        if frame is not None and frame.kind is not MediaKind.DATA and frame.payload:
            self._settle_damage(tag.timestamp_ms)
        if frame is not None and frame.kind is MediaKind.DATA and result.tags == 1:
            self._first_metadata = decode_metadata(frame.payload)
            if self._first_metadata is not None:
                # A repair writes new metadata at the start.
                result.facts.note_metadata(frame.payload, ours=True)
                return
        if frame is not None:
            result.facts.note(frame, tag.offset)
        ranges = result.ranges
        if ranges and ranges[-1][1] == tag.offset:
            ranges[-1] = ranges[-1][0], tag.end
        else:
            ranges.append((tag.offset, tag.end))

    def _mend(self, damage: Damage, tag: FlvTag) -> None:
        self._take(tag)
        # Without the payload: a file may have many of them.
        self._result.losses.append(Loss(attrs.evolve(damage, tag=None), 0))
        self._result.mended.append((tag.offset, len(tag.payload)))

    def _settle_damage(self, timestamp_ms: int) -> None:
        """The first tag with a time after damage says how much time is lost; it counts for the first damage only."""
        for number, damage in enumerate(self._open_damage):
            self._result.losses.append(Loss(damage, 0 if number else self._lost_before(timestamp_ms)))
        self._open_damage.clear()
        self._newest_ms = timestamp_ms

    def _lost_before(self, timestamp_ms: int | None) -> int | None:
        if timestamp_ms is None or self._newest_ms is None:
            return None
        return max(0, milliseconds_between(self._newest_ms, timestamp_ms))

    def _complaints(self) -> list[str]:
        result, scanner = self._result, self._scanner
        if not scanner.has_header:
            return ["the file header is missing"]
        expected = file_header(result.facts.has_audio, result.facts.has_video)[4]
        if result.tags and scanner.flags != expected:
            return ["the file header does not say which media there are"]
        complaint = _metadata_complaint(self._first_metadata, result)
        return [] if complaint is None else [complaint]


def _metadata_complaint(values: Mapping[str, AmfValue] | None, result: Inspection) -> str | None:
    if values is None:
        return "there is no metadata at the start"
    if "filesize" not in values:
        return "the metadata was never completed"
    facts = result.facts
    true_values = facts.file_values(result.size)
    for name, tolerance in (("filesize", 0.0), ("duration", _TIME_TOLERANCE)):
        value, true = values.get(name), true_values[name]
        if not isinstance(value, float) or not isinstance(true, float) or abs(value - true) > tolerance:
            return f"the metadata says {name} {_shown(value)} instead of {_shown(true)}"
    if facts.keyframes and not _is_index_of(values.get("keyframes"), facts.index):
        return "the keyframe index is missing or wrong"
    return None


def _shown(value: AmfValue) -> str:
    """A number as people write it. Other values come from a stranger and may be of any size: they are not shown."""
    return f"{value:.15g}" if isinstance(value, float) else "that is not a number"


def _is_index_of(value: AmfValue, index: KeyframeIndex) -> bool:
    """Whether each entry is a keyframe that was found; the metadata may leave some out."""
    if not isinstance(value, dict):
        return False
    times, positions = value.get("times"), value.get("filepositions")
    if not isinstance(times, list) or not isinstance(positions, list) or not times:
        return False
    known = {(time / 1000, float(position)) for time, position in index}
    return len(times) == len(positions) and all(
        (time, position) in known for time, position in zip(times, positions, strict=True)
    )


def inspect(path: Path, progress: Progress = _no_progress) -> Inspection:
    """Check a file.

    Raises:
        BadRecordingError: It is not an FLV file.
        OSError: It cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        return _Inspector(WindowedFile(file.fileno()), progress).run()


def repair(path: Path, progress: Progress = _no_progress) -> Inspection:
    """Replace a damaged file by a whole one; return what was found in the old one.

    The new file is written next to the old one and gets its name only when all of it is on the disk. A file that is
    fine is left alone.

    Raises:
        BadRecordingError: It is not an FLV file.
        OSError: It cannot be read or written; the old file is unchanged.
    """
    found = inspect(path, progress)
    if not found.is_fine:
        _replace(path, found)
    return found


def _replace(path: Path, found: Inspection) -> None:
    # A link stays a link: the file that it points to is replaced.
    path = path.resolve()
    with path.open("rb", buffering=0) as source:
        descriptor, temporary = tempfile.mkstemp(prefix=".repair-", suffix=".tmp", dir=path.parent)
        try:
            with open(descriptor, "wb", buffering=0) as target:
                _write_whole(source.fileno(), target.fileno(), found)
                os.fchmod(target.fileno(), stat.S_IMODE(os.fstat(source.fileno()).st_mode))
                os.fsync(target.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    _sync_folder(path.parent)


def _write_whole(source: int, target: int, found: Inspection) -> None:
    start = _whole_start(found)
    _write_all(target, start)
    place = len(start)
    mended = deque(found.mended)
    for begin, end in found.ranges:
        _copy(source, target, begin, end)
        while mended and mended[0][0] < end:
            at, size = mended.popleft()
            # What is before the first range is the old metadata.
            if at >= begin:
                _write_sizes(target, place + at - begin, size)
        place += end - begin


def _copy(source: int, target: int, begin: int, end: int) -> None:
    while begin < end:
        data = os.pread(source, min(_COPY_SIZE, end - begin), begin)
        if not data:
            raise OSError("the file became shorter while it was read")
        _write_all(target, data)
        begin += len(data)


def _write_sizes(target: int, at: int, payload_size: int) -> None:
    """Write the sizes of the tag that begins here, in front and after it."""
    os.pwrite(target, payload_size.to_bytes(3), at + 1)
    os.pwrite(target, tag_trailer(payload_size), at + TAG_HEADER_SIZE + payload_size)


def _whole_start(found: Inspection) -> bytes:
    """File header and metadata, with the positions of the keyframes in the new file."""
    facts = found.facts
    kept = sum(end - begin for begin, end in found.ranges)
    header = file_header(facts.has_audio, facts.has_video)
    values = {**facts.stream_values(), **facts.file_values(0)}
    size = len(header) + len(_metadata_tag(values, facts.index)) + kept
    values = {**facts.stream_values(), **facts.file_values(size)}
    index = KeyframeIndex(max(len(facts.index), MAX_INDEXED) + 1)
    place = size - kept
    moved = iter(facts.index)
    entry = next(moved, None)
    for begin, end in found.ranges:
        while entry is not None and entry[1] < end:
            index.add(entry[0], entry[1] - begin + place)
            entry = next(moved, None)
        place += end - begin
    return header + _metadata_tag(values, index)


def _metadata_tag(values: Mapping[str, AmfValue], index: KeyframeIndex) -> bytes:
    return encode_tag(MediaFrame(MediaKind.DATA, 0, whole_payload(values, index)))


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
