"""Capture what is logged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer


@implementer(ILogObserver)
class KeptLog:
    """The log events between `start` and `stop`."""

    def __init__(self) -> None:
        self.events: list[LogEvent] = []

    def __call__(self, event: LogEvent) -> None:
        self.events.append(event)

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[LogEvent]:
        return iter(self.events)

    def __repr__(self) -> str:
        return repr(self.events)

    def clear(self) -> None:
        self.events.clear()

    def start(self) -> None:
        globalLogPublisher.addObserver(self)

    def stop(self) -> None:
        globalLogPublisher.removeObserver(self)

    @property
    def lines(self) -> list[str]:
        """The formatted messages."""
        return [formatEvent(event) for event in self.events]


@contextmanager
def kept_log() -> Iterator[KeptLog]:
    """Captures what is logged in the `with` block."""
    log = KeptLog()
    log.start()
    try:
        yield log
    finally:
        log.stop()
