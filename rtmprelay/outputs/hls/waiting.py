"""Requests that wait for something that has not come yet, for a bounded time."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from rtmprelay.errors import LimitExceededError


class WaitingRoom:
    """Requests by what they wait for. All that wait for the same thing are let go together.

    Args:
        most: Requests that may wait at the same time.
    """

    def __init__(self, clock: IReactorTime, most: int) -> None:
        self._clock = clock
        self._most = most
        self._waiting: dict[Hashable, dict[Deferred[None], IDelayedCall]] = {}
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
        done: Deferred[None] = Deferred(lambda done: self._leave(what, done))
        timer = self._clock.callLater(seconds, self._give_up, what, done)
        self._waiting.setdefault(what, {})[done] = timer
        self._count += 1
        return done

    def release(self, is_there: Callable[[Hashable], bool]) -> None:
        """Let everybody go whose wait is over."""
        for what in [one for one in self._waiting if is_there(one)]:
            waiters = self._waiting.pop(what, {})
            self._count -= len(waiters)
            for timer in waiters.values():
                timer.cancel()
            for done in waiters:
                # One of them may have made another one go.
                if not done.called:
                    done.callback(None)

    def close(self) -> None:
        """Let everybody go."""
        self.release(lambda _: True)

    def _give_up(self, what: Hashable, done: Deferred[None]) -> None:
        """It has not come in time."""
        self._leave(what, done)
        done.callback(None)

    def _leave(self, what: Hashable, done: Deferred[None]) -> None:
        waiters = self._waiting.get(what, {})
        timer = waiters.pop(done, None)
        if timer is None:
            return
        self._count -= 1
        if timer.active():
            timer.cancel()
        if not waiters:
            del self._waiting[what]
