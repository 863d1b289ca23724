"""HTTP-MP4: live frames as fragmented MP4."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from typing_extensions import override

from rtmprelay.flv import AnyCodec
from rtmprelay.media import MediaFrame
from rtmprelay.mp4.fragments import FragmentEncoder, FragmentPlacer, TimeWentBackError
from rtmprelay.mp4.init_segment import init_segment
from rtmprelay.mp4.tracks import CODECS_WITHOUT_HEADER, SUPPORTED_CODECS, TrackFinder, UnsupportedMediaError
from rtmprelay.outputs.http_viewer import HttpViewer
from rtmprelay.streams.frames import FrameBatch, FrameRole, LiveFrame
from rtmprelay.web.server.responses import HttpError

MP4_TYPE = b"video/mp4"


@attrs.frozen(cache_hash=True)
class Mp4FrameEncoder:
    """Frames as fragments, which all viewers of the same tracks share; each viewer puts them on its own timeline."""

    fragments: FragmentEncoder

    def encode(self, frames: Sequence[MediaFrame]) -> bytes:
        """One fragment; no bytes if the frames have no media."""
        return self.fragments.encode(frames)


_NO_TRACKS_YET = Mp4FrameEncoder(FragmentEncoder(None, None))


class Mp4Viewer(HttpViewer):
    """Gets the first fragment once it is known which tracks there are, and is ended when they change.

    An MP4 names its tracks at its beginning, and cannot have others after that.
    """

    audience = "mp4"

    _placer: FragmentPlacer
    _tracks: FragmentEncoder
    _known_codecs: frozenset[AnyCodec | None]
    # While this looks for the tracks, frames wait in the queue.
    _finder: TrackFinder | None = None

    @override
    def open(self) -> None:
        self._finder = TrackFinder()
        self.attach(self._write_fragment, _NO_TRACKS_YET)
        self.transport_full()

    @override
    def transport_ready(self) -> None:
        if self._finder is None:
            super().transport_ready()

    @override
    def take_startup(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        super().take_startup(startup, wait_for_keyframe)
        self._finder = TrackFinder(wait_for_keyframe)
        self._look_at(startup)
        self._begin_if_known()

    @override
    def take_batch(self, batch: FrameBatch) -> bytes | None:
        if self._finder is None and self._first_change(batch.frames) is None:
            return super().take_batch(batch)
        self._take_frames(batch.frames)
        return None

    def _take_frames(self, frames: Sequence[LiveFrame]) -> None:
        if self._finder is not None:
            looked_at = self._look_at(frames)
            if self._ending is not None:
                return
            self.enqueue(frames[:looked_at])
            self._begin_if_known()
            frames = frames[looked_at:]
        if not frames or self._ending is not None:
            return
        change = self._first_change(frames)
        self.enqueue(frames[:change])
        self.drain()
        if change is not None:
            self.end_after_queue("the codecs of the stream changed")

    # -- the beginning ---------------------------------------------------------------------------------------

    def _look_at(self, frames: Sequence[LiveFrame]) -> int:
        """Look for the tracks. Returns how many frames that took."""
        finder = self._finder
        assert finder is not None, "the tracks are known"
        try:
            for index, live in enumerate(frames):
                finder.note(live.frame)
                if finder.is_complete:
                    return index + 1
        except UnsupportedMediaError as error:
            self.refuse(cannot_be_mp4(self.stream.key, error))
        return len(frames)

    def _begin_if_known(self) -> None:
        if self._finder is not None and self._finder.is_complete and self._ending is None:
            self._begin_media(self._finder)

    def _begin_media(self, finder: TrackFinder) -> None:
        self._finder = None
        tracks = self._tracks = FragmentEncoder(finder.video, finder.audio)
        self._placer = FragmentPlacer(tracks, finder.begin_ms)
        found = [track for track in (tracks.video, tracks.audio) if track is not None]
        # A decoder configuration announces every other codec.
        unannounced = CODECS_WITHOUT_HEADER - {track.codec for track in found}
        self._known_codecs = frozenset[AnyCodec | None]((None, *SUPPORTED_CODECS)) - unannounced
        self.attach(self._write_fragment, Mp4FrameEncoder(tracks))
        self._response.begin(MP4_TYPE)
        self._response.write_parts(init_segment(found))
        self.transport_ready()

    # -- media -----------------------------------------------------------------------------------------------

    def _first_change(self, frames: Sequence[LiveFrame]) -> int | None:
        """The index of the first frame that does not fit the tracks."""
        known = self._known_codecs
        for index, live in enumerate(frames):
            if live.role is FrameRole.STARTUP:
                if self._tracks.is_changed_by(live.frame):
                    return index
            elif live.codec not in known:
                return index
        return None

    def _write_fragment(self, fragment: bytes) -> None:
        if fragment:
            try:
                placed = self._placer.place(fragment)
            except TimeWentBackError as error:
                self.end_now(str(error))
            else:
                self._response.write_parts(*placed)

    # -- the end ---------------------------------------------------------------------------------------------

    @override
    def end_after_queue(self, reason: str) -> None:
        finder = self._finder
        if finder is None:
            super().end_after_queue(reason)
        elif finder.has_media:
            self._begin_media(finder)
            super().end_after_queue(reason)
        else:
            key = self.stream.key
            self.refuse(HttpError(404, f"{key} ended before it sent anything that can be played"))


def cannot_be_mp4(key: str, error: UnsupportedMediaError) -> HttpError:
    """The response to a request for a stream that cannot be sent as MP4."""
    return HttpError(
        415,
        f"{key} cannot be sent as MP4: {error}. Ask for {key}.flv, which passes every codec on unchanged.",
    )
