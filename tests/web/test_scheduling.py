"""HTTP gives way to live streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from twisted.internet.task import Clock

from rtmprelay.web.server.scheduling import BUDGET, HttpScheduler
from tests.web.helpers import one_turn


class Worker:
    """Work that takes time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.done: list[int] = []

    def work(self, number: int, seconds: float) -> Callable[[], None]:
        def do() -> None:
            self.done.append(number)
            # Without letting anything else run, as real work does.
            self._clock.rightNow += seconds

        return do


def test_a_turn_has_a_budget() -> None:
    """What is over it waits for the next turn, in order; and so does what comes behind it."""
    clock = Clock()
    turns, worker = HttpScheduler(clock), Worker(clock)
    for number in range(10):
        turns.run(worker.work(number, BUDGET * 0.4))
    assert worker.done == [0, 1, 2]
    one_turn(clock)
    assert worker.done == [0, 1, 2, 3, 4, 5]
    turns.run(worker.work(10, 0))
    assert len(worker.done) == 6
    one_turn(clock)
    one_turn(clock)
    assert worker.done == list(range(11))


def test_a_quiet_server_answers_at_once() -> None:
    """Each turn begins with its whole budget."""
    clock = Clock()
    turns, worker = HttpScheduler(clock), Worker(clock)
    for number in range(5):
        turns.run(worker.work(number, BUDGET * 2))
        assert len(worker.done) == number + 1
        one_turn(clock)
        one_turn(clock)
    assert clock.getDelayedCalls() == []


def test_work_that_makes_work() -> None:
    """It has its turn behind what waits already."""
    clock = Clock()
    turns, worker = HttpScheduler(clock), Worker(clock)

    def nested() -> None:
        worker.work(0, BUDGET * 2)()
        turns.run(worker.work(2, 0))

    turns.run(nested)
    turns.run(worker.work(3, 0))
    assert worker.done == [0]
    one_turn(clock)
    assert worker.done == [0, 2, 3]


def test_stopping_forgets_everything() -> None:
    """No timer is left."""
    clock = Clock()
    turns, worker = HttpScheduler(clock), Worker(clock)
    for number in range(5):
        turns.run(worker.work(number, BUDGET * 2))
    turns.stop()
    clock.advance(1)
    assert worker.done == [0]
    assert clock.getDelayedCalls() == []


def test_pieces_are_gathered_over_several_turns() -> None:
    """In order, with others in between; the first turn does what it can."""
    clock = Clock()
    turns, worker = HttpScheduler(clock), Worker(clock)

    def pieces() -> Iterator[int]:
        for number in range(6):
            worker.work(number, BUDGET * 0.6)()
            yield number

    gathered = turns.collect(pieces())
    turns.run(worker.work(100, 0))
    assert worker.done == [0, 1]
    for _ in range(4):
        one_turn(clock)
    assert worker.done == [0, 1, 2, 3, 100, 4, 5]
    results: list[list[int]] = []
    gathered.addCallback(results.append)
    assert results == [[0, 1, 2, 3, 4, 5]]


def test_a_piece_that_fails() -> None:
    """The failure is the result."""
    turns = HttpScheduler(Clock())

    def pieces() -> Iterator[int]:
        yield 1
        raise ValueError("a bug")

    failures: list[object] = []
    turns.collect(pieces()).addErrback(lambda failure: failures.append(failure.value))
    assert [type(failure) for failure in failures] == [ValueError]
