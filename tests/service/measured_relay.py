"""A relay in its own process that records how long each iteration of its reactor takes, in processor time.

Run as a program with a file and the arguments of `twist`; when it ends it writes the iterations to the file. Processor time
stands still while other processes run, so a busy machine changes little.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from twisted.application.twist._twist import Twist

#: Shorter iterations delay nothing.
_SHORTEST_NS = 100_000

#: The share of frames that may wait longer.
_REST = 0.01


class TurnLog:
    """Wraps the call with which a reactor waits for something to do."""

    def __init__(self, reactor: Any, path: Path) -> None:
        self._path = path
        self._turns = array("Q")
        self._wait = reactor.doIteration
        self._worked = time.thread_time_ns()
        reactor.doIteration = self._iterate
        # Twist ends the process with the signal that stopped it, so nothing after its call runs.
        reactor.addSystemEventTrigger("after", "shutdown", self._save)

    def _iterate(self, timeout: float | None) -> None:
        worked = time.thread_time_ns()
        if worked - self._worked >= _SHORTEST_NS:
            self._turns.extend((time.monotonic_ns(), worked - self._worked))
        self._worked = worked
        self._wait(timeout)

    def _save(self) -> None:
        """Write when each iteration ended and how long it took, in nanoseconds."""
        self._path.write_bytes(self._turns.tobytes())


def read_turns(path: Path) -> list[tuple[int, float]]:
    """When each iteration ended, on the monotonic clock of this machine, and the milliseconds that it took."""
    numbers = array("Q", path.read_bytes())
    return [(ended, took / 1e6) for ended, took in zip(numbers[::2], numbers[1::2], strict=True)]


def waiting_p99(turns_ms: Iterable[float], seconds: float) -> float:
    """The milliseconds that 99 of 100 frames wait at most for the iteration that is running when they arrive.

    Frames arrive at any moment. A share of `sum(iteration - x) / time` of them finds an iteration with more than `x` ms left.
    """
    turns = sorted(turns_ms, reverse=True)
    allowed = seconds * 1000 * _REST
    total = 0.0
    for count, turn in enumerate(turns, 1):
        total += turn
        x = (total - allowed) / count
        if x >= (turns[count] if count < len(turns) else 0.0):
            return x
    return 0.0


if __name__ == "__main__":
    from twisted.internet import reactor

    TurnLog(reactor, Path(sys.argv[1]))
    Twist.main(["twist", *sys.argv[2:]])
