"""The last events, for clients of the event stream that connect later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from twisted.logger import formatEvent
from zope.interface import implementer

from rtmprelay.events import (
    AnyEvent,
    ClusterEvent,
    ConnectionEvent,
    DestinationEvent,
    DestinationStatistics,
    Event,
    EventLogEvent,
    MediaStatistics,
    PeerEvent,
    PublishStopped,
    PullEvent,
    RecordingEvent,
    RelayEvent,
)
from rtmprelay.interfaces import IEventSink
from rtmprelay.web.api.shapes import Json
from rtmprelay.web.server.responses import iso_time

#: Events that are kept.
KEPT = 100

#: Ends of streams that are kept beside them, and seconds for which the page shows one.
ENDS_KEPT = 20
ENDS_SHOWN_FOR = 600.0

#: Characters of a text: clients choose names and some reasons.
_MAX_TEXT = 1000


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
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return value[:_MAX_TEXT] + "..."
    return value


def _is_statistics(event: AnyEvent) -> bool:
    """Whether an event is published every few seconds for each connection, and would push out all the others."""
    match event:
        case MediaStatistics() | DestinationStatistics():
            return True
        case (
            RelayEvent()
            | ConnectionEvent()
            | DestinationEvent()
            | PullEvent()
            | ClusterEvent()
            | RecordingEvent()
            | EventLogEvent()
            | PeerEvent()
        ):
            return False


@implementer(IEventSink)
class RecentEvents:
    """Remembers the last events. They are converted to JSON only for clients that read them."""

    def __init__(self) -> None:
        self._events: deque[tuple[float, AnyEvent]] = deque(maxlen=KEPT)
        # Events of players would push them out.
        self._ends: deque[tuple[float, AnyEvent]] = deque(maxlen=ENDS_KEPT)
        self._listeners: list[Callable[[], None]] = []
        #: How many there were since the start, including those that are forgotten.
        self.count = 0

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call this at once when an event happens; `between` has the event."""
        self._listeners.append(listener)

    def event_happened(self, time: float, event: AnyEvent) -> None:
        if _is_statistics(event):
            return
        self.count += 1
        self._events.append((time, event))
        if isinstance(event, PublishStopped):
            self._ends.append((time, event))
        for listener in self._listeners:
            listener()

    def between(self, first: int, last: int) -> Iterator[Json]:
        """Events number `first` to `last` (without it), oldest first, except for those that are forgotten."""
        kept = list(self._events)
        forgotten = self.count - len(kept)
        for time, event in kept[max(0, first - forgotten) : max(0, last - forgotten)]:
            yield event_json(time, event)

    def ended(self) -> Iterator[Json]:
        """The ends of streams in the ten minutes before the last event, oldest first."""
        newest = self._events[-1][0] if self._events else 0.0
        for time, event in list(self._ends):
            if time > newest - ENDS_SHOWN_FOR:
                yield event_json(time, event)
