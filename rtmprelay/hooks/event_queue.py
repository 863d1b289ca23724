"""Events that wait for somebody slow: bounded, and the oldest go first when it is full."""

from __future__ import annotations

from collections import deque

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from rtmprelay.events import Event
from rtmprelay.throttle import Throttle

#: Seconds between two lines about lost events.
_REPORT_INTERVAL = 10.0


@attrs.frozen
class QueuedEvent:
    """An event, when it happened, and its number among those that were meant to be told."""

    time: float
    event: Event
    number: int


class EventQueue:
    """Keeps the newest events, and counts those that found no room.

    Args:
        what: What the log calls whoever is slow.
    """

    _log = Logger()

    def __init__(self, most: int, clock: IReactorTime, what: str) -> None:
        self._most = most
        self._throttle = Throttle(clock, _REPORT_INTERVAL)
        self._what = what
        self._waiting: deque[QueuedEvent] = deque()
        self._last_number = 0
        #: All events that were lost so far.
        self.lost = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, time: float, event: Event) -> None:
        """Add an event; if there is no room, the oldest is lost."""
        self._last_number += 1
        if len(self._waiting) >= self._most:
            self._waiting.popleft()
            self.dropped(f"more than {self._most} wait")
        self._waiting.append(QueuedEvent(time, event, self._last_number))

    def take(self) -> QueuedEvent:
        """The oldest event."""
        return self._waiting.popleft()

    def clear(self, reason: str) -> None:
        """Give all up that wait."""
        count = len(self._waiting)
        self._waiting.clear()
        self.dropped(reason, count)
        self._report(self._throttle.flush(), reason)

    def dropped(self, reason: str, count: int = 1) -> None:
        """Events will not be told; say so, but not for each one anew."""
        self.lost += count
        self._report(self._throttle.count(count), reason)

    def _report(self, count: int, reason: str) -> None:
        if count:
            self._log.warn(
                "{count} events were not told to {what}: {reason} ({lost} in all)",
                count=count,
                what=self._what,
                reason=reason,
                lost=self.lost,
            )
