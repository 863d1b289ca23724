"""The scheduler of HTTP work, and documents that are generated once for all clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from twisted.internet.task import Clock

from rtmprelay.web.server import scheduling
from rtmprelay.web.server.scheduling import BUDGET, CachedDocument, HttpScheduler
from tests.web.helpers import run_due_calls


class Worker:
    """Makes work that takes time, and records what was done."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.done: list[int] = []

    def work(self, number: int, seconds: float) -> Callable[[], None]:
        def do() -> None:
            self.done.append(number)
            # Not `advance`: real work lets nothing else run.
            self._clock.rightNow += seconds

        return do


def test_work_over_the_budget_waits_for_the_next_iteration_in_order() -> None:
    clock = Clock()
    scheduler, worker = HttpScheduler(clock), Worker(clock)
    for number in range(10):
        scheduler.run(worker.work(number, BUDGET * 0.4))
    assert worker.done == [0, 1, 2]
    run_due_calls(clock)
    assert worker.done == [0, 1, 2, 3, 4, 5]
    scheduler.run(worker.work(10, 0))
    assert len(worker.done) == 6
    run_due_calls(clock)
    run_due_calls(clock)
    assert worker.done == list(range(11))


def test_work_runs_at_once_when_nothing_waits() -> None:
    clock = Clock()
    scheduler, worker = HttpScheduler(clock), Worker(clock)
    for number in range(5):
        scheduler.run(worker.work(number, BUDGET * 2))
        assert len(worker.done) == number + 1
        run_due_calls(clock)
        run_due_calls(clock)
    assert clock.getDelayedCalls() == []


def test_work_added_by_work_runs_after_what_waits_already() -> None:
    clock = Clock()
    scheduler, worker = HttpScheduler(clock), Worker(clock)

    def nested() -> None:
        worker.work(0, BUDGET * 2)()
        scheduler.run(worker.work(2, 0))

    scheduler.run(nested)
    scheduler.run(worker.work(3, 0))
    assert worker.done == [0]
    run_due_calls(clock)
    assert worker.done == [0, 2, 3]


def test_stopped_scheduler_drops_its_work_and_leaves_no_timer() -> None:
    clock = Clock()
    scheduler, worker = HttpScheduler(clock), Worker(clock)
    for number in range(5):
        scheduler.run(worker.work(number, BUDGET * 2))
    scheduler.stop()
    clock.advance(1)
    assert worker.done == [0]
    assert clock.getDelayedCalls() == []


def test_pieces_are_collected_over_several_iterations_with_other_work_in_between() -> None:
    clock = Clock()
    scheduler, worker = HttpScheduler(clock), Worker(clock)

    def pieces() -> Iterator[int]:
        for number in range(6):
            worker.work(number, BUDGET * 0.6)()
            yield number

    collected = scheduler.collect(pieces())
    scheduler.run(worker.work(100, 0))
    assert worker.done == [0, 1]
    for _ in range(4):
        run_due_calls(clock)
    assert worker.done == [0, 1, 2, 3, 100, 4, 5]
    results: list[list[int]] = []
    collected.addCallback(results.append)
    assert results == [[0, 1, 2, 3, 4, 5]]


def test_failing_piece_fails_the_collection() -> None:
    scheduler = HttpScheduler(Clock())

    def pieces() -> Iterator[int]:
        yield 1
        raise ValueError("a bug")

    failures: list[object] = []
    scheduler.collect(pieces()).addErrback(lambda failure: failures.append(failure.value))
    assert [type(failure) for failure in failures] == [ValueError]


# -- cached documents ----------------------------------------------------------------------------------------


class Documents:
    """A document of three pieces, each in an iteration of its own, and how often it was generated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scheduling, "BUDGET", -1.0)
        self.clock = Clock()
        self.version = 0
        self.generated = 0
        self.broken = False
        self.document = CachedDocument(
            self._pieces, HttpScheduler(self.clock), self.clock, 1.0, lambda: self.version
        )

    def _pieces(self) -> Iterator[bytes]:
        self.generated += 1
        number = self.generated
        for piece in range(3):
            if self.broken and piece == 1:
                raise RuntimeError("a bug")
            yield b"%d.%d " % (number, piece)

    def get(self) -> list[object]:
        """A list with the result once there is one."""
        results: list[object] = []
        self.document.get().addBoth(results.append)
        return results

    def finish(self) -> None:
        for _ in range(20):
            run_due_calls(self.clock)


def test_clients_share_a_document_while_it_is_generated_and_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = Documents(monkeypatch)
    first, second = documents.get(), documents.get()
    assert (first, second) == ([], [])
    documents.finish()
    assert first == second == documents.get() == [b"1.0 1.1 1.2 "]
    documents.clock.advance(0.9)
    assert documents.get() == first
    documents.clock.advance(0.2)
    later = documents.get()
    documents.finish()
    assert later == [b"2.0 2.1 2.2 "]
    assert documents.generated == 2


def test_changed_version_makes_a_document_old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that asked before the change may still get the old document."""
    documents = Documents(monkeypatch)
    before = documents.get()
    run_due_calls(documents.clock)
    documents.version = 1
    after = documents.get()
    assert after == []
    documents.finish()
    assert before == [b"1.0 1.1 1.2 "]
    assert after == [b"2.0 2.1 2.2 "]
    assert documents.get() == after


def test_failure_goes_to_all_waiting_clients_and_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = Documents(monkeypatch)
    documents.broken = True
    first, second = documents.get(), documents.get()
    documents.finish()
    assert "a bug" in str(first[0])
    assert "a bug" in str(second[0])
    documents.broken = False
    again = documents.get()
    documents.finish()
    assert again == [b"2.0 2.1 2.2 "]
