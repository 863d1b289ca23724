"""One rendition in memory: frames go in, every version of its playlist goes through the checker."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urljoin

from rtmprelay.hls.cuts import Targets
from rtmprelay.hls.names import MediaPiece, read_media_name
from rtmprelay.hls.packager import Configuration, LeftOut, Packaged, Packager
from rtmprelay.hls.playlist import MediaPlaylist
from rtmprelay.hls.window import Window
from rtmprelay.media import MediaFrame
from tests.hls.checker import PlaylistChecker
from tests.hls.playlist import Playlist, read_playlist

URL = "http://relay.example/live/film/video0.m3u8"

#: The date of the first frame, in seconds since 1970.
BEGAN = 1_767_268_800.0


class Rendition:
    """A packager, its window and its playlist, checked at every change."""

    def __init__(self, part: float = 0.333, segment: float = 2.0, window: float = 30.0) -> None:
        self.targets = Targets(part, segment)
        self.packager = Packager(self.targets)
        self.window = Window(self.targets, window, 1 << 30)
        self.playlist = MediaPlaylist(self.window, "test", 0, window)
        self.checker = PlaylistChecker()
        self.left_out: list[str] = []
        self.configurations: list[Configuration] = []
        #: Every part and segment that a playlist has named, by name, as it was when it was named first.
        self.fetched: dict[str, bytes] = {}

    def send(self, frames: Iterable[MediaFrame], now: float | None = None) -> None:
        """Frames arrive one by one, each when its timestamp says, or all of them now."""
        for frame in frames:
            at = BEGAN + frame.timestamp_ms / 1000 if now is None else now
            self._apply(self.packager.take([frame], at))

    def end(self) -> None:
        self._apply(self.packager.finish())
        self.window.end()
        self.fetch()

    def _apply(self, packaged: list[Packaged]) -> None:
        for one in packaged:
            if isinstance(one, Configuration):
                self.configurations.append(one)
                self.window.configure(one)
            elif isinstance(one, LeftOut):
                self.left_out.append(one.reason)
            else:
                self.window.add(one)
                self.fetch()

    def fetch(self) -> None:
        """Read the playlist, as a whole and as a delta update, and all media that it names."""
        if not self.window.is_ready:
            return
        for skip in (False, True):
            self.checker.add(URL + ("?_HLS_skip=YES" if skip else ""), self.playlist.text(skip=skip))
        read = self.read()
        uris = [part.uri for segment in read.segments for part in segment.parts]
        uris += [segment.uri for segment in read.complete_segments if segment.uri]
        for uri in uris:
            if uri not in self.fetched:
                self.fetched[uri] = self.media(uri)

    def read(self) -> Playlist:
        return read_playlist(self.playlist.text())

    def media(self, uri: str) -> bytes:
        """What a URI of the playlist stands for."""
        name = read_media_name(urljoin(URL, uri).rpartition("/")[2])
        assert name is not None, uri
        if name.piece is MediaPiece.PART:
            data = self.window.part(name.number)
        elif name.piece is MediaPiece.INIT:
            data = self.window.init(name.number)
        else:
            segment = self.window.segment(name.number)
            data = None if segment is None else segment.data
        assert data is not None, f"{uri} is not there"
        return data
