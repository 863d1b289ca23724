"""Which events a hook gets, and a bounded queue for those that wait for a slow receiver."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from fnmatch import fnmatchcase

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from rtmprelay.errors import ConfigError
from rtmprelay.events import Event, event_types
from rtmprelay.throttle import Throttle

#: Seconds between two log lines about lost events.
_REPORT_INTERVAL = 10.0


def event_names() -> list[str]:
    return sorted(kind.name for kind in event_types())


def chosen_events(patterns: Sequence[str]) -> frozenset[str]:
    """The names of the events that match patterns such as `publish_*`; without patterns, all of them.

    Raises:
        ConfigError: A pattern matches no event.
    """
    known = event_names()
    chosen = set() if patterns else set(known)
    for pattern in patterns:
        found = {name for name in known if fnmatchcase(name, pattern)}
        if not found:
            raise ConfigError(f"there is no event {pattern!r}: {', '.join(known)} are known")
        chosen |= found
    return frozenset(chosen)


@attrs.frozen
class QueuedEvent:
    """An event, when it happened (seconds since 1970), and its number among the events of this hook."""

    time: float
    event: Event
    number: int


class EventQueue:
    """Keeps the newest events, and counts those that found no room.

    Args:
        receiver: What log lines call the receiver of the events.

    Attributes:
        lost: How many events were lost since the start.
    """

    _log = Logger()

    def __init__(self, max_events: int, clock: IReactorTime, receiver: str) -> None:
        self._max_events = max_events
        self._receiver = receiver
        self._events: deque[QueuedEvent] = deque()
        self._last_number = 0
        self._throttle = Throttle(clock, _REPORT_INTERVAL)
        self.lost = 0

    def __len__(self) -> int:
        return len(self._events)

    def put(self, time: float, event: Event) -> None:
        """Add an event. If there is no room, the oldest one is lost."""
        self._last_number += 1
        if len(self._events) >= self._max_events:
            self._events.popleft()
            self.count_lost(f"more than {self._max_events} wait")
        self._events.append(QueuedEvent(time, event, self._last_number))

    def take(self) -> QueuedEvent:
        return self._events.popleft()

    def clear(self, reason: str) -> None:
        """Lose all events that wait, and log everything that is not logged yet."""
        count = len(self._events)
        self._events.clear()
        self.count_lost(reason, count)
        self._report(self._throttle.flush(), reason)

    def count_lost(self, reason: str, count: int = 1) -> None:
        """Count lost events. They are logged together from time to time."""
        self.lost += count
        self._report(self._throttle.count(count), reason)

    def _report(self, count: int, reason: str) -> None:
        if count:
            self._log.warn(
                "{count} events were not sent to {receiver}: {reason} ({lost} in all)",
                count=count,
                receiver=self._receiver,
                reason=reason,
                lost=self.lost,
            )
