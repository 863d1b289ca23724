"""How often everything happened: events by name, and limits that somebody went over."""

from __future__ import annotations

from collections import Counter

from zope.interface import implementer

from rtmprelay.events import ConnectionClosed, Event
from rtmprelay.interfaces import IEventSink


@implementer(IEventSink)
class EventCounts:
    """Counts events. Their names, and those of the limits, are fixed in the code: there are never many."""

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter()
        self.limits: Counter[str] = Counter()

    def event_happened(self, time: float, event: Event) -> None:
        """Count it."""
        self.by_name[event.name] += 1
        if isinstance(event, ConnectionClosed) and event.limit is not None:
            self.limits[event.limit] += 1
