"""One rendition: finds the tracks in the frames of a publisher, and has them cut."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from rtmprelay.flv import AnyCodec
from rtmprelay.flv.script import is_metadata
from rtmprelay.flv.tags import audio_content, describe_audio, describe_video, video_content
from rtmprelay.hls.cuts import CodedFrame, Cut, Targets
from rtmprelay.hls.cutter import Cutter
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.mp4.fragments import FragmentEncoder
from rtmprelay.mp4.init_segment import init_segment
from rtmprelay.mp4.tracks import (
    MAX_WAIT_FRAMES,
    AnyTrack,
    AudioTrack,
    TrackFinder,
    UnsupportedMediaError,
    VideoTrack,
    check_codec,
)


@attrs.frozen
class Configuration:
    """The tracks from here on: an EXT-X-MAP, and before all but the first one an EXT-X-DISCONTINUITY."""

    video: VideoTrack | None
    audio: AudioTrack | None
    init: bytes


@attrs.frozen
class LeftOut:
    """Something that this output cannot hold. Told once for each reason."""

    reason: str


Packaged = Cut | Configuration | LeftOut


class Packager:
    """Turns frames into configurations, parts and ends of segments.

    Args:
        targets: What the playlist promises.
        not_before: The date of the first frame at least, in seconds since 1970.
    """

    def __init__(self, targets: Targets, not_before: float = 0.0) -> None:
        self._targets = targets
        self._not_before = not_before
        self._finder: TrackFinder | None = TrackFinder()
        # While the tracks are looked for.
        self._waiting: list[tuple[MediaFrame, float]] = []
        self._tracks = FragmentEncoder(None, None)
        self._cutter: Cutter | None = None
        self._told: set[str] = set()
        # The latest metadata: it says which tracks to wait for.
        self._metadata: MediaFrame | None = None

    def take(self, frames: Iterable[MediaFrame], now: float) -> list[Packaged]:
        """Package what arrived together, at a time in seconds since 1970."""
        packaged: list[Packaged] = []
        for frame in frames:
            try:
                self._take(frame, now, packaged)
            except UnsupportedMediaError as error:
                self._leave_out(str(error), packaged)
                self._look_again()
        return packaged

    def publisher_returned(self) -> None:
        """Another publisher goes on with the stream."""
        if self._cutter is not None:
            self._cutter.publisher_returned()

    def finish(self) -> list[Packaged]:
        """Nothing more comes: the parts that were not complete."""
        packaged: list[Packaged] = []
        if self._finder is not None and self._finder.has_media:
            self._begin(self._finder, packaged)
        if self._cutter is not None:
            packaged += self._cutter.finish()
        return packaged

    @property
    def frame_rate(self) -> float | None:
        """Pictures a second; None without video."""
        return None if self._cutter is None else self._cutter.frame_rate

    def _look_again(self) -> None:
        """Keep no more frames for tracks that are not found: what was found so far stays."""
        finder = self._finder
        if finder is not None and len(self._waiting) >= MAX_WAIT_FRAMES:
            self._waiting.clear()
            self._finder = TrackFinder(wait_for_keyframe=True)
            self._finder.video, self._finder.audio = finder.video, finder.audio

    # -- frames ----------------------------------------------------------------------------------------------

    def _take(self, frame: MediaFrame, now: float, packaged: list[Packaged]) -> None:
        if frame.kind is MediaKind.DATA:
            if is_metadata(frame.payload):
                self._metadata = frame
        else:
            check_codec(_codec_of(frame))
        if self._finder is None and self._tracks.is_changed_by(frame):
            self._change(frame, packaged)
        if self._finder is None:
            self._cut(frame, now, packaged)
            return
        self._waiting.append((frame, now))
        self._finder.note(frame)
        if self._finder.is_complete:
            self._begin(self._finder, packaged)

    def _change(self, frame: MediaFrame, packaged: list[Packaged]) -> None:
        """A decoder configuration came that is another one: end what there is, and look for the tracks again."""
        if self._cutter is not None:
            packaged += self._cutter.finish()
        finder = self._finder = TrackFinder(wait_for_keyframe=True)
        if self._metadata is not None:
            finder.note(self._metadata)
        # The track that does not change will not announce itself again.
        if frame.kind is MediaKind.VIDEO:
            finder.audio = self._tracks.audio
        else:
            finder.video = self._tracks.video

    def _begin(self, finder: TrackFinder, packaged: list[Packaged]) -> None:
        self._finder = None
        waiting, self._waiting = self._waiting, []
        not_before = self._not_before if self._cutter is None else self._cutter.end_date
        self._tracks = FragmentEncoder(finder.video, finder.audio)
        found = [track for track in (finder.video, finder.audio) if track is not None]
        self._cutter = Cutter(finder.video, finder.audio, self._targets, not_before)
        packaged.append(Configuration(finder.video, finder.audio, init_segment(found)))
        for frame, now in waiting:
            self._cut(frame, now, packaged)

    def _cut(self, frame: MediaFrame, now: float, packaged: list[Packaged]) -> None:
        assert self._cutter is not None, "the tracks are known"
        track: AnyTrack | None
        if frame.kind is MediaKind.VIDEO:
            content, track = video_content(frame.payload), self._tracks.video
        elif frame.kind is MediaKind.AUDIO:
            content, track = audio_content(frame.payload), self._tracks.audio
        else:
            return
        if content is None or track is None or content.configuration or content.codec != track.codec:
            return
        if not content.is_empty:
            data = memoryview(frame.payload)[content.begin : content.end]
            packaged += self._cutter.take(CodedFrame(frame.kind, frame.timestamp_ms, content, data, now))

    def _leave_out(self, reason: str, packaged: list[Packaged]) -> None:
        if reason not in self._told and len(self._told) < 16:
            self._told.add(reason)
            packaged.append(LeftOut(reason))


def _codec_of(frame: MediaFrame) -> AnyCodec | None:
    """The codec of track 0, if the payload has it. The tracks beside it may have any."""
    info = describe_video(frame.payload) if frame.kind is MediaKind.VIDEO else describe_audio(frame.payload)
    return info.codec if not info.tracks or 0 in info.tracks else None
