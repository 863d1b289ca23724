"""The thread that writes what the reactor's thread queues."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from twisted.python.failure import Failure

from rtmprelay.files.writer_thread import WriterThread

#: Much longer than any of these tests runs.
LONG = 1000.0


def wait_until(condition: Callable[[], object], within: float = 20.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.002)


class CountingWriter:
    """Takes what is in `queue` and remembers the batches."""

    def __init__(self) -> None:
        self.queue: list[int] = []
        self.batches: list[list[int]] = []
        self.works = 0
        self.finished = False
        self.pause: float | None = None
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def work(self) -> float | None:
        self.gate.wait(20)
        if self.error is not None:
            raise self.error
        taken, self.queue = self.queue, []
        if taken:
            self.batches.append(taken)
        self.works += 1
        return self.pause

    def finish(self) -> None:
        self.work()
        self.finished = True

    @property
    def written(self) -> list[int]:
        return [number for batch in self.batches for number in batch]


class Pair:
    """A writer and its thread."""

    def __init__(self, flush_interval: float = 0.0, flush_bytes: int = 10**9) -> None:
        self.writer = CountingWriter()
        self.ended: list[Failure | None] = []
        self.thread = WriterThread("test-writer", self.writer, flush_interval, flush_bytes, self.ended.append)

    def add(self, *numbers: int, size: int = 1) -> None:
        for number in numbers:
            self.writer.queue.append(number)
            self.thread.added(size)

    def start(self) -> None:
        """Start it, and wait until it has nothing to do."""
        self.thread.start()
        wait_until(lambda: self.writer.works)


@pytest.fixture
def make() -> Iterator[Callable[..., Pair]]:
    pairs: list[Pair] = []

    def make_pair(flush_interval: float = 0.0, flush_bytes: int = 10**9) -> Pair:
        pairs.append(Pair(flush_interval, flush_bytes))
        return pairs[-1]

    yield make_pair
    for pair in pairs:
        pair.writer.gate.set()
        pair.thread.stop()


Make = Callable[..., Pair]


def test_an_addition_wakes_an_idle_thread(make: Make) -> None:
    pair = make()
    pair.start()
    for number in range(20):
        pair.add(number)
        wait_until(lambda number=number: pair.writer.written == list(range(number + 1)))  # type: ignore[misc]


def test_additions_before_the_start_are_written(make: Make) -> None:
    pair = make()
    pair.add(1, 2)
    pair.start()
    assert pair.writer.batches == [[1, 2]]


def test_additions_are_gathered_for_the_flush_interval(make: Make) -> None:
    pair = make(flush_interval=LONG)
    pair.start()
    pair.add(1, 2, 3)
    pair.thread.stop()
    wait_until(lambda: pair.ended)
    assert pair.writer.batches == [[1, 2, 3]]


def test_many_bytes_are_written_at_once(make: Make) -> None:
    pair = make(flush_interval=LONG, flush_bytes=100)
    pair.start()
    pair.add(1, 2, size=40)
    assert pair.writer.batches == []
    pair.add(3, size=40)
    wait_until(lambda: pair.writer.written == [1, 2, 3])


def test_hurry_ends_the_gathering(make: Make) -> None:
    pair = make(flush_interval=LONG)
    pair.start()
    pair.add(1)
    pair.thread.hurry()
    wait_until(lambda: pair.writer.written == [1])


def test_a_pause_of_zero_means_more_work_at_once(make: Make) -> None:
    pair = make(flush_interval=LONG)
    pair.writer.pause = 0
    pair.start()
    wait_until(lambda: pair.writer.works > 10)


def test_the_writer_works_again_after_its_pause(make: Make) -> None:
    pair = make(flush_interval=LONG)
    pair.writer.pause = 0.001
    pair.start()
    wait_until(lambda: pair.writer.works > 3)


def test_a_stop_finishes_the_writer_and_reports_the_end(make: Make) -> None:
    pair = make(flush_interval=LONG)
    pair.start()
    pair.add(1)
    pair.thread.stop()
    wait_until(lambda: pair.ended)
    assert (pair.writer.written, pair.writer.finished, pair.ended) == ([1], True, [None])


def test_a_stop_does_not_wait_for_a_writer_that_hangs(make: Make) -> None:
    pair = make()
    pair.start()
    pair.writer.gate.clear()
    pair.add(1)
    pair.thread.stop()
    assert pair.ended == []
    pair.writer.gate.set()
    wait_until(lambda: pair.ended)
    assert pair.writer.written == [1]


def test_a_bug_ends_the_thread_and_is_reported(make: Make) -> None:
    pair = make()
    pair.start()
    pair.writer.error = ZeroDivisionError()
    pair.add(1)
    wait_until(lambda: pair.ended)
    (failure,) = pair.ended
    assert failure is not None
    assert failure.check(ZeroDivisionError)
    assert not pair.writer.finished
    pair.add(2)


def test_additions_at_any_moment_are_written_in_order(make: Make) -> None:
    pair = make()
    pair.start()
    for number in range(5000):
        pair.add(number)
        if number % 500 == 0:
            # Between two works, and in the middle of one.
            wait_until(lambda: not pair.writer.queue)
    wait_until(lambda: len(pair.writer.written) == 5000)
    assert pair.writer.written == list(range(5000))
