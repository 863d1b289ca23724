"""Telling of refused connections without letting them fill the log."""

from __future__ import annotations

from collections import Counter

from twisted.internet.interfaces import IReactorTime

from rtmprelay.event_bus import EventBus
from rtmprelay.events import ConnectionRefused

#: Seconds between two lines about refused connections.
_QUIET = 1.0


class RefusalLog:
    """Tells of the first refusal at once, and of those in the second behind it with the next one, as a number."""

    def __init__(self, events: EventBus, clock: IReactorTime) -> None:
        self._events = events
        self._clock = clock
        self._told_at: float | None = None
        self._untold = 0
        #: All refusals so far, by the limit that was reached.
        self.by_limit: Counter[str] = Counter()

    def refused(self, peer: str, limit: str, reason: str) -> None:
        """A connection was refused."""
        self.by_limit[limit] += 1
        now = self._clock.seconds()
        if self._told_at is not None and now - self._told_at < _QUIET:
            self._untold += 1
            return
        self._told_at = now
        more, self._untold = self._untold, 0
        self._events.publish(ConnectionRefused(peer=peer, reason=reason, others=more))
