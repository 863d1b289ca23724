"""Streams as labels of metrics: a bounded number by their keys, all others together as `other`."""

from __future__ import annotations

import attrs

from rtmprelay.streams.accounting import AudienceAccount
from rtmprelay.streams.consumer import players
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamRegistry

#: Streams with a label of their own. Whoever publishes under ever new names must not fill a database.
MOST_STREAMS = 200

#: Longer names are not for labels.
_LONGEST_NAME = 200

OTHER = "other"


@attrs.frozen
class StreamTotals:
    """What is counted for a stream."""

    received_bytes: int = 0
    sent_bytes: int = 0
    dropped_messages: int = 0

    def plus(self, other: StreamTotals) -> StreamTotals:
        """Both together."""
        return StreamTotals(
            self.received_bytes + other.received_bytes,
            self.sent_bytes + other.sent_bytes,
            self.dropped_messages + other.dropped_messages,
        )

    def since(self, before: StreamTotals) -> StreamTotals:
        """What has been added; a count that is lower than before has begun anew."""
        return StreamTotals(
            _added(self.received_bytes, before.received_bytes),
            _added(self.sent_bytes, before.sent_bytes),
            _added(self.dropped_messages, before.dropped_messages),
        )


def _added(now: int, before: int) -> int:
    return now - before if now >= before else now


def totals_of(stream: LiveStream) -> StreamTotals:
    """The counts of a stream: what came in since its publisher began, and what all its players got."""
    audience = AudienceAccount()
    audience.add(stream.departed)
    for player in players(stream.subscribers):
        audience.add(player.account)
    return StreamTotals(stream.counters.bytes, audience.bytes_sent, audience.messages_dropped)


class StreamSeries:
    """Gives labels to streams. One keeps its label while it lives; counts of `other` never go down."""

    def __init__(self, registry: StreamRegistry, most: int = MOST_STREAMS) -> None:
        self._registry = registry
        self._most = most
        self._named: set[str] = set()
        self._seen: dict[str, StreamTotals] = {}
        #: What streams without a label of their own have been counted for so far.
        self.others = StreamTotals()

    def look(self) -> tuple[list[LiveStream], list[LiveStream]]:
        """The streams with a label of their own, and the others, whose counts are taken over."""
        streams = list(self._registry)
        there = {stream.key for stream in streams}
        self._named &= there
        named: list[LiveStream] = []
        others: list[LiveStream] = []
        for stream in streams:
            (named if self._has_name(stream.key) else others).append(stream)
        seen: dict[str, StreamTotals] = {}
        for stream in others:
            totals = seen[stream.key] = totals_of(stream)
            self.others = self.others.plus(totals.since(self._seen.get(stream.key, StreamTotals())))
        self._seen = seen
        return named, others

    def _has_name(self, key: str) -> bool:
        if key in self._named:
            return True
        if key in self._seen or key == OTHER or len(key) > _LONGEST_NAME or len(self._named) >= self._most:
            return False
        self._named.add(key)
        return True
