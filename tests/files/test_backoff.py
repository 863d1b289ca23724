"""When a disk that failed is tried again."""

from __future__ import annotations

from rtmprelay.files.backoff import Backoff, Outage


def test_delays_double_up_to_the_longest() -> None:
    backoff = Backoff(1.0, 5.0)
    assert [backoff.next_delay() for _ in range(5)] == [1, 2, 4, 5, 5]


def test_a_reset_begins_with_the_first_delay_again() -> None:
    backoff = Backoff(1.0, 5.0)
    delays = [backoff.next_delay(), backoff.next_delay()]
    backoff.reset()
    assert [*delays, backoff.next_delay()] == [1, 2, 1]


def outage() -> Outage:
    return Outage(retry_after=1.0, longest_retry=4.0, recovered_after=10.0)


def test_only_the_first_failure_begins_an_outage() -> None:
    disk = outage()
    assert disk.error is None
    assert [disk.failed("EIO", 0), disk.failed("ENOSPC", 1)] == [True, False]
    assert disk.error == "ENOSPC"


def test_attempts_within_an_outage_come_later_and_later() -> None:
    disk = outage()
    attempts = []
    for second in range(20):
        if not disk.must_wait(second):
            attempts.append(second)
            disk.failed("EIO", second)
    assert attempts == [0, 1, 3, 7, 11, 15, 19]


def test_an_attempt_may_be_made_at_once() -> None:
    disk = outage()
    disk.failed("queue_full", 5, retry_at_once=True)
    assert not disk.must_wait(5)
    # A failure after that waits as the first one of an outage does.
    disk.failed("EIO", 5)
    assert [disk.must_wait(5.9), disk.must_wait(6)] == [True, False]


def test_an_outage_ends_when_writing_has_worked_for_a_while() -> None:
    disk = outage()
    disk.failed("EIO", 0)
    errors = []
    for second in (1, 5, 10.9, 11):
        disk.worked(second)
        errors.append(disk.error)
    assert errors == ["EIO", "EIO", "EIO", None]
    assert disk.failed("EIO", 12)


def test_a_failure_in_between_continues_the_outage() -> None:
    disk = outage()
    disk.failed("EIO", 0)
    disk.worked(1)
    assert not disk.failed("EIO", 10)
    disk.worked(12)
    disk.worked(21)
    assert disk.error == "EIO"


def test_success_without_an_outage_changes_nothing() -> None:
    disk = outage()
    disk.worked(1)
    assert disk.failed("EIO", 2)
