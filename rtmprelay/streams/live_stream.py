"""A live stream: remembers what late joiners need, and hands each frame to every subscriber."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import attrs
from twisted.logger import Logger

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv import AnyCodec
from rtmprelay.flv.script import decode_metadata, is_clear_data_frame, without_set_data_frame
from rtmprelay.interfaces import IFrameSubscriber, IStreamPublisher
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.streams.audience import AudienceAccount
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.fan_out import FanOut
from rtmprelay.streams.frames import METADATA_KEY, FrameBatch, FrameRole, LiveFrame, live_frame
from rtmprelay.streams.limits import StreamLimits
from rtmprelay.streams.merging import Merging, Pace
from rtmprelay.streams.startup_cache import StartupCache
from rtmprelay.streams.timeline import Timeline


@attrs.define(eq=False)
class StreamCounters:
    """What came in since the publisher began."""

    messages: int = 0
    bytes: int = 0
    video_frames: int = 0
    audio_frames: int = 0
    keyframes: int = 0

    def add(self, other: StreamCounters) -> None:
        """Take what another publisher sent into the account."""
        self.messages += other.messages
        self.bytes += other.bytes
        self.video_frames += other.video_frames
        self.audio_frames += other.audio_frames
        self.keyframes += other.keyframes


class LiveStream:
    """One stream, known by its key: at most one publisher, any number of subscribers."""

    _log = Logger()

    def __init__(self, key: str, limits: StreamLimits | None = None, merging: Merging | None = None) -> None:
        self.key = key
        self._limits = limits or StreamLimits()
        self.publisher: IStreamPublisher | None = None
        self.started_at = 0.0
        self.last_frame_at = 0.0
        self.video_codec: AnyCodec | None = None
        self.audio_codec: AnyCodec | None = None
        self.metadata: dict[str, AmfValue] = {}
        self.counters = StreamCounters()
        #: What players of this stream that have left got and lost.
        self.departed = AudienceAccount()
        #: The decoder configuration of the last publisher, once it has left.
        self.previous_headers: dict[Hashable, bytes] = {}
        self._cache = StartupCache(self._limits)
        self._timeline = Timeline()
        self._fan_out = FanOut(merging, self._drop_failed)
        self._intake = merging.intake if merging else None
        #: How long the publisher's socket may be left to fill before it is read again.
        self.reading_pause = 0.0

    @property
    def subscribers(self) -> tuple[IFrameSubscriber, ...]:
        """Everybody who gets the frames."""
        return tuple(self._fan_out)

    @property
    def viewers(self) -> int:
        """How many people look at it."""
        return len(self._fan_out.subscribers(Pace.VIEWER))

    @property
    def is_unused(self) -> bool:
        """Whether nobody publishes and nobody listens."""
        return self.publisher is None and not self.subscribers

    # -- publishers ------------------------------------------------------------------------------------------

    def is_silent(self, now: float) -> bool:
        """Whether the publisher has sent nothing for so long that it is taken for dead."""
        return now - self.last_frame_at >= self._limits.silent_publisher

    def publisher_joined(self, publisher: IStreamPublisher, now: float) -> None:
        """A publisher begins; those who stayed since the last one go on."""
        self.publisher = publisher
        self.started_at = self.last_frame_at = now
        self.counters = StreamCounters()
        self._forget_content()
        if self.subscribers:
            self._timeline.resume(now)
        else:
            self._timeline.restart()
        self._tell_all(lambda subscriber: subscriber.publisher_returned())
        self._tell_all(lambda subscriber: subscriber.begin([], False))

    def publisher_left(self) -> None:
        """The publisher has gone; subscribers stay."""
        self.flush()
        self.publisher = None
        self.previous_headers = {
            frame.startup_key: frame.frame.payload
            for frame in self._cache.startup_frames()
            if frame.startup_key != METADATA_KEY
        }
        self._forget_content()
        self._tell_all(lambda subscriber: subscriber.publisher_left())

    def _forget_content(self) -> None:
        self._cache = StartupCache(self._limits)
        self.video_codec = self.audio_codec = None
        self.metadata = {}

    # -- subscribers -----------------------------------------------------------------------------------------

    def subscribe(self, subscriber: IFrameSubscriber, pace: Pace = Pace.VIEWER) -> None:
        """Hand the startup frames to a newcomer, and every frame from now on."""
        self._fan_out.add(subscriber, pace)
        if self.publisher is not None:
            subscriber.begin(*self.startup())

    def startup(self) -> tuple[list[LiveFrame], bool]:
        """What a newcomer needs first, and whether it must wait for a keyframe behind that.

        What waited to be handed on is handed on before: it is part of the answer, and must not come again behind it.
        """
        self.flush()
        cache = self._cache
        frames = cache.frames(self._timeline.newest or 0)
        return frames, cache.has_keyframes and not cache.begins_with_keyframe

    def header(self, kind: MediaKind) -> bytes | None:
        """The decoder configuration of the pictures or of the sound, if it has come."""
        return self._cache.header(kind)

    @property
    def gop(self) -> tuple[int, int] | None:
        """From which timestamp to which there are frames for late joiners, if there are any."""
        return self._cache.gop

    def unsubscribe(self, subscriber: IFrameSubscriber) -> None:
        """Hand it nothing more."""
        self._fan_out.remove(subscriber)

    def flush(self) -> None:
        """Hand on what waits to be joined with more."""
        self._fan_out.flush()

    @property
    def is_watched(self) -> bool:
        """Whether there is anybody who would notice a delay."""
        return self._fan_out.is_watched

    # -- frames ----------------------------------------------------------------------------------------------

    def publish_frames(self, frames: Sequence[MediaFrame], now: float, waited: float = 0.0) -> None:
        """Pass on what the publisher sent. This is the frame path: no waiting, no logging, no state machine.

        Args:
            waited: The seconds that the frames may have been left in the publisher's socket.
        """
        self.last_frame_at = now
        taken = [self._take(frame, now) for frame in frames]
        batch = FrameBatch([frame for frame in taken if frame is not None])
        if not batch.count:
            return
        counters = self.counters
        counters.messages += batch.count
        counters.bytes += batch.size
        self._fan_out.publish(batch, now, waited)
        self._think_pause_over(now)

    def _think_pause_over(self, now: float) -> None:
        """Nobody waits longer than whoever is in the greatest hurry; recorders do not mind."""
        intake = self._intake
        if intake is not None:
            intake.count(1, now)
            window = self._fan_out.shortest_window
            self.reading_pause = intake.seconds if window is None else window

    def _take(self, frame: MediaFrame, now: float) -> LiveFrame | None:
        if frame.kind is MediaKind.DATA:
            if is_clear_data_frame(frame.payload):
                self._cache.forget_startup(METADATA_KEY)
                self.metadata = {}
                return None
            frame = MediaFrame(frame.kind, frame.timestamp_ms, without_set_data_frame(frame.payload))
        live = live_frame(frame)
        role = live.role
        if live.startup_key != METADATA_KEY:
            placed = self._timeline.place(frame.timestamp_ms, role <= FrameRole.AUDIO, now)
            if placed != frame.timestamp_ms:
                live.frame = MediaFrame(frame.kind, placed, frame.payload)
        self._cache.remember(live)
        self._count(live, role)
        return live

    def _count(self, live: LiveFrame, role: FrameRole) -> None:
        counters = self.counters
        if role <= FrameRole.AUDIO:
            if live.frame.kind is MediaKind.AUDIO:
                counters.audio_frames += 1
            else:
                counters.video_frames += 1
                if role is FrameRole.KEYFRAME:
                    counters.keyframes += 1
        if live.codec is not None:
            if live.frame.kind is MediaKind.VIDEO:
                self.video_codec = live.codec
            else:
                self.audio_codec = live.codec
        elif live.startup_key == METADATA_KEY:
            self.metadata = decode_metadata(live.frame.payload) or {}

    # -- telling everybody -----------------------------------------------------------------------------------

    def _tell_all(self, tell: Callable[[IFrameSubscriber], None]) -> None:
        for subscriber in self.subscribers:
            try:
                tell(subscriber)
            except Exception:
                self._drop_failed(subscriber)

    def _drop_failed(self, subscriber: IFrameSubscriber) -> None:
        """One consumer's failure is its own: the others do not notice."""
        self._log.failure("A consumer of {stream} failed and gets no more frames", stream=self.key)
        self.unsubscribe(subscriber)
        if isinstance(subscriber, Consumer):
            subscriber.dropped_for_failure()
