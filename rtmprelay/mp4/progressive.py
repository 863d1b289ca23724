"""A plain MP4 made of fragments: one index in front, then the media as it is. Every player and editor reads it.

`ProgressiveFile` looks at fragments as `fragment_boxes` writes them and remembers where their samples are. It keeps no media:
the caller, which has the fragments, sends the header, and then the ranges of each in the same order.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

import attrs

from rtmprelay.errors import RtmpRelayError
from rtmprelay.mp4.boxes import BOX_HEADER_SIZE, box, box_header, full_box
from rtmprelay.mp4.fragment_boxes import AUDIO_ENTRY, KEY_PICTURE, MOOF, TRAF, VIDEO_ENTRY
from rtmprelay.mp4.init_segment import MOVIE_TIMESCALE, Extent, whole_movie
from rtmprelay.mp4.tracks import VIDEO_TRACK_ID, AnyTrack

_HEADER = struct.Struct(">I4s")
_U32_MAX = 0xFFFFFFFF

#: A box of more than 4 GiB has its size in 64 bits after its type.
_LARGE_HEADER_SIZE = 16


class BadFragmentError(RtmpRelayError):
    """What should be fragments of ours is something else."""


@attrs.define(eq=False)
class _Table:
    """The samples of one track.

    Attributes:
        chunks: Where each run of samples begins in the media, and how many samples it has.
    """

    track: AnyTrack
    times: array[int] = attrs.field(factory=lambda: array("q"))
    sizes: array[int] = attrs.field(factory=lambda: array("I"))
    compositions: array[int] = attrs.field(factory=lambda: array("i"))
    keys: array[int] = attrs.field(factory=lambda: array("I"))
    chunks: list[tuple[int, int]] = attrs.field(factory=list)
    end: int = 0


class ProgressiveFile:
    """Makes the header of a file from the fragments of its tracks.

    Attributes:
        media_size: Bytes of media so far.
    """

    def __init__(self, tracks: Sequence[AnyTrack]) -> None:
        self._tables = {track.track_id: _Table(track) for track in tracks}
        self.media_size = 0

    @property
    def samples(self) -> int:
        """How many samples all tracks have together."""
        return sum(len(table.sizes) for table in self._tables.values())

    def add(self, fragments: bytes) -> list[tuple[int, int]]:
        """Look at some whole fragments. Returns where in these bytes the media is, which belongs into the file.

        Raises:
            BadFragmentError: These are no fragments of ours.
        """
        ranges: list[tuple[int, int]] = []
        at = 0
        try:
            while at < len(fragments):
                size, kind = _HEADER.unpack_from(fragments, at)
                media_size, media_kind = _HEADER.unpack_from(fragments, at + size)
                if kind != b"moof" or media_kind != b"mdat":
                    raise BadFragmentError("a moof and an mdat are expected")
                end = at + size + media_size
                if media_size < BOX_HEADER_SIZE or end > len(fragments):
                    raise BadFragmentError("a fragment is cut short")
                begin = at + size + BOX_HEADER_SIZE
                self._add_runs(fragments, at, at + size, self.media_size - begin)
                ranges.append((begin, end))
                self.media_size += end - begin
                at = end
        except struct.error:
            raise BadFragmentError("a fragment is cut short") from None
        return ranges

    def _add_runs(self, data: bytes, moof_at: int, end: int, moved: int) -> None:
        """Note the samples of each traf of a moof; `moved` is how much further their bytes are in the media."""
        at = moof_at + MOOF.size
        while at < end:
            fields = TRAF.unpack_from(data, at)
            size, track_id, time, count, offset = fields[0], fields[5], fields[9], fields[13], fields[14]
            table = self._tables.get(track_id)
            if size < TRAF.size or at + size > end or fields[11] != b"trun":
                raise BadFragmentError("a moof has something else than runs of samples")
            if table is not None:
                entries = data[at + TRAF.size : at + size]
                table.chunks.append((moof_at + offset + moved, count))
                self._add_samples(table, time, entries)
            at += size

    @staticmethod
    def _add_samples(table: _Table, time: int, entries: bytes) -> None:
        if table.track.track_id == VIDEO_TRACK_ID:
            for duration, size, flags, composition in VIDEO_ENTRY.iter_unpack(entries):
                if flags == KEY_PICTURE:
                    table.keys.append(len(table.sizes) + 1)
                table.times.append(time)
                table.sizes.append(size)
                table.compositions.append(composition)
                time += duration
        else:
            for duration, size in AUDIO_ENTRY.iter_unpack(entries):
                table.times.append(time)
                table.sizes.append(size)
                time += duration
        table.end = time

    def header(self) -> bytes:
        """Everything before the media.

        Raises:
            BadFragmentError: The times of the samples are none that a file can have.
        """
        try:
            return self._header()
        except struct.error:
            raise BadFragmentError("the fragments have impossible times") from None

    def _header(self) -> bytes:
        tables = [table for table in self._tables.values() if table.sizes]
        begin = _begin(tables)
        # Where the media begins depends on the size of the header, which does not depend on where it begins.
        large = self.media_size > _U32_MAX - 2**26
        size = len(self._movie(tables, begin, 0, large)) + (_LARGE_HEADER_SIZE if large else BOX_HEADER_SIZE)
        if large:
            media_header = _HEADER.pack(1, b"mdat") + (self.media_size + _LARGE_HEADER_SIZE).to_bytes(8)
        else:
            media_header = box_header(b"mdat", self.media_size)
        return self._movie(tables, begin, size, large) + media_header

    @staticmethod
    def _movie(tables: Sequence[_Table], begin: float, media_at: int, large: bool) -> bytes:
        return whole_movie([(table.track, _extent(table, begin, media_at, large)) for table in tables])


def _first_shown(table: _Table) -> int:
    """When the first sample is shown, in ticks; pictures after it in the file may be shown before it."""
    if not table.compositions:
        return table.times[0]
    # No reordering goes over this many pictures.
    return min(time + late for time, late in zip(table.times[:32], table.compositions[:32], strict=True))


def _last_shown(table: _Table) -> int:
    """When the last picture has been shown, in ticks. A clip may end where pictures that are shown before it are missing."""
    latest = max(time + late for time, late in zip(table.times[-32:], table.compositions[-32:], strict=True))
    return latest + table.end - table.times[-1]


def _begin(tables: Iterable[_Table]) -> float:
    """The time in seconds at which the file begins: with its first picture, or with sound if there is no picture."""
    starts = {table.track.track_id: _first_shown(table) / table.track.timescale for table in tables}
    return starts.get(VIDEO_TRACK_ID, min(starts.values(), default=0.0))


def _extent(table: _Table, begin: float, media_at: int, large: bool) -> Extent:
    timescale = table.track.timescale
    first = table.times[0]
    duration = max(0, table.end - first)
    # What comes before the first picture is in the file and not shown; a track that begins later is awaited.
    skipped = max(0, round(begin * timescale) - first)
    awaited_ms = max(0, round((_first_shown(table) / timescale - begin) * MOVIE_TIMESCALE))
    shown = _last_shown(table) - _first_shown(table) if table.compositions else max(0, duration - skipped)
    length_ms = -(-shown * MOVIE_TIMESCALE // timescale)
    edits = [struct.pack(">IiI", awaited_ms, -1, 0x10000)] if awaited_ms else []
    edits.append(struct.pack(">IiI", length_ms, skipped, 0x10000))
    elst = full_box(b"elst", 0, 0, len(edits).to_bytes(4), *edits)
    return Extent(duration, awaited_ms + length_ms, box(b"edts", elst), _tables(table, media_at, large))


def _tables(table: _Table, media_at: int, large: bool) -> bytes:
    times = [*table.times, max(table.end, table.times[-1])]
    durations = (max(0, later - earlier) for earlier, later in pairwise(times))
    boxes = [full_box(b"stts", 0, 0, *_run_lengths(durations, ">II"))]
    if any(table.compositions):
        boxes.append(full_box(b"ctts", 1, 0, *_run_lengths(table.compositions, ">Ii")))
    if table.compositions:
        boxes.append(full_box(b"stss", 0, 0, _counted(table.keys)))
    boxes.append(full_box(b"stsc", 0, 0, *_chunk_lengths(table.chunks)))
    boxes.append(full_box(b"stsz", 0, 0, bytes(4), _counted(table.sizes)))
    offsets = [media_at + at for at, _ in table.chunks]
    packed = struct.pack(f">I{len(offsets)}{'Q' if large else 'I'}", len(offsets), *offsets)
    boxes.append(full_box(b"co64" if large else b"stco", 0, 0, packed))
    return b"".join(boxes)


def _counted(values: Sequence[int]) -> bytes:
    return struct.pack(f">I{len(values)}I", len(values), *values)


def _run_lengths(values: Iterable[int], entry: str) -> tuple[bytes, bytes]:
    """How often each value follows itself."""
    runs = [(sum(1 for _ in equal), value) for value, equal in groupby(values)]
    return len(runs).to_bytes(4), b"".join(struct.pack(entry, count, value) for count, value in runs)


def _chunk_lengths(chunks: Sequence[tuple[int, int]]) -> tuple[bytes, bytes]:
    """From which chunk on there are so many samples in each."""
    entries: list[tuple[int, int]] = []
    for number, (_, count) in enumerate(chunks, 1):
        if not entries or entries[-1][1] != count:
            entries.append((number, count))
    packed = b"".join(struct.pack(">III", number, count, 1) for number, count in entries)
    return len(entries).to_bytes(4), packed
