"""Emptying a relay: a quiet second, then everybody leaves one by one."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from rtmprelay.drain import Drain


class Guest:
    """A client that notes when it was asked and when it was sent away."""

    def __init__(self, hotel: list[Guest], clock: Clock) -> None:
        self._hotel = hotel
        self._clock = clock
        self.asked_at: float | None = None
        self.left_at: float | None = None

    def ask_to_reconnect(self) -> None:
        self.asked_at = self._clock.seconds()

    def send_away(self) -> None:
        self.left_at = self._clock.seconds()
        self._hotel.remove(self)


def drained(count: int, duration: float) -> tuple[list[Guest], float]:
    """All guests, and when the drain was over."""
    clock = Clock()
    hotel: list[Guest] = []
    hotel += [Guest(hotel, clock) for _ in range(count)]
    guests = list(hotel)
    drain = Drain(clock, lambda: list(hotel), duration)
    over: list[float] = []
    drain.finished.addCallback(lambda _: over.append(clock.seconds()))
    drain.start()
    for _ in range(int(duration * 20) + 40):
        clock.advance(0.05)
    assert clock.getDelayedCalls() == []
    return guests, over[0]


@pytest.mark.parametrize("count", [1, 2, 50, 3000])
def test_clients_leave_one_by_one_and_the_last_at_the_end(count: int) -> None:
    guests, over = drained(count, 60.0)
    times = [guest.left_at for guest in guests]
    assert None not in times
    assert times == sorted(times, key=float)  # type: ignore[arg-type]
    assert min(map(float, times)) >= 1.0  # type: ignore[arg-type]
    assert 59.5 <= float(times[-1]) <= 60.5  # type: ignore[arg-type]
    assert times[-1] <= over <= 61.0  # type: ignore[operator]
    # In any ten seconds about a sixth of them.
    early = sum(float(time) <= 30.5 for time in times)  # type: ignore[arg-type]
    assert abs(early - count / 2) <= count * 0.02 + 1


def test_all_are_asked_to_reconnect_at_once() -> None:
    guests, _ = drained(10, 5.0)
    assert {guest.asked_at for guest in guests} == {0.0}


def test_empty_relay_is_drained_at_once() -> None:
    _, over = drained(0, 60.0)
    assert over == 0.0


def test_stopped_drain_sends_nobody_away() -> None:
    clock = Clock()
    hotel: list[Guest] = []
    hotel.append(Guest(hotel, clock))
    drain = Drain(clock, lambda: list(hotel), 5.0)
    drain.start()
    drain.stop()
    clock.advance(100)
    assert len(hotel) == 1
