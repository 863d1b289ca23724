"""A live stream: remembers what late joiners need, and hands each frame to every subscriber."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain
from operator import attrgetter

import attrs
from twisted.logger import Logger

from rtmprelay.allowance import Allowance
from rtmprelay.amf.amf0 import AmfValue, Budget
from rtmprelay.flv import AnyCodec
from rtmprelay.flv.script import decode_metadata, is_clear_data_frame, is_metadata, without_set_data_frame
from rtmprelay.interfaces import IFrameSubscriber, IStreamPublisher
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.streams.accounting import AudienceAccount
from rtmprelay.streams.consumer import Consumer, Player, players
from rtmprelay.streams.fan_out import FanOut
from rtmprelay.streams.frames import METADATA_KEY, USUAL_LOOKS, FrameBatch, FrameRole, LiveFrame, look_at
from rtmprelay.streams.limits import StreamLimits
from rtmprelay.streams.merging import UNWATCHED, Merging, Pace
from rtmprelay.streams.startup_cache import StartupCache
from rtmprelay.streams.timeline import Timeline

#: Seconds' worth of metadata that may come at once: a long keyframe index.
_METADATA_SECONDS = 20

_seconds = attrgetter("seconds")


class StreamOrigin(enum.Enum):
    """Where the frames of a stream come from."""

    #: A publisher of this relay.
    PUBLISHED = enum.auto()
    #: Another server, as a rule of this relay's operator says.
    PULLED = enum.auto()
    #: Another node of the cluster, which sends it to destinations and records it.
    CLUSTER = enum.auto()


@attrs.define(eq=False)
class StreamCounters:
    """What arrived since the publisher began."""

    messages: int = 0
    bytes: int = 0
    video_frames: int = 0
    audio_frames: int = 0
    keyframes: int = 0

    def add(self, other: StreamCounters) -> None:
        """Add what another publisher sent."""
        self.messages += other.messages
        self.bytes += other.bytes
        self.video_frames += other.video_frames
        self.audio_frames += other.audio_frames
        self.keyframes += other.keyframes


class LiveStream:
    """One stream, known by its key: at most one publisher, any number of subscribers.

    Attributes:
        departed: The accounts of players that have left this stream, added up.
        previous_headers: The decoder configuration of the last publisher, once it is gone.
        largest_frame: Bytes of the largest frame of this publisher.
        visitors: Players that fetch media themselves, such as those of HLS, and are not subscribers.
        reading_pause: How many seconds the publisher's socket may be left to fill before it is read again.
    """

    _log = Logger()

    def __init__(self, key: str, limits: StreamLimits | None = None, merging: Merging | None = None) -> None:
        self.key = key
        self._limits = limits or StreamLimits()
        self.publisher: IStreamPublisher | None = None
        self.origin = StreamOrigin.PUBLISHED
        self.started_at = 0.0
        self.last_frame_at = 0.0
        self.video_codec: AnyCodec | None = None
        self.audio_codec: AnyCodec | None = None
        self.metadata: dict[str, AmfValue] = {}
        self.counters = StreamCounters()
        self.departed = AudienceAccount()
        self.previous_headers: dict[Hashable, bytes] = {}
        self.reading_pause = 0.0
        self.largest_frame = 0
        self.visitors: set[Player] = set()
        self._cache = StartupCache(self._limits)
        self._timeline = Timeline()
        self._fan_out = FanOut(merging, self._drop_failed)
        self._reading_window = merging.reading if merging else None
        self._metadata_values = Allowance(self._limits.metadata_value_rate, _METADATA_SECONDS)

    @property
    def subscribers(self) -> tuple[IFrameSubscriber, ...]:
        """Everybody who gets the frames."""
        return tuple(self._fan_out)

    @property
    def viewers(self) -> int:
        """How many people watch it."""
        return len(self._fan_out.subscribers(Pace.VIEWER)) + len(self.visitors)

    @property
    def players(self) -> Iterator[Player]:
        """Everybody who watches it: no destinations, no recorders."""
        return chain(players(self.subscribers), self.visitors)

    @property
    def is_unused(self) -> bool:
        """Whether it has neither a publisher nor subscribers nor visitors."""
        return self.publisher is None and not self.subscribers and not self.visitors

    @property
    def is_watched(self) -> bool:
        """Whether some subscriber would notice a delay."""
        return bool(self._fan_out.windows)

    @property
    def cache_bytes(self) -> int:
        """The bytes that are kept for late joiners."""
        return self._cache.size

    @property
    def cache_frames(self) -> int:
        """The frames that are kept for late joiners."""
        return len(self._cache)

    def limit_cache(self, size: int) -> bool:
        """Keep no more bytes than this for late joiners. Returns whether that is as much as usual."""
        return self._cache.limit(size)

    # -- publishers ------------------------------------------------------------------------------------------

    def is_silent(self, now: float) -> bool:
        """Whether the publisher has sent nothing for so long that it is considered dead."""
        return now - self.last_frame_at >= self._limits.silent_publisher

    def publisher_joined(self, publisher: IStreamPublisher, now: float) -> None:
        """A publisher begins; subscribers that stayed since the last one continue."""
        self.publisher = publisher
        self.started_at = self.last_frame_at = now
        self.counters = StreamCounters()
        self.largest_frame = 0
        self._forget_content()
        cache = self._cache
        if not self.subscribers:
            self._timeline.restart()
            cache.newest = None
        elif cache.newest is not None:
            self._timeline.resume(cache.newest, now - cache.newest_at)
        self._call_all(lambda subscriber: subscriber.publisher_returned())
        self._call_all(lambda subscriber: subscriber.begin([], False))

    def publisher_replaced(self, publisher: IStreamPublisher, now: float) -> None:
        """The same stream comes from another publisher from now on."""
        self.splice(now)
        self.publisher = publisher
        self.started_at = self.last_frame_at = now
        self.counters = StreamCounters()
        self._forget_content()

    def splice(self, now: float) -> None:
        """Called when frames with other timestamps follow from the same publisher: they go on where these end."""
        self.flush()
        cache = self._cache
        if cache.newest is not None:
            self._timeline.resume(cache.newest, now - cache.newest_at)

    def publisher_left(self) -> None:
        """The publisher is gone; subscribers stay."""
        self.flush()
        self.publisher = None
        self.previous_headers = {
            frame.startup_key: frame.frame.payload
            for frame in self._cache.startup_frames()
            if frame.startup_key != METADATA_KEY
        }
        self._forget_content()
        self._call_all(lambda subscriber: subscriber.publisher_left())

    def _forget_content(self) -> None:
        self._cache.clear()
        self.video_codec = self.audio_codec = None
        self.metadata = {}

    # -- subscribers -----------------------------------------------------------------------------------------

    def subscribe(self, subscriber: IFrameSubscriber, pace: Pace = Pace.VIEWER) -> None:
        """Give a newcomer the startup frames, and every frame from now on."""
        self._fan_out.add(subscriber, pace)
        if self.publisher is not None:
            subscriber.begin(*self.startup())

    def startup(self) -> tuple[list[LiveFrame], bool]:
        """What a newcomer needs first, and whether it must wait for a keyframe after that.

        Frames that wait to be joined are delivered first: they are part of the startup frames, and must not come again.
        """
        self.flush()
        cache = self._cache
        return cache.frames(), cache.has_keyframes and not cache.begins_with_keyframe

    def header(self, kind: MediaKind) -> bytes | None:
        """The decoder configuration of the video or of the audio, if it has come."""
        return self._cache.header(kind)

    def still(self) -> list[MediaFrame]:
        """What decodes to the picture of the latest keyframe; nothing if that is not kept."""
        return self._cache.still()

    @property
    def gop(self) -> tuple[int, int] | None:
        """The timestamps of the first and the last frame that late joiners get, if there are any."""
        return self._cache.gop

    def unsubscribe(self, subscriber: IFrameSubscriber) -> None:
        """Deliver nothing more to this subscriber."""
        self._fan_out.remove(subscriber)

    def flush(self) -> None:
        """Deliver the frames that wait to be joined with more."""
        self._fan_out.flush()

    # -- frames ----------------------------------------------------------------------------------------------

    def publish_frames(self, frames: Sequence[MediaFrame], now: float, waited: float = 0.0) -> None:
        """Look at what the publisher sent, place it on the timeline, remember it, and deliver it.

        This is the frame path: no waiting, no logging, no state machine, and no call for what is a line.

        Args:
            waited: The seconds that the frames may have been left in the publisher's socket.
        """
        self.last_frame_at = now
        counters = self.counters
        cache = self._cache
        timeline = self._timeline
        batch: list[LiveFrame] = []
        size = 0
        largest = self.largest_frame
        for frame in frames:
            kind = frame.kind
            if kind is MediaKind.DATA:
                data = self._take_data(frame, now)
                if data is None:
                    continue
                frame = data
            payload = frame.payload

            # Look.
            look = USUAL_LOOKS[kind].get(payload[:2]) or look_at(kind, payload)
            role = look.role
            codec = look.codec
            live = LiveFrame(frame, role, len(payload), look.startup_key, codec)
            if role <= FrameRole.AUDIO:
                if kind is MediaKind.AUDIO:
                    counters.audio_frames += 1
                else:
                    counters.video_frames += 1
                    if role is FrameRole.KEYFRAME:
                        counters.keyframes += 1
            if codec is not None:
                if kind is MediaKind.VIDEO:
                    self.video_codec = codec
                else:
                    self.audio_codec = codec

            # Place. Metadata has no time.
            if timeline.offset != 0 and look.startup_key != METADATA_KEY:
                placed = timeline.place(frame.timestamp_ms, role <= FrameRole.AUDIO)
                live.frame = MediaFrame(kind, placed, payload)

            # Remember.
            cache.remember(live, now)
            batch.append(live)
            size += live.size
            if live.size > largest:
                largest = live.size
        if not batch:
            return
        counters.messages += len(batch)
        counters.bytes += size
        self.largest_frame = largest
        fan_out = self._fan_out
        fan_out.publish(FrameBatch(batch, len(batch), size), now, waited)

        # The socket may fill for as long as the most impatient subscriber waits; recorders do not mind any delay, and those
        # who fetch HLS wait as viewers do.
        window = self._reading_window
        if window is not None:
            window.load += len(batch)
            if now >= window.measure_at:
                window.measure(now)
            if fan_out.windows:
                self.reading_pause = min(map(_seconds, fan_out.windows))
            else:
                self.reading_pause = window.seconds / UNWATCHED if self.visitors else window.seconds

    def _take_data(self, frame: MediaFrame, now: float) -> MediaFrame | None:
        """A data message without its envelope; None if it is one for the server, or metadata over its budget."""
        if is_clear_data_frame(frame.payload):
            self._cache.forget_startup(METADATA_KEY)
            self.metadata = {}
            return None
        payload = without_set_data_frame(frame.payload)
        if is_metadata(payload):
            budget = Budget(max_values=self._metadata_values.left(now))
            self.metadata = decode_metadata(payload, budget) or {}
            self._metadata_values.spend(budget.used)
            if budget.used > budget.max_values:
                return None
        return MediaFrame(frame.kind, frame.timestamp_ms, payload)

    # -- calling all subscribers -----------------------------------------------------------------------------

    def _call_all(self, call: Callable[[IFrameSubscriber], None]) -> None:
        for subscriber in self.subscribers:
            try:
                call(subscriber)
            except Exception:
                self._drop_failed(subscriber)

    def _drop_failed(self, subscriber: IFrameSubscriber) -> None:
        """A bug in one consumer stays with it: the others do not notice."""
        self._log.failure("A consumer of {stream} failed and gets no more frames", stream=self.key)
        self.unsubscribe(subscriber)
        if isinstance(subscriber, Consumer):
            subscriber.dropped_for_failure()
