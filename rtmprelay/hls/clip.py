"""Which part of the window a clip is, and the plain MP4 that is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

from rtmprelay.errors import RtmpRelayError
from rtmprelay.hls.window import Segment, Window
from rtmprelay.mp4.progressive import ProgressiveFile
from rtmprelay.mp4.tracks import AnyTrack

#: Seconds of the longest clip: its index is made for one viewer.
LONGEST_CLIP = 600.0

#: Bytes that are sent at a time.
_PIECE = 128 * 1024


class NothingThereError(RtmpRelayError):
    """No media of the time that was asked for is in the window."""


@attrs.frozen
class Clip:
    """What a clip is made of: whole segments, each as its bytes or the file that has them.

    Attributes:
        begin: Seconds since 1970.
        size: Bytes of all segments.
    """

    tracks: Sequence[AnyTrack]
    begin: float
    media: Sequence[bytes | Path]
    size: int

    @property
    def has_files(self) -> bool:
        return any(isinstance(one, Path) for one in self.media)

    @property
    def held(self) -> int:
        """Bytes of it that are in memory."""
        return sum(len(one) for one in self.media if isinstance(one, bytes))


@attrs.frozen
class ClipFile:
    """A plain MP4: what comes first, and where the rest is in the segments."""

    header: bytes
    ranges: Sequence[tuple[bytes | Path, int, int]]
    media_size: int

    @property
    def size(self) -> int:
        return len(self.header) + self.media_size

    def pieces(self, begin: int, end: int) -> Iterator[bytes]:
        """The bytes of the file from `begin` up to `end`. Raises OSError if a file has gone."""
        at = 0
        for source, first, last in ((self.header, 0, len(self.header)), *self.ranges):
            # What of this range is wanted.
            wanted, until = first + max(0, begin - at), min(last, first + end - at)
            at += last - first
            for position in range(wanted, until, _PIECE):
                size = min(_PIECE, until - position)
                if isinstance(source, Path):
                    yield _read(source, position, size)
                else:
                    yield source[position : position + size]


def _read(path: Path, at: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(at)
        data = file.read(size)
    if len(data) < size:
        raise OSError(f"{path} is shorter than it was")
    return data


def cut_clip(
    window: Window, begin: float, end: float, file_of: Callable[[int], Path | None] = lambda _: None
) -> Clip:
    """The segments of a time, from the keyframe before its begin on; times are seconds since 1970.

    A clip has one decoder configuration. Where it changed, the clip is what comes after the last change.

    Args:
        file_of: Says where a segment is that is not in memory.

    Raises:
        NothingThereError: There is nothing of that time.
    """
    chosen: list[tuple[Segment, bytes | Path]] = []
    for segment in window.listed:
        data = _bytes_of(window, segment) or file_of(segment.name)
        if data is None or segment.date >= end:
            continue
        if segment.date + segment.duration <= begin:
            continue
        if chosen and segment.configuration != chosen[-1][0].configuration:
            chosen.clear()
        if segment.independent or chosen:
            chosen.append((segment, data))
    if not chosen or chosen[-1][0].configuration != window.listed[-1].configuration:
        raise NothingThereError("there is nothing of that time in the window")
    size = sum(segment.size for segment, _ in chosen)
    return Clip(tuple(window.tracks), chosen[0][0].date, [data for _, data in chosen], size)


def _bytes_of(window: Window, segment: Segment) -> bytes | None:
    """A segment as far as it has come; None if it is not in memory."""
    if segment is not window.open:
        return segment.data
    parts = [window.part(part.number) for part in segment.parts]
    return b"".join(part for part in parts if part is not None)


def make_file(clip: Clip) -> ClipFile:
    """The file of a clip. Takes a moment: it looks at every sample. Raises OSError if a file has gone."""
    progressive = ProgressiveFile(clip.tracks)
    ranges: list[tuple[bytes | Path, int, int]] = []
    for segment in clip.media:
        fragments = segment.read_bytes() if isinstance(segment, Path) else segment
        ranges += [(segment, begin, end) for begin, end in progressive.add(fragments) if end > begin]
    return ClipFile(progressive.header(), ranges, progressive.media_size)
