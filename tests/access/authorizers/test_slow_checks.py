"""Only a few checks run at once, a bounded number waits, and their answers are remembered for a while."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock

from rtmprelay.access.authorizers.slow_checks import AnswerCache, ConcurrencyLimiter, TooBusyError
from tests.access.authorizers.helpers import Threads


def run(limiter: ConcurrencyLimiter, threads: Threads, host: str = "a", **options: bool) -> Deferred[Any]:
    return Deferred.fromCoroutine(limiter.run(host, lambda: threads(lambda: "done"), **options))


def outcome(deferred: Deferred[Any]) -> list[Any]:
    results: list[Any] = []
    deferred.addBoth(lambda result: results.append(getattr(result, "type", result)))
    return results


def test_checks_over_the_limit_wait_until_one_finishes() -> None:
    limiter, threads = ConcurrencyLimiter(2, 10, 10), Threads()
    results = [outcome(run(limiter, threads)) for _ in range(5)]
    assert threads.begun == 2
    threads.run_one()
    assert threads.begun == 3
    threads.run_all()
    assert results == [["done"]] * 5
    assert limiter.in_use == 0


def test_check_is_refused_when_too_many_wait() -> None:
    limiter, threads = ConcurrencyLimiter(1, 2, 10), Threads()
    results = [outcome(run(limiter, threads)) for _ in range(4)]
    assert results == [[], [], [], [TooBusyError]]
    threads.run_all()
    assert outcome(run(limiter, threads)) == []


def test_one_host_cannot_fill_the_queue() -> None:
    limiter, threads = ConcurrencyLimiter(1, 10, 3), Threads()
    greedy = [outcome(run(limiter, threads, "greedy")) for _ in range(5)]
    assert greedy == [[], [], [], [TooBusyError], [TooBusyError]]
    other = outcome(run(limiter, threads, "other"))
    threads.run_all()
    assert other == ["done"]
    assert limiter.in_use == 0


def test_check_cancelled_while_waiting_is_never_started() -> None:
    limiter, threads = ConcurrencyLimiter(1, 10, 10), Threads()
    run(limiter, threads)
    waiting = run(limiter, threads)
    results = outcome(waiting)
    waiting.cancel()
    assert results == [CancelledError]
    threads.run_all()
    assert threads.begun == 1
    assert limiter.in_use == 0


def test_cancelled_check_is_stopped_and_frees_its_place() -> None:
    limiter, threads = ConcurrencyLimiter(1, 10, 10), Threads()
    working = run(limiter, threads)
    results = outcome(working)
    working.cancel()
    assert results == [CancelledError]
    assert limiter.in_use == 0


def test_cancelled_thread_keeps_its_place_until_it_ends() -> None:
    limiter, threads = ConcurrencyLimiter(1, 10, 10), Threads()
    working = run(limiter, threads, can_be_stopped=False)
    results = outcome(working)
    working.cancel()
    assert results == [CancelledError]
    waiting = outcome(run(limiter, threads, can_be_stopped=False))
    assert threads.begun == 1
    threads.run_all()
    assert threads.begun == 2
    assert waiting == ["done"]
    assert limiter.in_use == 0


def test_failed_check_frees_its_place() -> None:
    limiter = ConcurrencyLimiter(1, 10, 10)

    def fail() -> Deferred[Any]:
        failing: Deferred[Any] = Deferred()
        failing.errback(ValueError())
        return failing

    for can_be_stopped in (True, False):
        results = outcome(Deferred.fromCoroutine(limiter.run("a", fail, can_be_stopped)))
        assert results == [ValueError]
    assert limiter.in_use == 0


# -- the cache -------------------------------------------------------------------------------------------------------


def test_answer_is_remembered_until_it_expires() -> None:
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


def test_full_cache_drops_its_oldest_answers() -> None:
    cache: AnswerCache[int] = AnswerCache(3, 5.0, lambda: 0.0)
    for number in range(100):
        cache.put(number, str(number))
        assert len(cache) <= 3
    assert [cache.get(str(number)) for number in (96, 97, 99)] == [None, 97, 99]


def test_cache_with_lifetime_zero_remembers_nothing() -> None:
    cache: AnswerCache[int] = AnswerCache(3, 0.0, lambda: 0.0)
    cache.put(1, "a")
    assert cache.get("a") is None


def test_cache_does_not_keep_the_questions() -> None:
    cache: AnswerCache[int] = AnswerCache(3, 5.0, lambda: 0.0)
    cache.put(1, "MARKED")
    assert "MARKED" not in repr(vars(cache))


@pytest.mark.parametrize("text", ["", "\ud800", "ü"])
def test_any_text_can_be_a_question(text: str) -> None:
    cache: AnswerCache[int] = AnswerCache(3, 5.0, lambda: 0.0)
    cache.put(1, text)
    assert cache.get(text) == 1
