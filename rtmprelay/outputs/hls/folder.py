"""The window of one rendition as files: `DIR/APP%2FNAME/RENDITION/`, with an index for the next start of the relay."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from rtmprelay.hls.cuts import Targets
from rtmprelay.hls.index_file import SavedWindow, head_line, read_index, segment_line
from rtmprelay.hls.names import MediaName, MediaPiece, read_media_name
from rtmprelay.hls.window import Segment, Window
from rtmprelay.outputs.hls.segment_writer import SegmentWriter

_INDEX = "index.jsonl"

#: Bytes of an index that is read: a day of segments has some 10 MB.
_LARGEST_INDEX = 64 * 1024 * 1024

#: Characters of a folder's name at most, in every file system.
_LONGEST_NAME = 200


def stream_folder(folder: Path, key: str) -> Path | None:
    """The folder of a stream; None if its name is too long for one."""
    name = quote(key, safe="")
    return folder / name if len(name) <= _LONGEST_NAME and name.strip(".") else None


class WindowFolder:
    """Saves segments, deletes those that have left, and keeps the index short."""

    def __init__(self, folder: Path, rendition: int, writer: SegmentWriter) -> None:
        self._folder = folder / str(rendition)
        self._rendition = rendition
        self._writer = writer
        self._broadcast = ""
        # Lines of the index; None until the first segment.
        self._lines: int | None = None

    def load(self, wanted: Targets, since: float) -> SavedWindow | None:
        """What the last run of the relay left, if it can be continued. Everything else is deleted."""
        try:
            names = {path.name: path.stat().st_size for path in self._folder.iterdir()}
            with (self._folder / _INDEX).open("rb") as file:
                lines = file.read(_LARGEST_INDEX).splitlines()
        except OSError:
            return None
        read = {name: media for name in names if (media := read_media_name(name)) is not None}
        sizes = {
            media.number: names[name] for name, media in read.items() if media.piece is MediaPiece.SEGMENT
        }
        configurations = {media.number for media in read.values() if media.piece is MediaPiece.INIT}
        saved = read_index(lines, wanted, sizes, configurations, since)
        if saved is None:
            self._writer.delete_folder(self._folder)
            return None
        kept = {segment.name for segment in saved.segments}
        for name, media in read.items():
            if media.piece is MediaPiece.SEGMENT and media.number not in kept:
                self._writer.delete(self._folder / name)
        return saved

    def initialization(self, broadcast: str, number: int) -> bytes:
        """An initialization that `load` has found."""
        return self._path(broadcast, MediaPiece.INIT, number).read_bytes()

    def begin(self, broadcast: str) -> None:
        """The name of the broadcast is known."""
        self._broadcast = broadcast

    def save_configuration(self, number: int, init: bytes) -> None:
        self._writer.write(self._path(self._broadcast, MediaPiece.INIT, number), init)

    def save(self, segment: Segment, window: Window) -> None:
        """Write a complete segment; it says itself when it is there."""
        data = segment.data
        if data is None:
            return
        path = self.path(segment.name)

        def done(succeeded: bool) -> None:
            segment.is_saved = succeeded
            if succeeded:
                self._add_line(segment, window)

        self._writer.write(path, data, done)

    def forget(self, segment: Segment) -> None:
        """A segment has left the window for good."""
        if segment.is_saved:
            self._writer.delete(self.path(segment.name))

    def path(self, number: int) -> Path:
        """The file of a segment."""
        return self._path(self._broadcast, MediaPiece.SEGMENT, number)

    def _path(self, broadcast: str, piece: MediaPiece, number: int) -> Path:
        return self._folder / str(MediaName(piece, broadcast, self._rendition, number))

    def _add_line(self, segment: Segment, window: Window) -> None:
        """Append to the index, or write it anew when most of its lines are of segments that are gone."""
        index = self._folder / _INDEX
        if self._lines is not None and self._lines < 2 * len(window.segments) + 100:
            self._writer.append(index, segment_line(segment))
            self._lines += 1
            return
        saved = [one for one in window.segments if one.is_saved]
        head = head_line(self._broadcast, window.targets, window.discontinuities)
        self._writer.write(index, head + b"".join(map(segment_line, saved)))
        self._lines = len(saved)
