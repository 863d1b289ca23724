"""When to try again after a failure."""

from __future__ import annotations

import attrs


@attrs.define
class Backoff:
    """Delays that double each time, up to the longest."""

    first: float
    longest: float
    _last: float | None = attrs.field(init=False, default=None)

    def next_delay(self) -> float:
        self._last = self.first if self._last is None else min(2 * self._last, self.longest)
        return self._last

    def reset(self) -> None:
        """Begin with the first delay again."""
        self._last = None


class Outage:
    """A period in which a disk does not work. The delay between attempts grows.

    It ends when nothing has failed for `recovered_after` seconds: a disk that fails now and then has one outage,
    which is reported once.

    Attributes:
        error: What began it, or failed last; None while there is no outage.
    """

    def __init__(self, retry_after: float, longest_retry: float, recovered_after: float) -> None:
        self._backoff = Backoff(retry_after, longest_retry)
        self._recovered_after = recovered_after
        self._retry_at = 0.0
        self._working_since: float | None = None
        self.error: str | None = None

    def failed(self, error: str, now: float, retry_at_once: bool = False) -> bool:
        """Count a failure. Returns whether an outage begins with it."""
        begins = self.error is None
        if begins or retry_at_once:
            self._backoff.reset()
        self.error = error
        self._working_since = None
        self._retry_at = now if retry_at_once else now + self._backoff.next_delay()
        return begins

    def worked(self, now: float) -> None:
        if self.error is None:
            return
        if self._working_since is None:
            self._working_since = now
        elif now - self._working_since >= self._recovered_after:
            self.error = None

    def must_wait(self, now: float) -> bool:
        """Whether it is too early for the next attempt."""
        return self.error is not None and now < self._retry_at
