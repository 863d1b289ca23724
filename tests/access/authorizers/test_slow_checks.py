"""Lines that are bounded, and answers that are remembered for a while."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock

from rtmprelay.access.authorizers.slow_checks import AnswerCache, ConcurrencyLimiter, TooBusyError
from tests.access.authorizers.helpers import Threads


def run(turns: ConcurrencyLimiter, threads: Threads, host: str = "a", **options: bool) -> Deferred[Any]:
    return Deferred.fromCoroutine(turns.run(host, lambda: threads(lambda: "done"), **options))


def outcome(deferred: Deferred[Any]) -> list[Any]:
    results: list[Any] = []
    deferred.addBoth(lambda result: results.append(getattr(result, "type", result)))
    return results


def test_so_many_at_once_and_the_others_wait() -> None:
    turns, threads = ConcurrencyLimiter(2, 10, 10), Threads()
    results = [outcome(run(turns, threads)) for _ in range(5)]
    assert threads.begun == 2
    threads.run_one()
    assert threads.begun == 3
    threads.run_all()
    assert results == [["done"]] * 5
    assert turns.taken == 0


def test_a_full_line() -> None:
    turns, threads = ConcurrencyLimiter(1, 2, 10), Threads()
    results = [outcome(run(turns, threads)) for _ in range(4)]
    assert results == [[], [], [], [TooBusyError]]
    threads.run_all()
    assert outcome(run(turns, threads)) == []


def test_one_host_cannot_fill_the_line() -> None:
    turns, threads = ConcurrencyLimiter(1, 10, 3), Threads()
    greedy = [outcome(run(turns, threads, "greedy")) for _ in range(5)]
    assert greedy == [[], [], [], [TooBusyError], [TooBusyError]]
    other = outcome(run(turns, threads, "other"))
    threads.run_all()
    assert other == ["done"] * 1
    assert turns.taken == 0


def test_what_is_cancelled_while_it_waits_is_not_begun() -> None:
    turns, threads = ConcurrencyLimiter(1, 10, 10), Threads()
    run(turns, threads)
    waiting = run(turns, threads)
    results = outcome(waiting)
    waiting.cancel()
    assert results == [CancelledError]
    threads.run_all()
    assert threads.begun == 1
    assert turns.taken == 0


def test_what_is_cancelled_is_stopped() -> None:
    turns, threads = ConcurrencyLimiter(1, 10, 10), Threads()
    working = run(turns, threads)
    results = outcome(working)
    working.cancel()
    assert results == [CancelledError]
    assert turns.taken == 0


def test_a_thread_that_is_cancelled_keeps_its_turn_until_it_ends() -> None:
    turns, threads = ConcurrencyLimiter(1, 10, 10), Threads()
    working = run(turns, threads, can_be_stopped=False)
    results = outcome(working)
    working.cancel()
    assert results == [CancelledError]
    waiting = outcome(run(turns, threads, can_be_stopped=False))
    assert threads.begun == 1
    threads.run_all()
    assert threads.begun == 2
    assert waiting == ["done"]
    assert turns.taken == 0


def test_work_that_fails_ends_its_turn() -> None:
    turns = ConcurrencyLimiter(1, 10, 10)

    def fail() -> Deferred[Any]:
        failing: Deferred[Any] = Deferred()
        failing.errback(ValueError())
        return failing

    for can_be_stopped in (True, False):
        results = outcome(Deferred.fromCoroutine(turns.run("a", fail, can_be_stopped)))
        assert results == [ValueError]
    assert turns.taken == 0


# -- answers -------------------------------------------------------------------------------------------------------


def test_an_answer_is_remembered_for_its_time() -> None:
    clock = Clock()
    cache: AnswerCache[str] = AnswerCache(10, 5.0, clock.seconds)
    cache.put("yes", "a", "b")
    assert cache.get("a", "b") == "yes"
    assert cache.get("ab") is None
    assert cache.get("a", "c") is None
    clock.advance(4.9)
    assert cache.get("a", "b") == "yes"
    clock.advance(0.2)
    assert cache.get("a", "b") is None
    assert len(cache) == 0


def test_the_oldest_make_room() -> None:
    cache: AnswerCache[int] = AnswerCache(3, 5.0, lambda: 0.0)
    for number in range(100):
        cache.put(number, str(number))
        assert len(cache) <= 3
    assert [cache.get(str(number)) for number in (96, 97, 99)] == [None, 97, 99]


def test_with_no_time_nothing_is_remembered() -> None:
    cache: AnswerCache[int] = AnswerCache(3, 0.0, lambda: 0.0)
    cache.put(1, "a")
    assert cache.get("a") is None


def test_what_it_was_given_for_is_not_kept() -> None:
    cache: AnswerCache[int] = AnswerCache(3, 5.0, lambda: 0.0)
    cache.put(1, "MARKED")
    assert "MARKED" not in repr(vars(cache))


@pytest.mark.parametrize("text", ["", "\ud800", "ü"])
def test_any_text_will_do(text: str) -> None:
    cache: AnswerCache[int] = AnswerCache(3, 5.0, lambda: 0.0)
    cache.put(1, text)
    assert cache.get(text) == 1
