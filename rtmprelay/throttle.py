"""Reports about something that may happen thousands of times a second: one now and then, with the count."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime


class Throttle:
    """Lets the first report through at once, then at most one in each interval. Those held back are counted.

    Args:
        interval: Seconds between two reports.
    """

    def __init__(self, clock: IReactorTime, interval: float = 1.0) -> None:
        self._clock = clock
        self._interval = interval
        self._reported_at: float | None = None
        self._unreported = 0

    def count(self, occurrences: int = 1) -> int:
        """Count something that happened. Returns how many to report now, these included; 0 to report nothing."""
        self._unreported += occurrences
        now = self._clock.seconds()
        if self._reported_at is not None and now - self._reported_at < self._interval:
            return 0
        return self.flush()

    def flush(self) -> int:
        """How many have not been reported yet; they count as reported from now on."""
        occurrences, self._unreported = self._unreported, 0
        if occurrences:
            self._reported_at = self._clock.seconds()
        return occurrences
