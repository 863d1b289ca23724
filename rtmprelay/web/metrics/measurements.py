"""What the metrics measure for themselves: how often events happen, how late the reactor is, and totals by stream."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from rtmprelay.events import ConnectionClosed, ConnectRefused, Event, PlayRefused, PublishRefused
from rtmprelay.interfaces import IEventSink
from rtmprelay.streams.accounting import AudienceAccount
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamRegistry


@implementer(IEventSink)
class EventCounts:
    """Counts events by name, and closed connections by limit. The code defines both, so there are never many."""

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter()
        self.limits: Counter[str] = Counter()
        #: Refusals by the name of their event. Of many, only some are events of their own.
        self.refusals: Counter[str] = Counter()

    def event_happened(self, time: float, event: Event) -> None:
        self.by_name[event.name] += 1
        match event:
            case ConnectionClosed(limit=str() as limit):
                self.limits[limit] += 1
            case ConnectRefused() | PublishRefused() | PlayRefused():
                self.refusals[event.name] += 1 + event.others

    def refused(self, kind: type[Event]) -> int:
        return self.refusals[kind.name]


# -- the reactor ---------------------------------------------------------------------------------------------

#: Seconds between two measurements of the lag.
_LAG_INTERVAL = 0.25

#: Upper bounds of the histogram in seconds. At 60 frames per second a frame arrives every 0.016.
LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

#: Measurements that the largest lag is taken from: one minute.
_RECENT_LAGS = int(60 / _LAG_INTERVAL)


class ReactorLag:
    """Measures how much later than planned the reactor calls something, four times a second."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._call: IDelayedCall | None = None
        self._due = 0.0
        self._recent: deque[float] = deque(maxlen=_RECENT_LAGS)
        #: How many measurements were within each bound but not the one before; the last entry is for longer lags.
        self.counts = [0] * (len(LAG_BUCKETS) + 1)
        self.sum = 0.0

    def start(self) -> None:
        if self._call is None:
            self._schedule()

    def stop(self) -> None:
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None

    def _schedule(self) -> None:
        self._due = self._clock.seconds() + _LAG_INTERVAL
        self._call = self._clock.callLater(_LAG_INTERVAL, self._measure)

    def _measure(self) -> None:
        self.add(max(0.0, self._clock.seconds() - self._due))
        self._schedule()

    def add(self, lag: float) -> None:
        self._recent.append(lag)
        self.counts[bisect_left(LAG_BUCKETS, lag)] += 1
        self.sum += lag

    @property
    def largest(self) -> float:
        """The largest lag of the last minute."""
        return max(self._recent, default=0.0)

    def cumulative(self) -> list[tuple[str, float]]:
        """The histogram as Prometheus has it: each bucket also counts everything below it."""
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip([*map(str, LAG_BUCKETS), "+Inf"], self.counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets


# -- streams -------------------------------------------------------------------------------------------------

#: Streams with a label of their own. Publishers of ever new streams must not fill Prometheus' database.
MAX_LABELLED_STREAMS = 200

#: Characters of a label; streams with longer keys get none.
_MAX_LABEL = 200

#: The label that all other streams share.
OTHER = "other"


@attrs.frozen
class StreamTotals:
    received_bytes: int = 0
    sent_bytes: int = 0
    dropped_messages: int = 0

    def plus(self, other: StreamTotals) -> StreamTotals:
        return StreamTotals(
            self.received_bytes + other.received_bytes,
            self.sent_bytes + other.sent_bytes,
            self.dropped_messages + other.dropped_messages,
        )

    def since(self, before: StreamTotals) -> StreamTotals:
        """The growth since then. A total that is lower than before was reset."""
        return StreamTotals(
            _growth(self.received_bytes, before.received_bytes),
            _growth(self.sent_bytes, before.sent_bytes),
            _growth(self.dropped_messages, before.dropped_messages),
        )


def _growth(now: int, before: int) -> int:
    return now - before if now >= before else now


def totals_of(stream: LiveStream) -> StreamTotals:
    """What a stream received since its publisher began, and what all its players were sent."""
    audience = AudienceAccount()
    audience.add(stream.departed)
    for player in stream.players:
        audience.add(player.account)
    return StreamTotals(stream.counters.bytes, audience.bytes_sent, audience.messages_dropped)


class StreamLabels:
    """Gives labels to a bounded number of streams. A stream keeps its label; the totals of `other` never decrease."""

    def __init__(self, registry: StreamRegistry, limit: int = MAX_LABELLED_STREAMS) -> None:
        self._registry = registry
        self._limit = limit
        self._labelled: set[str] = set()
        # The last totals of the streams without a label.
        self._unlabelled: dict[str, StreamTotals] = {}
        #: The totals of all streams that had no label of their own.
        self.others = StreamTotals()

    def update(self) -> tuple[list[LiveStream], list[LiveStream]]:
        """Add the growth of unlabelled streams to `others`, and return the streams with a label and those without."""
        streams = list(self._registry)
        self._labelled &= {stream.key for stream in streams}
        labelled: list[LiveStream] = []
        others: list[LiveStream] = []
        for stream in streams:
            (labelled if self._has_label(stream.key) else others).append(stream)
        unlabelled: dict[str, StreamTotals] = {}
        for stream in others:
            totals = unlabelled[stream.key] = totals_of(stream)
            self.others = self.others.plus(totals.since(self._unlabelled.get(stream.key, StreamTotals())))
        self._unlabelled = unlabelled
        return labelled, others

    def _has_label(self, key: str) -> bool:
        if key in self._labelled:
            return True
        is_full = len(self._labelled) >= self._limit
        if key in self._unlabelled or key == OTHER or len(key) > _MAX_LABEL or is_full:
            return False
        self._labelled.add(key)
        return True
