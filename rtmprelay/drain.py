"""Empties a relay before it stops: nobody new comes in, and those that are there leave one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

#: Seconds in which nobody is sent away: clients that were told to reconnect do so by themselves.
QUIET = 1.0

#: Seconds that a drain takes if nothing else is said.
DRAIN_FOR = 60.0

#: Seconds between two looks at who is left.
_LOOK_EVERY = 0.25


class DrainedClient(Protocol):
    """Somebody who is connected."""

    def ask_to_reconnect(self) -> None:
        """Tell the client, if it understands that, that it should connect anew."""

    def send_away(self) -> None:
        """End the connection with a word of goodbye."""


class Drain:
    """Sends the clients of a relay away, evenly over some time.

    Args:
        clients: Those that are connected, in the order in which they may go: players before publishers, on whom players
            depend.
    """

    _log = Logger()

    def __init__(
        self, clock: IReactorTime, clients: Callable[[], Iterable[DrainedClient]], duration: float
    ) -> None:
        self._clock = clock
        self._clients = clients
        self._duration = duration
        self._began = 0.0
        # How many there were at the beginning.
        self._count = 0
        self._timer: IDelayedCall | None = None
        #: Fires when nobody is left.
        self.finished: Deferred[None] = Deferred()

    def start(self) -> None:
        self._began = self._clock.seconds()
        clients = list(self._clients())
        self._count = len(clients)
        self._log.info(
            "Draining: {count} clients leave within {seconds:g} s", count=len(clients), seconds=self._duration
        )
        for client in clients:
            client.ask_to_reconnect()
        self._look()

    def stop(self) -> None:
        """Send nobody away any more."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        clients = list(self._clients())
        if not clients:
            self._log.info("Drained: nobody is connected any more")
            self.finished.callback(None)
            return
        for client in clients[: max(0, len(clients) - self._may_stay())]:
            client.send_away()
        self._timer = self._clock.callLater(_LOOK_EVERY, self._look)

    def _may_stay(self) -> int:
        """How many may still be connected: fewer and fewer, evenly over the time that is left after the quiet."""
        passed = self._clock.seconds() - self._began - QUIET
        if passed < 0:
            return self._count
        share = min(1.0, passed / max(self._duration - QUIET, _LOOK_EVERY))
        return self._count - int(self._count * share)
