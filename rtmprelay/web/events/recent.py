"""The last events, for those who come later, and the news for those who listen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from twisted.logger import formatEvent
from zope.interface import implementer

from rtmprelay.events import Event
from rtmprelay.interfaces import IEventSink
from rtmprelay.web.api.shapes import Json
from rtmprelay.web.server.answers import iso_time

#: Events that are kept.
KEPT = 100

#: Names and reasons may come from strangers: longer ones are cut.
_LONGEST_TEXT = 1000

#: What comes every few seconds for each connection; a person looks for what is new.
_ROUTINE = frozenset({"media_statistics", "destination_statistics"})


def event_json(time: float, event: Event) -> Json:
    """An event as JSON, with its sentence filled in."""
    fields = {name: _cut(value) for name, value in event.fields().items()}
    sentence = formatEvent({"log_format": event.sentence, **fields})
    return {
        "time": iso_time(time),
        "event": event.name,
        "level": event.level,
        "sentence": _cut(sentence),
        **fields,
    }


def _cut(value: object) -> object:
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return value[:_LONGEST_TEXT] + "..."
    return value


@implementer(IEventSink)
class RecentEvents:
    """Remembers the last events. They become JSON only when somebody wants to see them."""

    def __init__(self) -> None:
        self._events: deque[tuple[float, Event]] = deque(maxlen=KEPT)
        self._listeners: list[Callable[[], None]] = []
        #: How many there have been.
        self.count = 0

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Tell this one that something happened, at once; what it was is in `between`."""
        self._listeners.append(listener)

    def event_happened(self, time: float, event: Event) -> None:
        """Remember it."""
        if event.name in _ROUTINE:
            return
        self.count += 1
        self._events.append((time, event))
        for listener in self._listeners:
            listener()

    def between(self, first: int, last: int) -> Iterator[Json]:
        """The events after the first so many, up to so many, oldest first; of a flood only the last."""
        kept = list(self._events)
        forgotten = self.count - len(kept)
        for time, event in kept[max(0, first - forgotten) : max(0, last - forgotten)]:
            yield event_json(time, event)
