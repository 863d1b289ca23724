"""A relay in a process of its own that notes how long each turn of its reactor takes, on the clock of its own work.

Run as a program with a file and the arguments of `twist`; at its end it writes the turns there. That clock stands still
while others have the processor, so a machine that is busy with something else changes little.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from twisted.application.twist._twist import Twist

#: Shorter turns hold nobody up.
_SHORTEST_NS = 100_000

#: A share of all moments: 99 of 100 frames wait no longer.
_REST = 0.01


class TurnLog:
    """Stands between a reactor and its waiting for something to do."""

    def __init__(self, reactor: Any, path: Path) -> None:
        self._path = path
        self._turns = array("Q")
        self._wait = reactor.doIteration
        self._worked = time.thread_time_ns()
        reactor.doIteration = self._iterate
        # Twist ends the process by the signal that stopped it: nothing behind its call would be run.
        reactor.addSystemEventTrigger("after", "shutdown", self._save)

    def _iterate(self, timeout: float | None) -> None:
        worked = time.thread_time_ns()
        if worked - self._worked >= _SHORTEST_NS:
            self._turns.extend((time.monotonic_ns(), worked - self._worked))
        self._worked = worked
        self._wait(timeout)

    def _save(self) -> None:
        """Write down when each turn ended, and how long it took, in nanoseconds."""
        self._path.write_bytes(self._turns.tobytes())


def read_turns(path: Path) -> list[tuple[int, float]]:
    """When each turn ended, on the monotonic clock of this machine, and the milliseconds that it took."""
    numbers = array("Q", path.read_bytes())
    return [(ended, took / 1e6) for ended, took in zip(numbers[::2], numbers[1::2], strict=True)]


def waiting_p99(turns_ms: Iterable[float], seconds: float) -> float:
    """How many milliseconds a frame waits at most for the turn that it finds running, in 99 of 100 cases.

    A frame comes at any moment. It finds a turn with more than `x` ms left in it in a share of `sum(turn - x) / time`.
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
