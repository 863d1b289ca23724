"""Keeping what is logged, for tests that look at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer


@implementer(ILogObserver)
class KeptLog:
    """All that was logged since it was made."""

    def __init__(self) -> None:
        self.events: list[LogEvent] = []

    def __call__(self, event: LogEvent) -> None:
        """Keep it."""
        self.events.append(event)

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[LogEvent]:
        return iter(self.events)

    def __repr__(self) -> str:
        return repr(self.events)

    def clear(self) -> None:
        """Forget it."""
        self.events.clear()

    def start(self) -> None:
        """Keep from now on."""
        globalLogPublisher.addObserver(self)

    def stop(self) -> None:
        """Keep no more."""
        globalLogPublisher.removeObserver(self)

    @property
    def lines(self) -> list[str]:
        """As people read it."""
        return [formatEvent(event) for event in self.events]


@contextmanager
def kept_log() -> Iterator[KeptLog]:
    """What is logged inside."""
    log = KeptLog()
    log.start()
    try:
        yield log
    finally:
        log.stop()
