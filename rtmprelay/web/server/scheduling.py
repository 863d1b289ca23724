"""HTTP yields to live streams: it works for a fifth of a millisecond, then lets the reactor serve everything else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

_T = TypeVar("_T")

#: Seconds of HTTP work in one iteration of the reactor: one request or two. A frame may have to wait this long, and in the
#: same iteration for all reads of sockets; so the p99 of a player of RTMP beside 100 viewers of HLS is 2 ms with this, and
#: was 6.6 ms with ten times as much, at the same cost (``python -m rtmprelay.bench hls``).
BUDGET = 0.0002


class HttpScheduler:
    """Runs work at once while the budget lasts, and later work in order in the next iterations of the reactor.

    Without it, two hundred requests that arrive together would delay every frame until all of them are done.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._began: float | None = None
        self._waiting: deque[Callable[[], None]] = deque()
        self._next: IDelayedCall | None = None

    def run(self, work: Callable[[], None]) -> None:
        """Run this now, or in one of the next iterations of the reactor."""
        if self._waiting or self._is_used_up():
            self._waiting.append(work)
            self._schedule()
            return
        if self._began is None:
            self._began = self._clock.seconds()
            self._schedule()
        work()

    def collect(self, pieces: Iterator[_T]) -> Deferred[list[_T]]:
        """Take all pieces from an iterator, over as many iterations of the reactor as that needs."""
        done: Deferred[list[_T]] = Deferred()
        collected: list[_T] = []

        def work() -> None:
            try:
                for piece in pieces:
                    collected.append(piece)
                    if self._is_used_up():
                        self.run(work)
                        return
            except Exception:
                done.errback()
            else:
                done.callback(collected)

        self.run(work)
        return done

    def _is_used_up(self) -> bool:
        return self._began is not None and self._clock.seconds() - self._began > BUDGET

    def _schedule(self) -> None:
        if self._next is None:
            self._next = self._clock.callLater(0, self._next_iteration)

    def _next_iteration(self) -> None:
        self._next = None
        self._began = None
        if not self._waiting:
            return
        self._began = self._clock.seconds()
        self._schedule()
        # At least one, so that everything is done in the end.
        self._waiting.popleft()()
        while self._waiting and not self._is_used_up():
            self._waiting.popleft()()

    def stop(self) -> None:
        """Drop all work that has not been done."""
        self._waiting.clear()
        self._began = None
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next = None


@attrs.define(eq=False)
class _Generation:
    """A document that is being generated, and the clients that wait for it."""

    version: Hashable
    waiting: list[Deferred[bytes]] = attrs.field(factory=list)


class CachedDocument:
    """A document that is generated when a client asks for it, once for all that ask meanwhile or shortly after.

    Args:
        generate: Generates the document, in pieces that take little time each.
        max_age: Seconds for which the document may be sent again.
        version: The version of the data: when it changes, the document is out of date at once.
    """

    def __init__(
        self,
        generate: Callable[[], Iterator[bytes]],
        scheduler: HttpScheduler,
        clock: IReactorTime,
        max_age: float,
        version: Callable[[], Hashable] = lambda: None,
    ) -> None:
        self._generate = generate
        self._scheduler = scheduler
        self._clock = clock
        self._max_age = max_age
        self._version = version
        # When the last document was begun, its version and its text.
        self._last: tuple[float, Hashable, bytes] | None = None
        self._generating: _Generation | None = None

    def get(self) -> Deferred[bytes]:
        now, version = self._clock.seconds(), self._version()
        if self._last is not None and self._last[1] == version and now - self._last[0] < self._max_age:
            return succeed(self._last[2])
        waiter: Deferred[bytes] = Deferred()
        generating = self._generating
        if generating is not None and generating.version == version:
            generating.waiting.append(waiter)
            return waiter
        generating = self._generating = _Generation(version, [waiter])
        pieces = self._scheduler.collect(self._generate())
        pieces.addCallback(b"".join).addBoth(self._generated, generating, now)
        return waiter

    def _generated(self, result: bytes | Failure, generating: _Generation, began: float) -> None:
        if self._generating is generating:
            self._generating = None
        if isinstance(result, bytes):
            self._last = began, generating.version, result
        for waiter in generating.waiting:
            waiter.callback(result)
