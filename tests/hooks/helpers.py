"""Events for hooks."""

from __future__ import annotations

from rtmprelay.events import Event, PlayStarted, PublishStarted

#: 2026-11-16 12:00:00 UTC.
NOON = 1794830400.0


def started(number: int = 1) -> PublishStarted:
    """A stream is live."""
    return PublishStarted(connection=f"c{number:06d}", stream=f"live/{number}")


def watched(number: int = 1) -> Event:
    """Somebody watches."""
    return PlayStarted(connection=f"c{number:06d}", stream="live/x")
