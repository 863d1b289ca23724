"""A clock that never jumps, for everything that measures how long something takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorCore, IReactorTime
from zope.interface import implementer


@implementer(IReactorTime)
class SteadyClock:
    """A reactor's timers with the system's monotonic clock.

    Twisted's reactors use the wall clock. When that is set forward by a minute, every publisher would seem to have been
    silent for a minute.
    """

    #: Seconds since some moment. A built-in function: the frame path reads the time, and saves a call.
    seconds = staticmethod(time.monotonic)

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor

    def callLater(  # noqa: N802
        self, delay: float, callable: Callable[..., Any], *args: object, **kwargs: object
    ) -> IDelayedCall:
        return self._reactor.callLater(delay, callable, *args, **kwargs)

    def getDelayedCalls(self) -> Sequence[IDelayedCall]:  # noqa: N802
        return self._reactor.getDelayedCalls()


def steady(reactor: IReactorTime) -> IReactorTime:
    """A clock that does not jump. The clock of a test is returned as it is: the test moves it."""
    return SteadyClock(reactor) if IReactorCore.providedBy(reactor) else reactor
