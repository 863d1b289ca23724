"""Telling of refused connections without letting them fill the log."""

from __future__ import annotations

from collections import Counter

from twisted.internet.interfaces import IReactorTime

from rtmprelay.event_bus import EventBus
from rtmprelay.events import ConnectionRefused
from rtmprelay.throttle import Throttle


class RefusalLog:
    """Tells of the first refusal at once, and of those in the second behind it with the next one, as a number."""

    def __init__(self, events: EventBus, clock: IReactorTime) -> None:
        self._events = events
        self._throttle = Throttle(clock)
        #: All refusals so far, by the limit that was reached.
        self.by_limit: Counter[str] = Counter()

    def refused(self, peer: str, limit: str, reason: str) -> None:
        """A connection was refused."""
        self.by_limit[limit] += 1
        count = self._throttle.count()
        if count:
            self._events.publish(ConnectionRefused(peer=peer, reason=reason, others=count - 1))
