"""An RTMP client that plays a live stream."""

from __future__ import annotations

from typing import Protocol

from typing_extensions import override
from zope.interface import implementer

from rtmprelay.events import MediaStatistics, PlayStopped
from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.rtmp.encoding import shared_encoder
from rtmprelay.streams.accounting import PlayReport
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.wire.names import StreamKey


class PlayerConnection(Protocol):
    """What a player needs of its connection."""

    connection_id: str
    chunk_size: int
    queue_limits: QueueLimits

    def write_media(self, data: bytes) -> None:
        """Send media."""

    def tell_unpublished(self, stream_id: int, key: StreamKey) -> None:
        """Say that the publisher has gone."""

    def tell_published(self, stream_id: int, key: StreamKey) -> None:
        """Say that the publisher is back."""


@implementer(IFrameSubscriber)
class Player(Consumer):
    """One `play`: a consumer that also hears of its publisher's coming and going."""

    audience = "rtmp"

    def __init__(
        self, connection: PlayerConnection, stream_id: int, key: StreamKey, stream: LiveStream, now: float
    ) -> None:
        super().__init__(
            connection.write_media, shared_encoder(connection.chunk_size, stream_id), connection.queue_limits
        )
        self._connection = connection
        self._stream_id = stream_id
        self._key = key
        self._untold_end = False
        self.stream = stream
        self._report = PlayReport(connection.connection_id, str(key), self, now)
        self.stalls = self._report.stalls

    def publisher_left(self) -> None:
        """Tell the client that no media comes for now; behind what still waits, since many players stop there."""
        self._untold_end = True
        if not self.messages_queued:
            self.drained()

    @override
    def drained(self) -> None:
        if self._untold_end:
            self._untold_end = False
            self._connection.tell_unpublished(self._stream_id, self._key)

    def publisher_returned(self) -> None:
        """Tell the client that media comes again."""
        if self._untold_end:
            self._untold_end = False
            self._connection.tell_unpublished(self._stream_id, self._key)
        self._connection.tell_published(self._stream_id, self._key)

    def stopped(self, now: float, reason: str) -> PlayStopped:
        """The account of the whole play."""
        return self._report.stopped(now, reason)

    def statistics(self, now: float) -> MediaStatistics:
        """What was delivered since the last time this was asked."""
        return self._report.statistics(now)
