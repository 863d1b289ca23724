"""Asks the authorizers again about clients that publish or play: a token may have expired, or a key been removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from rtmprelay.access.gate import Gate
from rtmprelay.access.request import CANNOT_TELL, AccessRequest

#: Requests that are asked about in a row. An authorizer that answers at once must not keep streams waiting.
_AT_ONCE = 20

#: A request that was allowed, and what ends what came of it, for a reason. It ends nothing else: what was allowed may
#: have ended by itself meanwhile.
Granted = tuple[AccessRequest, Callable[[str], object]]


class Recheck:
    """Asks about one client after the other, every `interval` seconds.

    A client that cannot be checked at the moment stays: an authorizer that is down must not end everything.

    Args:
        interval: Seconds from the end of one round to the next; None for never.
        granted: Functions that return what clients were allowed and still do.
    """

    _log = Logger()

    def __init__(
        self,
        gate: Gate,
        interval: float | None,
        clock: IReactorTime,
        granted: Iterable[Callable[[], list[Granted]]],
    ) -> None:
        self._gate = gate
        self._interval = interval
        self._clock = clock
        self._granted = list(granted)
        self._timer: IDelayedCall | None = None
        self._round: Deferred[None] | None = None

    def add(self, granted: Callable[[], list[Granted]]) -> None:
        """Ask about what this function returns, too."""
        self._granted.append(granted)

    def start(self) -> None:
        if self._interval is not None and self._timer is None:
            self._timer = self._clock.callLater(self._interval, self._ask_all)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._round is not None:
            self._round.cancel()

    def _ask_all(self) -> None:
        self._timer = None
        self._round = Deferred.fromCoroutine(self._ask_each())
        self._round.addErrback(self._failed).addCallback(lambda _: self._round_ended())

    def _round_ended(self) -> None:
        self._round = None
        self.start()

    async def _ask_each(self) -> None:
        for number, (request, end) in enumerate([one for granted in self._granted for one in granted()], 1):
            verdict = await self._gate.ask_again(request)
            if not verdict.allowed and verdict != CANNOT_TELL:
                end(f"not allowed any more: {verdict.reason}")
            if number % _AT_ONCE == 0:
                await deferLater(self._clock, 0)

    def _failed(self, failure: Failure) -> None:
        self._log.failure("A bug in asking the authorizers again", failure)
