"""What is told of somebody who watches, by whatever protocol: from time to time, and at the end."""

from __future__ import annotations

import attrs

from rtmprelay.events import MediaStatistics, PlayStopped
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.stalls import StallMeter


@attrs.frozen
class _Total:
    """The account at the last report."""

    at: float
    messages: int = 0
    bytes: int = 0
    dropped: int = 0
    stalls: int = 0
    stalled_seconds: float = 0.0


class PlayReport:
    """Turns the account of a consumer into events."""

    def __init__(self, connection: str, stream: str, consumer: Consumer, now: float) -> None:
        self.stalls = StallMeter()
        self._connection = connection
        self._stream = stream
        self._consumer = consumer
        self._began = now
        self._last = _Total(now)

    @property
    def last_at(self) -> float:
        """When statistics were asked for last, or else the beginning."""
        return self._last.at

    def stopped(self, now: float, reason: str) -> PlayStopped:
        """The account of the whole play."""
        account = self._consumer.account
        self.stalls.transport_ready(now)
        return PlayStopped(
            connection=self._connection,
            stream=self._stream,
            duration=now - self._began,
            messages=account.messages_sent,
            bytes=account.bytes_sent,
            dropped=account.messages_dropped,
            dropped_by_reason=account.reasons(),
            reason=reason,
            stalls=self.stalls.count,
            stalled_seconds=self.stalls.seconds,
        )

    def statistics(self, now: float) -> MediaStatistics:
        """What was delivered since the last time this was asked."""
        account, before = self._consumer.account, self._last
        total = self._last = _Total(
            now,
            account.messages_sent,
            account.bytes_sent,
            account.messages_dropped,
            self.stalls.count,
            self.stalls.seconds,
        )
        seconds = now - before.at
        return MediaStatistics(
            connection=self._connection,
            stream=self._stream,
            role="player",
            seconds=seconds,
            kbps=(total.bytes - before.bytes) / 125 / seconds if seconds else 0.0,
            messages=total.messages - before.messages,
            bytes=total.bytes - before.bytes,
            dropped=total.dropped - before.dropped,
            queued=self._consumer.messages_queued,
            stalls=total.stalls - before.stalls,
            stalled_seconds=total.stalled_seconds - before.stalled_seconds,
        )
