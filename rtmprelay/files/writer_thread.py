"""A thread that writes what another thread puts in a queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from twisted.python.failure import Failure

#: Runs a function in the reactor's thread, as `reactor.callFromThread` does.
CallInReactor = Callable[..., object]


def call_directly(function: Callable[..., object], *arguments: object) -> None:
    """The `CallInReactor` of a writer without a thread: it is in the reactor's thread already."""
    function(*arguments)


class Writer(Protocol):
    """What the thread runs. Both methods may wait for a disk as long as they like."""

    def work(self) -> float | None:
        """Write everything that is queued.

        Returns after how many seconds to work again although nothing was added; None for never.
        """

    def finish(self) -> None:
        """Write the rest and close the files: nothing will be added any more."""


class WriterThread:
    """Lets a writer work shortly after something was added, at once when much was, and seldom otherwise.

    One for all files on a disk: more threads would only compete for the disk and for the interpreter. While the
    disk hangs, the queues in front of the thread fill up to their limits.

    Args:
        flush_interval: Seconds for which additions are gathered before they are written.
        flush_bytes: Added bytes that are written at once.
        ended: Called in the thread at its end, with the error if one ended it.
    """

    def __init__(
        self,
        name: str,
        writer: Writer,
        flush_interval: float,
        flush_bytes: int,
        ended: Callable[[Failure | None], object],
    ) -> None:
        self._name = name
        self._writer = writer
        self._flush_interval = flush_interval
        self._flush_bytes = flush_bytes
        self._ended = ended
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._urgent = False
        # Bytes since the last work. Only a hint for when to hurry: both threads change it without a lock.
        self._added = 0
        # Set before each work. The first addition after that clears it and wakes the thread: additions that find
        # it cleared come before the next work, because they were queued before they looked.
        self._wants_wake_up = True
        self._has_additions = False

    # -- in the reactor's thread -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to work, unless the thread runs already."""
        if self._thread is None:
            # A disk that hangs must not keep the process from ending, so this is a daemon.
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Let the writer finish, and end. Does not wait for it."""
        with self._condition:
            self._stopping = True
            self._condition.notify()

    def added(self, size: int) -> None:
        """So many bytes were put in the writer's queue."""
        self._added += size
        is_much = self._added >= self._flush_bytes
        if self._wants_wake_up or (is_much and not self._urgent):
            self._wake_up(urgent=is_much)

    def hurry(self) -> None:
        """Work at once."""
        self._wake_up(urgent=True)

    def _wake_up(self, urgent: bool) -> None:
        with self._condition:
            self._wants_wake_up = False
            self._has_additions = True
            self._urgent = self._urgent or urgent
            self._condition.notify()

    # -- in the writer's thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        failure = None
        try:
            while self._begin_round():
                self._wait(self._writer.work())
            self._writer.finish()
        except Exception:
            # A bug of ours. Additions fill the queue from now on and are counted as lost there.
            failure = Failure()
        self._ended(failure)

    def _begin_round(self) -> bool:
        with self._condition:
            self._added = 0
            self._urgent = self._has_additions = False
            self._wants_wake_up = True
            return not self._stopping

    def _wait(self, pause: float | None) -> None:
        """Wait for the first addition, then a little longer for more of them."""
        with self._condition:
            if not self._has_additions and not self._stopping and pause != 0:
                self._condition.wait(pause)
            if self._has_additions and not self._urgent and not self._stopping:
                self._condition.wait(self._flush_interval)
