"""HTTP gives way to live streams: after a little work it waits until the reactor has looked at everything else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

_T = TypeVar("_T")

#: Seconds of HTTP work in one turn of the reactor. A request takes about a tenth of this; a frame may wait that long.
BUDGET = 0.002


class Turns:
    """Does things at once while the turn has time left, and in order in later turns when it has not.

    Two hundred requests that arrive together would otherwise hold up every frame for as long as all of them take.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._began: float | None = None
        self._waiting: deque[Callable[[], None]] = deque()
        self._next: IDelayedCall | None = None

    def run(self, work: Callable[[], None]) -> None:
        """Do something now, or soon."""
        if self._waiting or self._is_over():
            self._waiting.append(work)
            self._ask()
            return
        if self._began is None:
            self._began = self._clock.seconds()
            self._ask()
        work()

    def gather(self, pieces: Iterator[_T]) -> Deferred[list[_T]]:
        """Collect what is made piece by piece, over as many turns as it takes."""
        done: Deferred[list[_T]] = Deferred()
        parts: list[_T] = []

        def work() -> None:
            try:
                for piece in pieces:
                    parts.append(piece)
                    if self._is_over():
                        self.run(work)
                        return
            except Exception:
                done.errback()
            else:
                done.callback(parts)

        self.run(work)
        return done

    def _is_over(self) -> bool:
        return self._began is not None and self._clock.seconds() - self._began > BUDGET

    def _ask(self) -> None:
        if self._next is None:
            self._next = self._clock.callLater(0, self._next_turn)

    def _next_turn(self) -> None:
        self._next = None
        self._began = None
        if not self._waiting:
            return
        self._began = self._clock.seconds()
        self._ask()
        # At least one: what waits must not wait for ever.
        self._waiting.popleft()()
        while self._waiting and not self._is_over():
            self._waiting.popleft()()

    def stop(self) -> None:
        """Forget everything."""
        self._waiting.clear()
        self._began = None
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next = None
