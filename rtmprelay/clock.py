"""Time that never jumps: for everything that measures how long something takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorCore, IReactorTime
from zope.interface import implementer


@implementer(IReactorTime)
class SteadyClock:
    """A reactor's timers with the system's monotonic clock.

    Twisted's reactors tell the time of day. When that is set forward by a minute, every publisher would seem to
    have been silent for a minute.
    """

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor

    #: Seconds since some moment. Not a method of ours: the frame path asks for the time, and saves the call.
    seconds = staticmethod(time.monotonic)

    def callLater(  # noqa: N802
        self, delay: float, callable: Callable[..., Any], *args: object, **kwargs: object
    ) -> IDelayedCall:
        """Call something in so many seconds."""
        return self._reactor.callLater(delay, callable, *args, **kwargs)

    def getDelayedCalls(self) -> Sequence[IDelayedCall]:  # noqa: N802
        """All calls that wait."""
        return self._reactor.getDelayedCalls()


def steady(reactor: IReactorTime) -> IReactorTime:
    """A clock that does not jump; a test's clock stays as it is, because it is moved by hand."""
    return SteadyClock(reactor) if IReactorCore.providedBy(reactor) else reactor
