"""For checks that take time: run only a few at once, and remember their answers for a while."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred, DeferredSemaphore

_T = TypeVar("_T")


class TooBusyError(Exception):
    """Too many checks are waiting already."""


class ConcurrencyLimiter:
    """Runs a few checks at once and lets a bounded number wait. One host alone cannot fill the queue.

    Args:
        max_per_host: How many checks of one host may run or wait.
    """

    def __init__(self, max_running: int, max_waiting: int, max_per_host: int) -> None:
        self._semaphore = DeferredSemaphore(max_running)
        self._max_total = max_running + max_waiting
        self._max_per_host = max_per_host
        self._by_host: Counter[str] = Counter()

    @property
    def in_use(self) -> int:
        """How many checks run or wait."""
        return self._by_host.total()

    async def run(self, host: str, work: Callable[[], Deferred[_T]], can_be_stopped: bool = True) -> _T:
        """Run a check as soon as there is room. Cancelling stops it, or keeps it from starting.

        Args:
            can_be_stopped: False for work in a thread: when it is cancelled, the thread goes on and keeps its place
                until it ends.

        Raises:
            TooBusyError: Too many checks are waiting, in all or for this host.
        """
        if self.in_use >= self._max_total or self._by_host[host] >= self._max_per_host:
            raise TooBusyError
        self._by_host[host] += 1
        try:
            await self._semaphore.acquire()
        except BaseException:
            self._leave(host)
            raise
        working = work()
        working.addBoth(self._finished, host)
        if can_be_stopped:
            return await working
        # Cancelling this second Deferred does not reach the thread.
        result: Deferred[_T] = Deferred()
        working.addCallbacks(result.callback, result.errback)
        return await result

    def _finished(self, result: object, host: str) -> object:
        self._leave(host)
        self._semaphore.release()
        return result

    def _leave(self, host: str) -> None:
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]


class AnswerCache(Generic[_T]):
    """Remembers answers, bounded in number and time: the oldest are dropped first.

    The questions contain keys and tokens, so only their digests are kept.

    Args:
        lifetime: Seconds for which an answer is remembered; 0 to remember nothing.
        seconds: Returns the current time.
    """

    def __init__(self, max_answers: int, lifetime: float, seconds: Callable[[], float]) -> None:
        self._max_answers = max_answers
        self._lifetime = lifetime
        self._seconds = seconds
        # A salt per process: a digest found in one memory dump cannot be matched against another one.
        self._salt = os.urandom(16)
        self._answers: OrderedDict[bytes, tuple[float, _T]] = OrderedDict()

    def get(self, *question: str) -> _T | None:
        """The remembered answer to a question, if there is one."""
        digest = self._digest(question)
        found = self._answers.get(digest)
        if found is None:
            return None
        expiry, answer = found
        if expiry <= self._seconds():
            del self._answers[digest]
            return None
        return answer

    def put(self, answer: _T, *question: str) -> None:
        if self._lifetime <= 0:
            return
        digest = self._digest(question)
        self._answers.pop(digest, None)
        self._answers[digest] = (self._seconds() + self._lifetime, answer)
        if len(self._answers) > self._max_answers:
            self._answers.popitem(last=False)

    def __len__(self) -> int:
        return len(self._answers)

    def _digest(self, question: tuple[str, ...]) -> bytes:
        digest = hashlib.blake2b(key=self._salt, digest_size=20)
        for part in question:
            data = part.encode("utf-8", "surrogatepass")
            # The length first: ("a", "bc") and ("ab", "c") are different questions.
            digest.update(len(data).to_bytes(8))
            digest.update(data)
        return digest.digest()
