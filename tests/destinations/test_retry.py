"""When a destination is tried again, and when it is given up."""

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
def test_delays_double_from_one_second_to_sixty(failure: DestinationFailure) -> None:
    assert delays(policy(), failure, 9) == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_jitter_adds_a_fifth_and_shortens_the_longest_delay() -> None:
    expected = [1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 48, 48]
    assert delays(policy(1.0), NETWORK, 8) == pytest.approx(expected)


def test_delays_after_a_refusal_start_at_ten_seconds() -> None:
    assert delays(policy(), REFUSED, 6) == [10, 20, 40, 60, 60, 60]
    assert delays(policy(1.0), REFUSED, 5) == pytest.approx([12, 24, 48, 48, 48])


@given(st.floats(0, 1), st.lists(st.sampled_from(FailureClass), min_size=1, max_size=40))
def test_delay_is_always_between_one_second_and_sixty(jitter: float, kinds: list[FailureClass]) -> None:
    retry = policy(jitter)
    for kind in kinds:
        retry.failed(DestinationFailure(kind, "it failed"), 0.0)
        assert 1.0 <= retry.delay(kind) <= 60.0


def test_delay_after_a_year_of_failures_is_the_longest() -> None:
    retry = policy()
    for _ in range(500_000):
        retry.failed(NETWORK, 0.0)
    assert retry.delay(FailureClass.NETWORK) == 60.0


def test_each_class_of_failure_has_delays_of_its_own() -> None:
    retry = policy()
    found = []
    for failure in (NETWORK, NETWORK, NETWORK, REFUSED, REFUSED, NETWORK):
        found.append(retry.delay(retry.failed(failure, 0.0).kind))
    assert found == [1, 2, 4, 10, 20, 8]
    assert retry.failures == 6


def test_delays_grow_when_two_classes_alternate() -> None:
    retry = policy()
    found = []
    for failure in [NETWORK, REFUSED] * 4 + [PROTOCOL]:
        found.append(retry.delay(retry.failed(failure, 0.0).kind))
    assert found == [1, 10, 2, 20, 4, 40, 8, 60, 1]
    retry.reset()
    assert retry.delay(retry.failed(REFUSED, 0.0).kind) == 10


def test_delays_of_quick_closes_become_those_of_a_refusal() -> None:
    retry = policy()
    found = []
    for number in range(5):
        retry.accepted(number * 100.0)
        found.append(retry.delay(retry.failed(NETWORK, number * 100.0 + 1).kind))
    assert found == [1, 2, 10, 20, 40]


def test_max_retries_may_change_between_failures() -> None:
    retry = policy(max_retries=1)
    delays(retry, NETWORK, 2)
    assert retry.is_exhausted()
    retry.max_retries = 3
    assert not retry.is_exhausted()


def test_default_jitter_is_random() -> None:
    retry = RetryPolicy()
    retry.failed(NETWORK, 0.0)
    found = {retry.delay(FailureClass.NETWORK) for _ in range(50)}
    assert len(found) > 10
    assert min(found) >= 1.0
    assert max(found) <= 1.2


@pytest.mark.parametrize(("lasted", "delay"), [(29.9, 8.0), (30.0, 1.0), (3600.0, 1.0)])
def test_failure_after_a_good_connection_counts_as_the_first(lasted: float, delay: float) -> None:
    retry = policy()
    delays(retry, NETWORK, 3)
    retry.accepted(100.0)
    retry.failed(NETWORK, 100.0 + lasted)
    assert retry.delay(FailureClass.NETWORK) == delay


def test_good_connection_resets_the_failures_only_once() -> None:
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
    failure = retry.failed(NETWORK, 200.0)
    assert "is the key right?" in failure.sentence
    assert "lost" in failure.sentence


def test_closes_after_five_seconds_are_not_a_refusal() -> None:
    retry = policy()
    assert [close_after(retry, 5.0, number * 100.0) for number in range(6)] == ["network"] * 6


def test_quick_closes_with_others_between_are_not_a_refusal() -> None:
    retry = policy()
    kinds = [
        close_after(retry, seconds, number * 100.0)
        for number, seconds in enumerate([1, 1, 20, 1, 1, 40, 1, 1])
    ]
    assert kinds == ["network"] * 8


def test_quick_closes_do_not_change_other_classes() -> None:
    retry = policy()
    for number in range(5):
        assert close_after(retry, 1.0, number * 10.0, PROTOCOL) == "protocol"
    assert retry.failed(PROTOCOL, 60.0) is PROTOCOL
    assert retry.failed(REFUSED, 60.0) is REFUSED


def test_policy_never_gives_up_by_default() -> None:
    retry = policy()
    delays(retry, NETWORK, 1000)
    assert not retry.is_exhausted()


@pytest.mark.parametrize("most", [1, 2, 5])
def test_policy_is_exhausted_after_max_retries(most: int) -> None:
    retry = policy(max_retries=most)
    exhausted = []
    for number in range(most + 1):
        retry.failed(NETWORK, float(number))
        exhausted.append(retry.is_exhausted())
    assert exhausted == [False] * most + [True]


def test_good_connection_allows_all_retries_again() -> None:
    retry = policy(max_retries=2)
    delays(retry, NETWORK, 2)
    retry.accepted(0.0)
    retry.failed(NETWORK, 31.0)
    assert not retry.is_exhausted()


def test_reset_forgets_all_failures() -> None:
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
