"""One rendition of a broadcast: its packager, its window, and the texts of its playlist."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import attrs

from rtmprelay.hls.cuts import SegmentEnd
from rtmprelay.hls.names import MediaName, MediaPiece, playlist_name
from rtmprelay.hls.packager import Configuration, LeftOut, Packaged, Packager
from rtmprelay.hls.playlist import MediaPlaylist, RenditionReport, Variant
from rtmprelay.hls.window import Window
from rtmprelay.media import MediaFrame
from rtmprelay.outputs.hls.folder import WindowFolder

#: Texts of one version that are kept: whole and delta, with the signatures of one moment.
_MOST_TEXTS = 8

#: Bytes of a text whose compression would keep live streams waiting.
_LARGE = 65_536


@attrs.frozen
class Body:
    """Bytes that all viewers share, plain and compressed."""

    plain: bytes
    compressed: bytes


class HlsRendition:
    """Packages one video track with the sound.

    Args:
        left_out: Called with the reason why something is left out.
        folder: Where its window is kept as files; None for memory only.
    """

    def __init__(
        self,
        number: int,
        broadcast: str,
        window: Window,
        window_seconds: float,
        left_out: Callable[[str], None],
        folder: WindowFolder | None = None,
    ) -> None:
        self.number = number
        self.window = window
        self._left_out = left_out
        self._folder = folder
        last = window.segments[-1] if window.segments else None
        self.packager = Packager(window.targets, 0.0 if last is None else last.date + last.duration)
        self._playlist = MediaPlaylist(window, broadcast, number, window_seconds)
        self._texts: dict[tuple[bool, str], Body] = {}

    def take(self, frames: Iterable[MediaFrame], now: float) -> bool:
        """Package frames; the result is whether the playlist has changed."""
        return self._apply(self.packager.take(frames, now))

    def end(self) -> None:
        """Nothing more comes."""
        self._apply(self.packager.finish())
        self.window.end()

    def _apply(self, packaged: list[Packaged]) -> bool:
        version = self.window.version
        for one in packaged:
            if isinstance(one, Configuration):
                self.window.configure(one)
                if self._folder is not None:
                    self._folder.save_configuration(self.window.next_configuration - 1, one.init)
            elif isinstance(one, LeftOut):
                self._left_out(one.reason)
            else:
                self.window.add(one)
                if self._folder is not None and isinstance(one, SegmentEnd):
                    self._folder.save(self.window.segments[-1], self.window)
        return self.window.version != version

    # -- playlists -------------------------------------------------------------------------------------------

    def forget_texts(self) -> None:
        """Something that the playlist tells has changed."""
        self._texts.clear()

    def text(self, skip: bool, query: str, reports: Sequence[RenditionReport]) -> Body:
        """The playlist as it is now. Everybody who asks for the same gets the same bytes."""
        body = self._texts.get((skip, query))
        if body is None:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            text = self._playlist.text(skip, query, reports).encode()
            body = self._texts[skip, query] = Body(
                text, gzip.compress(text, 6 if len(text) < _LARGE else 1, mtime=0)
            )
        return body

    def report(self, folder: str, query: str) -> RenditionReport:
        """Where it is, for the playlists of the others.

        Args:
            folder: What stands in front of the name of its playlist there.
        """
        uri = folder + playlist_name(self.number) + (f"?{query}" if query else "")
        segment, parts = self.window.position
        if parts:
            return RenditionReport(uri, segment, parts - 1)
        last = self.window.segments[-1] if self.window.segments else None
        return RenditionReport(uri, max(0, segment - 1), max(0, len(last.parts) - 1) if last else 0)

    def variant(self, folder: str, query: str) -> Variant:
        """Its line in the multivariant playlist."""
        uri = folder + playlist_name(self.number) + (f"?{query}" if query else "")
        return Variant(uri, self.window, self.packager.frame_rate)

    # -- media -----------------------------------------------------------------------------------------------

    def media(self, piece: MediaPiece, number: int) -> bytes | None:
        """A piece of media, if it is there."""
        if piece is MediaPiece.INIT:
            return self.window.init(number)
        if piece is MediaPiece.PART:
            return self.window.part(number)
        segment = self.window.segment(number)
        return None if segment is None else segment.data

    def file_of(self, piece: MediaPiece, number: int) -> Path | None:
        """Where a piece is on a disk, if it is not in memory."""
        segment = self.window.segment(number) if piece is MediaPiece.SEGMENT else None
        is_there = segment is not None and segment.data is None and segment.is_saved
        return self._folder.path(number) if is_there and self._folder is not None else None

    def had(self, name: MediaName) -> bool:
        """Whether a piece was there once."""
        if name.piece is MediaPiece.INIT:
            return name.number < self.window.next_configuration
        if name.piece is MediaPiece.PART:
            return name.number < self.window.next_part
        return name.number < self.window.next_name
