"""How much a client may send, as plain arithmetic: the time is an argument."""

from __future__ import annotations

import pytest

from rtmprelay.errors import LimitExceededError
from rtmprelay.session.lifecycle import Phase
from rtmprelay.session.timeouts import RateLimit, Timeouts
from rtmprelay.wire.limits import ConnectionLimits


def test_ten_seconds_worth_may_come_at_once_and_not_one_more() -> None:
    rate = RateLimit("command_rate", 5, 100.0)
    rate.spend(50, 100.0)
    with pytest.raises(LimitExceededError) as caught:
        rate.spend(1, 100.0)
    assert caught.value.limit == "command_rate"
    assert str(caught.value) == "more than 5 a second for longer than a moment (limit: command_rate)"


def test_used_allowance_comes_back_with_time_up_to_ten_seconds_worth() -> None:
    rate = RateLimit("command_rate", 5, 0.0)
    rate.spend(50, 0.0)
    rate.spend(5, 1.0)
    rate.spend(10, 3.0)
    # However long nothing came, no more than ten seconds' worth is left.
    rate.spend(50, 1000.0)
    with pytest.raises(LimitExceededError):
        rate.spend(1, 1000.1)


def test_steady_rate_is_never_too_much() -> None:
    rate = RateLimit("chunk_rate", 8, 0.0)
    for second in range(1000):
        rate.spend(8, float(second))
    # What may come at once is still all there, but for the last second's.
    rate.spend(72, 999.0)
    with pytest.raises(LimitExceededError):
        rate.spend(1, 999.0)


def test_chunks_are_counted_by_their_difference_and_due_again_after_a_tenth_of_a_second() -> None:
    timeouts = Timeouts(ConnectionLimits(chunk_rate=100), 0.0)
    assert timeouts.chunks_due == 0
    timeouts.publish_accepted(0)
    assert timeouts.chunks_due == 11
    for total in range(100, 1001, 100):
        timeouts.count_chunks(total, 0.0)
        assert timeouts.chunks_due == total + 11
    with pytest.raises(LimitExceededError) as caught:
        timeouts.count_chunks(1001, 0.0)
    assert caught.value.limit == "chunk_rate"


def test_commands_have_a_rate_of_their_own() -> None:
    timeouts = Timeouts(ConnectionLimits(command_rate=1), 0.0)
    for _ in range(10):
        timeouts.count_command(0.0)
    with pytest.raises(LimitExceededError) as caught:
        timeouts.count_command(0.0)
    assert caught.value.limit == "command_rate"


@pytest.mark.parametrize(
    ("phase", "seconds", "sentence"),
    [
        (Phase.HANDSHAKE, 5.0, "no whole handshake within 5 s (limit: handshake_timeout)"),
        (Phase.HANDSHAKEN, 10.0, "no connect command within 10 s (limit: connect_timeout)"),
        (Phase.CONNECTED, 60.0, "no whole message for 60 s (limit: idle_timeout)"),
    ],
)
def test_client_that_is_too_slow_gets_the_sentence_of_its_phase(
    phase: Phase, seconds: float, sentence: str
) -> None:
    timeouts = Timeouts(ConnectionLimits(), 1000.0)
    timeouts.check(phase, False, 999.9 + seconds)
    with pytest.raises(LimitExceededError) as caught:
        timeouts.check(phase, False, 1000.0 + seconds)
    assert str(caught.value) == sentence


def test_client_that_plays_may_be_silent_for_ever() -> None:
    timeouts = Timeouts(ConnectionLimits(), 1000.0)
    timeouts.check(Phase.CONNECTED, True, 1_000_000.0)
    assert timeouts.next_deadline(Phase.CONNECTED, True) is None
