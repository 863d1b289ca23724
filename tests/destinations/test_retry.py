"""When a destination is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.destinations.failures import DestinationFailure, FailureClass, RetryPolicy

NETWORK = DestinationFailure(FailureClass.NETWORK, "lost")
REFUSED = DestinationFailure(FailureClass.REFUSED, "bad key")
PROTOCOL = DestinationFailure(FailureClass.PROTOCOL, "garbage")


def policy(jitter: float = 0.0, max_retries: int = 0) -> RetryPolicy:
    return RetryPolicy(max_retries, jitter=lambda: jitter)


def delays(retry: RetryPolicy, failure: DestinationFailure, count: int) -> list[float]:
    found = []
    for number in range(count):
        kind = retry.failed(failure, float(number)).kind
        found.append(retry.delay(kind))
    return found


@pytest.mark.parametrize("failure", [NETWORK, PROTOCOL])
def test_every_delay_without_jitter(failure: DestinationFailure) -> None:
    assert delays(policy(), failure, 9) == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_every_delay_with_the_most_jitter() -> None:
    expected = [1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 48, 48]
    assert delays(policy(1.0), NETWORK, 8) == pytest.approx(expected)


def test_who_was_refused_waits_longer() -> None:
    assert delays(policy(), REFUSED, 6) == [10, 20, 40, 60, 60, 60]
    assert delays(policy(1.0), REFUSED, 5) == pytest.approx([12, 24, 48, 48, 48])


@given(st.floats(0, 1), st.lists(st.sampled_from(FailureClass), min_size=1, max_size=40))
def test_a_delay_is_never_under_one_second_nor_over_sixty(jitter: float, kinds: list[FailureClass]) -> None:
    retry = policy(jitter)
    for kind in kinds:
        retry.failed(DestinationFailure(kind, "it failed"), 0.0)
        assert 1.0 <= retry.delay(kind) <= 60.0


def test_a_year_of_failures_costs_no_more_than_a_few() -> None:
    retry = policy()
    for _ in range(500_000):
        retry.failed(NETWORK, 0.0)
    assert retry.delay(FailureClass.NETWORK) == 60.0


def test_each_class_backs_off_from_its_own_beginning() -> None:
    retry = policy()
    found = []
    for failure in (NETWORK, NETWORK, NETWORK, REFUSED, REFUSED, NETWORK):
        found.append(retry.delay(retry.failed(failure, 0.0).kind))
    assert found == [1, 2, 4, 10, 20, 8]
    assert retry.failures == 6


def test_two_classes_by_turns_back_off_too() -> None:
    retry = policy()
    found = []
    for failure in [NETWORK, REFUSED] * 4 + [PROTOCOL]:
        found.append(retry.delay(retry.failed(failure, 0.0).kind))
    assert found == [1, 10, 2, 20, 4, 40, 8, 60, 1]
    retry.reset()
    assert retry.delay(retry.failed(REFUSED, 0.0).kind) == 10


def test_quick_closes_begin_as_a_lost_network_and_go_on_as_a_refusal() -> None:
    retry = policy()
    found = []
    for number in range(5):
        retry.accepted(number * 100.0)
        found.append(retry.delay(retry.failed(NETWORK, number * 100.0 + 1).kind))
    assert found == [1, 2, 10, 20, 40]


def test_the_most_retries_may_change_on_the_way() -> None:
    retry = policy(max_retries=1)
    delays(retry, NETWORK, 2)
    assert retry.is_exhausted()
    retry.max_retries = 3
    assert not retry.is_exhausted()


def test_the_real_jitter_varies() -> None:
    retry = RetryPolicy()
    retry.failed(NETWORK, 0.0)
    found = {retry.delay(FailureClass.NETWORK) for _ in range(50)}
    assert len(found) > 10
    assert min(found) >= 1.0
    assert max(found) <= 1.2


@pytest.mark.parametrize(("lasted", "delay"), [(29.9, 8.0), (30.0, 1.0), (3600.0, 1.0)])
def test_a_good_connection_makes_the_next_failure_the_first(lasted: float, delay: float) -> None:
    retry = policy()
    delays(retry, NETWORK, 3)
    retry.accepted(100.0)
    retry.failed(NETWORK, 100.0 + lasted)
    assert retry.delay(FailureClass.NETWORK) == delay


def test_a_good_connection_counts_only_once() -> None:
    retry = policy()
    retry.accepted(0.0)
    retry.failed(NETWORK, 40.0)
    assert retry.failures == 1
    retry.failed(NETWORK, 80.0)
    assert retry.failures == 2


def close_after(retry: RetryPolicy, seconds: float, at: float, failure: DestinationFailure = NETWORK) -> str:
    retry.accepted(at)
    return retry.failed(failure, at + seconds).kind.value


def test_three_quick_closes_mean_refused() -> None:
    retry = policy()
    assert close_after(retry, 4.9, 0.0) == "network"
    assert close_after(retry, 0.0, 10.0) == "network"
    assert close_after(retry, 4.9, 20.0) == "refused"
    assert close_after(retry, 1.0, 100.0) == "refused"
    told = retry.failed(NETWORK, 200.0)
    assert "is the key right?" in told.sentence
    assert "lost" in told.sentence


def test_closes_that_are_not_so_quick_do_not() -> None:
    retry = policy()
    assert [close_after(retry, 5.0, number * 100.0) for number in range(6)] == ["network"] * 6


def test_quick_closes_must_come_in_a_row() -> None:
    retry = policy()
    kinds = [
        close_after(retry, seconds, number * 100.0)
        for number, seconds in enumerate([1, 1, 20, 1, 1, 40, 1, 1])
    ]
    assert kinds == ["network"] * 8


def test_quick_closes_say_nothing_of_other_failures() -> None:
    retry = policy()
    for number in range(5):
        assert close_after(retry, 1.0, number * 10.0, PROTOCOL) == "protocol"
    assert retry.failed(PROTOCOL, 60.0) is PROTOCOL
    assert retry.failed(REFUSED, 60.0) is REFUSED


def test_no_retries_without_end_by_default() -> None:
    retry = policy()
    delays(retry, NETWORK, 1000)
    assert not retry.is_exhausted()


@pytest.mark.parametrize("most", [1, 2, 5])
def test_after_so_many_retries_it_is_given_up(most: int) -> None:
    retry = policy(max_retries=most)
    exhausted = []
    for number in range(most + 1):
        retry.failed(NETWORK, float(number))
        exhausted.append(retry.is_exhausted())
    assert exhausted == [False] * most + [True]


def test_a_good_connection_gives_all_retries_back() -> None:
    retry = policy(max_retries=2)
    delays(retry, NETWORK, 2)
    retry.accepted(0.0)
    retry.failed(NETWORK, 31.0)
    assert not retry.is_exhausted()


def test_reset_forgets_everything() -> None:
    retry = policy(max_retries=2)
    for number in range(4):
        close_after(retry, 1.0, number * 10.0)
    assert retry.is_exhausted()
    retry.accepted(100.0)
    retry.reset()
    assert not retry.is_exhausted()
    assert retry.failures == 0
    assert retry.failed(NETWORK, 100.0) is NETWORK
    assert retry.delay(FailureClass.NETWORK) == 1.0
    assert close_after(retry, 1.0, 200.0) == "network"
