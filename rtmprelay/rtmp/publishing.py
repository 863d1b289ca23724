"""An RTMP client that publishes a live stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from zope.interface import implementer

from rtmprelay.event_bus import EventBus
from rtmprelay.events import CodecDetected, MediaStatistics, PublishStopped
from rtmprelay.flv import AnyCodec, display_name
from rtmprelay.interfaces import IStreamPublisher
from rtmprelay.media import MediaFrame
from rtmprelay.streams.live_stream import LiveStream

#: Seconds after which a stream with only one kind of media is reported as such.
_CODEC_PATIENCE = 2.0

#: Reports of codecs for one publish: real streams change them once or twice, if ever.
_MOST_REPORTS = 10


class PublisherConnection(Protocol):
    """What a publication needs of its connection."""

    connection_id: str

    @property
    def peer(self) -> str:
        """Where it comes from."""

    @property
    def event_bus(self) -> EventBus:
        """Whom to tell."""

    @property
    def reading_pause(self) -> float:
        """The seconds that what it sent may have been left in its socket."""

    def publish_superseded(self, stream_id: int) -> None:
        """Another publisher took the stream over."""

    def end_publish(self, stream_id: int, reason: str) -> None:
        """Tell the client that it may not go on."""


@implementer(IStreamPublisher)
class Publication:
    """One `publish`: hands frames to the live stream, and reports what they are made of."""

    def __init__(self, connection: PublisherConnection, stream_id: int, key: str, now: float) -> None:
        self.connection_id = connection.connection_id
        self.address = connection.peer
        self.key = key
        self._connection = connection
        self._stream_id = stream_id
        self._events = connection.event_bus
        self._began = now
        self._reported_codecs: tuple[AnyCodec | None, AnyCodec | None] = (None, None)
        self._reports = 0
        self._reported_at = now
        self._reported = (0, 0)
        #: What it publishes, once it does.
        self.stream: LiveStream | None = None

    @property
    def hurry(self) -> tuple[float, bool]:
        """How long its connection may be left unread, and whether only from when something has come."""
        stream = self.stream
        return (stream.reading_pause, stream.is_watched) if stream is not None else (0.0, True)

    def publish_superseded(self) -> None:
        """Another publisher took over."""
        self._connection.publish_superseded(self._stream_id)

    def publish_ended(self, reason: str) -> None:
        """Whoever runs the server wants it to end."""
        self._connection.end_publish(self._stream_id, reason)

    def frames_received(self, frames: Sequence[MediaFrame], now: float) -> None:
        """Pass frames on to everybody."""
        stream = self.stream
        if stream is None:
            return
        stream.publish_frames(frames, now, self._connection.reading_pause)
        video, audio = self._reported_codecs
        # Codecs are members of an enum, so in the common case these are two comparisons of addresses.
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

    def _tell_codecs(self, video: AnyCodec | None, audio: AnyCodec | None) -> None:
        self._events.publish(
            CodecDetected(
                connection=self.connection_id,
                stream=self.key,
                stream_key=self.key,
                video=display_name(video),
                audio=display_name(audio),
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
