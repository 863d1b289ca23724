"""What checks that take time need: a bounded line to wait in, and a memory for answers."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred, DeferredSemaphore

_T = TypeVar("_T")


class TooBusyError(Exception):
    """The line is full."""


class ConcurrencyLimiter:
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


_V = TypeVar("_V")


class AnswerCache(Generic[_V]):
    """Values by what they belong to, bounded in count and time. The oldest make room.

    Args:
        seconds: The time now.
    """

    def __init__(self, most: int, lifetime: float, seconds: Callable[[], float]) -> None:
        self._most = most
        self._lifetime = lifetime
        self._seconds = seconds
        # Whoever gets hold of the process's memory cannot try keys out against digests of another one.
        self._salt = os.urandom(16)
        self._kept: OrderedDict[bytes, tuple[float, _V]] = OrderedDict()

    def get(self, *subject: str) -> _V | None:
        """What is remembered for this."""
        digest = self._digest(subject)
        found = self._kept.get(digest)
        if found is None:
            return None
        expiry, value = found
        if expiry <= self._seconds():
            del self._kept[digest]
            return None
        return value

    def put(self, value: _V, *subject: str) -> None:
        """Remember this."""
        if self._lifetime <= 0:
            return
        digest = self._digest(subject)
        self._kept.pop(digest, None)
        self._kept[digest] = (self._seconds() + self._lifetime, value)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)

    def _digest(self, subject: tuple[str, ...]) -> bytes:
        digest = hashlib.blake2b(key=self._salt, digest_size=20)
        for part in subject:
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8))
            digest.update(data)
        return digest.digest()
