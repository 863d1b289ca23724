"""Requests that wait for something that has not come yet, for a bounded time."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from rtmprelay.errors import LimitExceededError


@attrs.define(eq=False)
class _Waiter:
    done: Deferred[None]
    timer: IDelayedCall


class WaitingRoom:
    """Requests by what they wait for. All that wait for the same thing are let go together.

    Args:
        most: Requests that may wait at the same time.
    """

    def __init__(self, clock: IReactorTime, most: int) -> None:
        self._clock = clock
        self._most = most
        self._waiting: dict[Hashable, list[_Waiter]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def wait(self, what: Hashable, seconds: float) -> Deferred[None]:
        """Fires when `what` is there, or after so many seconds. Cancel it if nobody waits any more.

        Raises:
            LimitExceededError: Too many wait already.
        """
        if self._count >= self._most:
            raise LimitExceededError("hls_waiting", f"{self._most} requests wait already")
        done: Deferred[None] = Deferred(lambda _: self._leave(what, waiter))
        waiter = _Waiter(done, self._clock.callLater(seconds, self._let_go, what, [done]))
        self._waiting.setdefault(what, []).append(waiter)
        self._count += 1
        return done

    def release(self, is_there: Callable[[Hashable], bool]) -> None:
        """Let everybody go whose wait is over."""
        for what in [one for one in self._waiting if is_there(one)]:
            waiters = self._waiting.get(what, [])
            self._let_go(what, [waiter.done for waiter in waiters])

    def close(self) -> None:
        """Let everybody go."""
        self.release(lambda _: True)

    def _let_go(self, what: Hashable, those: list[Deferred[None]]) -> None:
        leaving = [waiter for waiter in self._waiting.get(what, []) if waiter.done in those]
        for waiter in leaving:
            self._leave(what, waiter)
        for waiter in leaving:
            waiter.done.callback(None)

    def _leave(self, what: Hashable, waiter: _Waiter) -> None:
        waiters = self._waiting.get(what, [])
        if waiter in waiters:
            waiters.remove(waiter)
            self._count -= 1
            if not waiters:
                del self._waiting[what]
        if waiter.timer.active():
            waiter.timer.cancel()
