"""Hands events to everybody who wants to know them."""

from __future__ import annotations

import time
from collections.abc import Callable

from twisted.logger import Logger, LogLevel
from zope.interface import implementer

from rtmprelay.events import Event
from rtmprelay.interfaces import IEventSink

#: Not of a class, so that its lines are those of "rtmprelay" and not of a module.
_event_log = Logger(namespace="rtmprelay")


class EventBus:
    """Tells each event to every sink. A sink that fails is told on, and the others do not notice."""

    _log = Logger()

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._sinks: list[IEventSink] = []

    def add_sink(self, sink: IEventSink) -> None:
        """Tell this one too, from now on."""
        self._sinks.append(sink)

    def publish(self, event: Event) -> None:
        """Tell everybody."""
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
        """Log it."""
        _event_log.emit(
            LogLevel.levelWithName(event.level), event.sentence, event=event.name, **event.fields()
        )
