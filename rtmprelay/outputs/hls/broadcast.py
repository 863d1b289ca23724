"""One stream as HLS: an output that belongs to the stream, and not to its publisher or its viewers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from rtmprelay.hls.cuts import Targets
from rtmprelay.hls.multitrack import tracks_of_video
from rtmprelay.hls.names import MediaName, broadcast_name
from rtmprelay.hls.playlist import RenditionReport, Variant
from rtmprelay.hls.window import Window
from rtmprelay.interfaces import IStreamOutput
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.mp4.tracks import VideoTrack
from rtmprelay.outputs.hls.folder import WindowFolder, stream_folder
from rtmprelay.outputs.hls.rendition import Body, HlsRendition
from rtmprelay.outputs.hls.segment_writer import SegmentWriter
from rtmprelay.outputs.hls.settings import HlsLimits, HlsSettings
from rtmprelay.outputs.hls.waiting import WaitingRoom
from rtmprelay.streams.frames import FrameBatch, LiveFrame
from rtmprelay.streams.live_stream import LiveStream

#: Target durations within which every request is answered.
_LONGEST_WAIT_TARGETS = 3

#: How much of the time for which players wait a part may take: some of it is needed for the way.
_PATIENCE_OF_PLAYERS = 0.8

#: Seconds for which a request waits for the first playlist of a stream, whose target duration is not known yet.
_FIRST_WAIT = 10.0


@implementer(IStreamOutput)
class HlsBroadcast:
    """Packages a stream, and lets requests wait for what has not come yet.

    Args:
        wall_clock: Seconds since 1970.
        ended: Called when no publisher has returned.
        writer: Writes segments to the folder of the settings, if there is one.
        continues: Whether to go on with what an earlier run has left in that folder.

    Attributes:
        ended_at: When it ended, by the clock that never jumps; None while it goes on.
    """

    _log = Logger()

    def __init__(
        self,
        stream: LiveStream,
        settings: HlsSettings,
        limits: HlsLimits,
        clock: IReactorTime,
        wall_clock: Callable[[], float],
        ended: Callable[[HlsBroadcast], None],
        writer: SegmentWriter | None = None,
        continues: bool = True,
    ) -> None:
        self.stream = stream
        self.key = stream.key
        self.ended_at: float | None = None
        self._settings = settings
        self._limits = limits
        self._clock = clock
        self._wall_clock = wall_clock
        self._ended = ended
        self._targets = Targets(settings.part, settings.segment)
        self._writer = writer
        self._folder = None if settings.folder is None else stream_folder(settings.folder, stream.key)
        self.name = broadcast_name(wall_clock())
        self._renditions: dict[int, HlsRendition] = {}
        self._left_out: set[str] = set()
        self._told_cut = False
        self._waiting = WaitingRoom(clock, limits.hls_waiting)
        # The newest metadata and decoder configuration of the sound, for renditions that come later.
        self._sound_start: dict[object, MediaFrame] = {}
        if continues:
            self._continue()

    # -- from the stream -------------------------------------------------------------------------------------

    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        self._take(startup)

    def frames_arrived(self, batch: FrameBatch) -> None:
        self._take(batch.frames)

    def write(self, data: bytes) -> None:
        """Nothing is ever returned to be written."""

    def publisher_left(self) -> None:
        """The playlist waits for the publisher to return."""

    def publisher_returned(self) -> None:
        for rendition in self._renditions.values():
            rendition.packager.publisher_returned()

    def end(self, reason: str) -> None:
        """The publisher has not returned: the playlist is complete."""
        for rendition in self._renditions.values():
            rendition.end()
            rendition.forget_texts()
        self.ended_at = self._clock.seconds()
        self._waiting.close()
        self._ended(self)

    def _take(self, frames: Sequence[LiveFrame]) -> None:
        now = self._wall_clock()
        has_changed = False
        for live in frames:
            frame = live.frame
            if frame.kind is MediaKind.VIDEO:
                for number, one in tracks_of_video(frame):
                    has_changed |= self._rendition(number).take((one,), now)
                continue
            if live.startup_key is not None:
                self._sound_start[live.startup_key] = frame
            for rendition in self._renditions.values() or (self._rendition(0),):
                has_changed |= rendition.take((frame,), now)
        if has_changed:
            self._tell_if_cut()
            for rendition in self._renditions.values():
                rendition.forget_texts()
            if self._waiting:
                self._waiting.release(self._is_there)

    def _rendition(self, number: int) -> HlsRendition:
        rendition = self._renditions.get(number)
        if rendition is None:
            folder = self._window_folder(number)
            rendition = self._add_rendition(number, folder, self._new_window(folder))
            rendition.take(self._sound_start.values(), self._wall_clock())
        return rendition

    def _new_window(self, folder: WindowFolder | None) -> Window:
        limits, settings = self._limits, self._settings
        if folder is None:
            return Window(self._targets, settings.window, limits.hls_bytes)
        return Window(self._targets, settings.window, limits.hls_bytes, folder.forget)

    def _add_rendition(self, number: int, folder: WindowFolder | None, window: Window) -> HlsRendition:
        if folder is not None:
            folder.begin(self.name)
        rendition = self._renditions[number] = HlsRendition(
            number, self.name, window, self._settings.window, self._note_left_out, folder
        )
        return rendition

    # -- files -----------------------------------------------------------------------------------------------

    def _window_folder(self, number: int) -> WindowFolder | None:
        if self._folder is None or self._writer is None:
            return None
        return WindowFolder(self._folder, number, self._writer)

    def _continue(self) -> None:
        """Go on with what the last run of the relay has left on the disk."""
        folder = self._window_folder(0)
        since = self._wall_clock() - self._settings.window
        saved = None if folder is None else folder.load(self._targets, since)
        if folder is None or saved is None:
            return
        numbers = {segment.configuration for segment in saved.segments}
        try:
            configurations = {number: folder.initialization(saved.broadcast, number) for number in numbers}
        except OSError:
            return
        self._targets = saved.targets
        self.name = saved.broadcast
        window = self._new_window(folder)
        window.restore(saved.segments, configurations, saved.removed_discontinuities, saved.next_part)
        self._add_rendition(0, folder, window)

    def delete_files(self) -> None:
        """Nobody can ask for the broadcast any more."""
        if self._folder is not None and self._writer is not None:
            self._writer.delete_folder(self._folder)

    def file_of(self, name: MediaName) -> Path | None:
        """Where a piece of media is on a disk, if it is not in memory."""
        return self._renditions[name.rendition].file_of(name.piece, name.number)

    def _tell_if_cut(self) -> None:
        if not self._told_cut and any(window.was_cut for window in self.windows):
            self._told_cut = True
            self._log.warn(
                "Viewers of {stream} cannot go back {window:g} s: that is more than hls_bytes of --limit in memory"
                " (--hls-dir keeps segments as files)",
                stream=self.key,
                window=self._settings.window,
            )

    def _note_left_out(self, reason: str) -> None:
        if reason not in self._left_out:
            self._left_out.add(reason)
            self._log.warn("HLS of {stream} is without a track: {reason}", stream=self.key, reason=reason)

    # -- waiting ---------------------------------------------------------------------------------------------

    def _is_there(self, what: object) -> bool:
        match what:
            case (int(number), int(segment), int(part) | (None as part)):
                return self._renditions[number].window.has(segment, part)
            case (int(number), int(part)):
                return self._renditions[number].window.next_part > part
        return self.is_ready

    @property
    def longest_wait(self) -> float:
        """Seconds within which every request is answered."""
        duration = self._targets.duration
        return _FIRST_WAIT if duration is None else float(_LONGEST_WAIT_TARGETS * duration)

    def _patience(self, part: int | None) -> float:
        """Seconds for which a request for a playlist waits.

        hls.js gives up on a part after 0.8 target durations or three parts, and counts that as an error of the network. A
        publisher that is away would use up its attempts: the playlist as it is keeps it asking.
        """
        duration, part_target = self._targets.duration, self._targets.part_target
        if part is None or duration is None or part_target is None:
            return self.longest_wait
        return _PATIENCE_OF_PLAYERS * max(0.8 * duration, 3 * part_target)

    @property
    def target_duration(self) -> float:
        """Seconds; 0 while it is not known."""
        return float(self._targets.duration or 0)

    @property
    def is_ready(self) -> bool:
        """Whether there is a playlist."""
        return any(rendition.window.is_ready for rendition in self._renditions.values())

    def when_ready(self) -> Deferred[None] | None:
        """Fires when there is a playlist, or after a bounded time; None if there is one."""
        return (
            None
            if self.is_ready or self.ended_at is not None
            else self._waiting.wait("ready", self.longest_wait)
        )

    def when_reached(self, rendition: int, segment: int, part: int | None) -> Deferred[None] | None:
        """Fires when the playlist has this segment or part, or after a bounded time; None if it has it."""
        if self._renditions[rendition].window.has(segment, part):
            return None
        return self._waiting.wait((rendition, segment, part), self._patience(part))

    def when_part(self, rendition: int, number: int) -> Deferred[None] | None:
        """Fires when this part has come, or after a bounded time; None unless it is the one that comes next."""
        if number != self._renditions[rendition].window.next_part or self.ended_at is not None:
            return None
        return self._waiting.wait((rendition, number), self.longest_wait)

    # -- what there is ---------------------------------------------------------------------------------------

    def has_rendition(self, number: int) -> bool:
        rendition = self._renditions.get(number)
        return rendition is not None and (rendition.window.is_ready or number == 0)

    def has(self, rendition: int, segment: int, part: int | None) -> bool:
        """Whether the playlist has this segment or part."""
        return self._renditions[rendition].window.has(segment, part)

    def is_far_ahead(self, rendition: int, segment: int, part: int | None) -> bool:
        """Whether no player that has read the playlist asks for this."""
        return self._renditions[rendition].window.is_far_ahead(segment, part)

    def media_playlist(
        self, rendition: int, skip: bool, query: str, reports: Sequence[RenditionReport] = ()
    ) -> Body:
        """The media playlist of a rendition as it is now.

        Args:
            reports: Where other streams are that are variants of the same presentation.
        """
        own = [other.report("", query) for other in self._ready() if other.number != rendition]
        return self._renditions[rendition].text(skip, query, [*own, *reports])

    def reports(self, folder: str, query: str) -> list[RenditionReport]:
        """Where its renditions are, for the playlists of other streams."""
        return [rendition.report(folder, query) for rendition in self._ready()]

    def variants(self, query: str, folder: str = "") -> list[Variant]:
        """Its lines in a multivariant playlist.

        Args:
            query: Follows the URIs, if there is any.
            folder: Where it is, as seen from the multivariant playlist.
        """
        return [rendition.variant(folder, query) for rendition in self._ready()]

    def _ready(self) -> list[HlsRendition]:
        return [one for _, one in sorted(self._renditions.items()) if one.window.is_ready]

    def media(self, name: MediaName) -> bytes | None:
        """A piece of media, if it is there."""
        return self._renditions[name.rendition].media(name.piece, name.number)

    def had(self, name: MediaName) -> bool:
        """Whether a piece of media was there once."""
        return self._renditions[name.rendition].had(name)

    @property
    def media_type(self) -> bytes:
        tracks = [track for one in self._renditions.values() for track in one.window.tracks]
        return b"video/mp4" if any(isinstance(track, VideoTrack) for track in tracks) else b"audio/mp4"

    @property
    def held_bytes(self) -> int:
        """Media in memory."""
        return sum(rendition.window.held_bytes for rendition in self._renditions.values())

    @property
    def windows(self) -> Iterable[Window]:
        """What can be watched now, of each rendition; the first one is what most players show."""
        return [rendition.window for _, rendition in sorted(self._renditions.items())]
