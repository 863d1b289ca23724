"""Delivers events to all event sinks; the log is one of them."""

from __future__ import annotations

import time
from collections.abc import Callable

from twisted.logger import Logger, LogLevel
from zope.interface import implementer

from rtmprelay.events import AnyEvent, Event
from rtmprelay.interfaces import IEventSink

#: Its namespace is "rtmprelay" and not that of a module: log readers look for it.
_event_log = Logger(namespace="rtmprelay")


class EventBus:
    """Delivers each event to every sink. A sink that raises is logged; the other sinks still get the event."""

    _log = Logger()

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._sinks: list[IEventSink] = []

    def add_sink(self, sink: IEventSink) -> None:
        """Deliver all later events to this sink too."""
        self._sinks.append(sink)

    def publish(self, event: AnyEvent) -> None:
        """Deliver an event to every sink."""
        now = self._wall_clock()
        for sink in self._sinks:
            try:
                sink.event_happened(now, event)
            except Exception:
                self._log.failure("An event sink failed at {event}", event=event.name)


@implementer(IEventSink)
class LogSink:
    """Writes each event to the log, with its fields."""

    def event_happened(self, time: float, event: Event) -> None:
        _event_log.emit(
            LogLevel.levelWithName(event.log_level()), event.sentence, event=event.name, **event.fields()
        )
