"""An RTMP client that publishes a live stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zope.interface import implementer

from rtmprelay.event_bus import EventBus
from rtmprelay.events import CodecDetected, MediaStatistics, PublishStopped
from rtmprelay.interfaces import IStreamPublisher
from rtmprelay.media import MediaFrame
from rtmprelay.streams.live_stream import LiveStream

#: Seconds after which a stream with only one kind of media is reported as such.
_CODEC_PATIENCE = 2.0

#: Reports of codecs for one publish: real streams change them once or twice, if ever.
_MOST_REPORTS = 10


@implementer(IStreamPublisher)
class Publication:
    """One `publish`: hands frames to the live stream, and reports what they are made of."""

    def __init__(
        self, connection_id: str, key: str, events: EventBus, superseded: Callable[[], None], now: float
    ) -> None:
        self.connection_id = connection_id
        self.key = key
        self._events = events
        self._superseded = superseded
        self._began = now
        self._reported_codecs: tuple[str | None, str | None] = (None, None)
        self._reports = 0
        self._reported_at = now
        self._reported = (0, 0)
        #: What it publishes, once it does.
        self.stream: LiveStream | None = None

    def publish_superseded(self) -> None:
        """Another publisher took over."""
        self._superseded()

    def frames_received(self, frames: Sequence[MediaFrame], now: float) -> None:
        """Pass frames on to everybody."""
        stream = self.stream
        if stream is None:
            return
        stream.publish_frames(frames, now)
        video, audio = self._reported_codecs
        # Names of codecs are shared constants, so that in the common case these are two comparisons of addresses.
        if stream.video_codec is not video or stream.audio_codec is not audio:
            self._report_codecs(stream, now)

    def _report_codecs(self, stream: LiveStream, now: float) -> None:
        """Report what is new; at first, wait a little for the second of two kinds of media."""
        codecs = (stream.video_codec, stream.audio_codec)
        first_report = self._reported_codecs == (None, None)
        if not first_report or None not in codecs or now - self._began >= _CODEC_PATIENCE:
            changed = codecs != self._reported_codecs
            self._reported_codecs = codecs
            if changed and self._reports < _MOST_REPORTS:
                self._reports += 1
                self._tell_codecs(*codecs)

    def _tell_codecs(self, video: str | None, audio: str | None) -> None:
        self._events.publish(
            CodecDetected(
                connection=self.connection_id,
                stream=self.key,
                stream_key=self.key,
                video=video,
                audio=audio,
            )
        )

    def stopped(self, reason: str, clean: bool, now: float) -> PublishStopped:
        """The account of the whole publish; a short one has its codecs reported only now."""
        if self.stream is not None and self._reported_codecs == (None, None):
            self._report_codecs(self.stream, self._began + _CODEC_PATIENCE)
        counters = self.stream.counters if self.stream is not None else None
        return PublishStopped(
            connection=self.connection_id,
            stream=self.key,
            reason=reason,
            clean=clean,
            duration=now - self._began,
            messages=counters.messages if counters else 0,
            bytes=counters.bytes if counters else 0,
        )

    def statistics(self, now: float) -> MediaStatistics:
        """What came in since the last time this was asked."""
        counters = self.stream.counters if self.stream is not None else None
        total = (counters.messages, counters.bytes) if counters else self._reported
        messages, size = total[0] - self._reported[0], total[1] - self._reported[1]
        seconds = now - self._reported_at
        self._reported, self._reported_at = total, now
        return MediaStatistics(
            connection=self.connection_id,
            stream=self.key,
            role="publisher",
            seconds=seconds,
            kbps=size / 125 / seconds if seconds else 0.0,
            messages=messages,
            bytes=size,
            dropped=0,
            queued=0,
        )
