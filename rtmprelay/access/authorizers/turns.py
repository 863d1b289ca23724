"""Work that takes time, a little at once: the rest waits in a line that is bounded, in all and for each host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from twisted.internet.defer import Deferred, DeferredSemaphore

_T = TypeVar("_T")


class TooBusyError(Exception):
    """The line is full."""


class Turns:
    """Lets so many work at the same time, and so many wait. One host alone cannot fill the line."""

    def __init__(self, at_once: int, most_waiting: int, most_for_host: int) -> None:
        self._semaphore = DeferredSemaphore(at_once)
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._most_for_host = most_for_host
        self._by_host: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """How many work or wait."""
        return self._by_host.total()

    async def run(self, host: str, work: Callable[[], Deferred[_T]], can_be_stopped: bool = True) -> _T:
        """Do something when it is its turn. Cancelling stops it, or keeps it from beginning.

        Args:
            can_be_stopped: False for a thread: then it goes on when it is cancelled, and its turn ends when it does.

        Raises:
            TooBusyError: Too much waits already, in all or of this host.
        """
        if self.taken >= self._at_once + self._most_waiting or self._by_host[host] >= self._most_for_host:
            raise TooBusyError
        self._by_host[host] += 1
        try:
            await self._semaphore.acquire()
        except BaseException:
            self._leave(host)
            raise
        working = work()
        working.addBoth(self._worked, host)
        if can_be_stopped:
            return await working
        result: Deferred[_T] = Deferred()
        working.addCallbacks(result.callback, result.errback)
        return await result

    def _worked(self, result: object, host: str) -> object:
        self._leave(host)
        self._semaphore.release()
        return result

    def _leave(self, host: str) -> None:
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
