"""How late the reactor is: the time that something ready to run has to wait, because something else runs."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from twisted.internet.interfaces import IDelayedCall, IReactorTime

#: Seconds between two measurements.
INTERVAL = 0.25

#: Upper bounds of the histogram, in seconds. A frame every 16 ms is the pace that matters here.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

#: Measurements over which the largest is told: one minute.
_REMEMBERED = int(60 / INTERVAL)


class ReactorLag:
    """Asks to be called, again and again, and notes how late that happens."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._call: IDelayedCall | None = None
        self._due = 0.0
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)
        #: How many measurements were within each bound, and the rest.
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def start(self) -> None:
        """Measure from now on."""
        if self._call is None:
            self._ask()

    def stop(self) -> None:
        """Measure no more."""
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None

    def _ask(self) -> None:
        self._due = self._clock.seconds() + INTERVAL
        self._call = self._clock.callLater(INTERVAL, self._called)

    def _called(self) -> None:
        self.note(max(0.0, self._clock.seconds() - self._due))
        self._ask()

    def note(self, lag: float) -> None:
        """It was so late."""
        self._recent.append(lag)
        self.counts[bisect_left(BUCKETS, lag)] += 1
        self.sum += lag

    @property
    def last(self) -> float:
        """The last measurement."""
        return self._recent[-1] if self._recent else 0.0

    @property
    def largest(self) -> float:
        """The largest of the last minute."""
        return max(self._recent, default=0.0)

    def cumulative(self) -> list[tuple[str, float]]:
        """The histogram as Prometheus wants it: each count with all before it."""
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip([*map(str, BUCKETS), "+Inf"], self.counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets
