"""An allowance: so much a second on average, with a bounded saving and a bounded debt."""

from __future__ import annotations

from rtmprelay.allowance import Allowance


def test_saved_seconds_may_be_spent_at_once_and_no_more() -> None:
    allowance = Allowance(5, 10, now=0.0)
    assert allowance.left(0.0) == 50
    assert allowance.spend(50)
    assert not allowance.spend(1)


def test_saving_is_bounded() -> None:
    allowance = Allowance(5, 10, now=0.0)
    assert allowance.left(1e6) == 50


def test_debt_is_bounded_so_that_nobody_waits_longer_than_for_a_saving() -> None:
    allowance = Allowance(200, 10, now=0.0)
    for _ in range(60_000):
        allowance.spend(1)
    assert allowance.left(9.9) == 0
    assert allowance.left(10.1) > 0


def test_nothing_may_be_spent_of_nothing() -> None:
    assert not Allowance(0, 10, now=0.0).spend(1)
