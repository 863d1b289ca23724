"""Guessing is slow by address, and right credentials beside it are not."""

from __future__ import annotations

import pytest
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import Clock

from rtmprelay.access.guessing import Ban, GuessGuard, GuessLimits, read_ban
from rtmprelay.errors import ConfigError
from rtmprelay.event_bus import EventBus
from rtmprelay.events import AddressBanned, GuessingSlowed
from tests.helpers import EventList

ATTACKER = "192.0.2.66"


class World:
    """A guard of the right key "right", and clients that try keys."""

    def __init__(self, limits: GuessLimits | None = None, ban: Ban | None = None) -> None:
        self.clock = Clock()
        self.told = EventList()
        bus = EventBus()
        bus.add_sink(self.told)
        self.guard = GuessGuard(self.clock, bus, limits, ban)
        self.checked: list[float] = []

    def attempt(self, host: str = ATTACKER, key: str = "wrong") -> Deferred[str]:
        def check() -> Deferred[str]:
            self.checked.append(self.clock.seconds())
            return succeed(key)

        return Deferred.fromCoroutine(self.guard.check(host, check, lambda one: one == "wrong", "shut out"))

    def outcome(self, attempt: Deferred[str]) -> object:
        return getattr(attempt, "result", None) if attempt.called else "not yet"

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds * 20)):
            self.clock.advance(0.05)


def test_right_key_is_answered_at_once() -> None:
    world = World()
    assert world.outcome(world.attempt(key="right")) == "right"
    assert not world.clock.getDelayedCalls()


def test_wrong_key_is_refused_after_a_second_and_the_next_ones_later_and_later() -> None:
    world = World()
    delays = []
    for _ in range(8):
        began = world.clock.seconds()
        attempt = world.attempt()
        while not attempt.called:
            world.clock.advance(0.05)
        delays.append(round(world.clock.seconds() - began, 1))
    assert delays[0] == pytest.approx(1.0, abs=0.1)
    assert delays == sorted(delays)
    assert delays[-1] == pytest.approx(8.0, abs=0.1)


def test_a_thousand_connections_check_no_more_than_five_a_second() -> None:
    world = World(GuessLimits(longest_guess_delay=1.0))
    attempts = [world.attempt() for _ in range(1_000)]
    assert len(world.checked) == 5
    assert not [one for one in attempts if one.called]
    world.clock.advance(1)
    assert [world.outcome(one) for one in attempts].count("shut out") == 1_000 - 5 - 20
    for _ in range(200):
        world.pass_time(0.1)
        world.attempt()
    rate = len(world.checked) / world.clock.seconds()
    assert rate <= 5.3
    assert all(world.outcome(one) != "right" for one in attempts)


def test_default_delays_make_it_less_than_one_a_second() -> None:
    world = World()
    for _ in range(600):
        world.attempt()
        world.pass_time(0.1)
    assert len(world.checked) <= 60


def test_guesser_delays_its_whole_ipv6_network_and_no_other_address() -> None:
    world = World()
    for number in range(100):
        world.attempt(f"2001:db8::{number:x}")
    assert len(world.checked) == 5
    assert world.outcome(world.attempt("192.0.2.1", "right")) == "right"
    assert world.outcome(world.attempt("2001:db8:0:1::1", "right")) == "right"
    assert world.outcome(world.attempt("2001:db8::ffff", "right")) != "right"


def test_right_key_from_the_same_address_is_not_delayed_by_a_few_wrong_ones() -> None:
    world = World()
    for _ in range(4):
        world.attempt()
    assert world.outcome(world.attempt(key="right")) == "right"


def test_guesser_that_leaves_has_its_turn_later_all_the_same() -> None:
    """Otherwise a new connection for each guess would be free."""
    world = World()
    for _ in range(50):
        attempt = world.attempt()
        attempt.addErrback(lambda failure: failure.trap(CancelledError))
        attempt.cancel()
    assert len(world.checked) == 5
    assert not world.clock.getDelayedCalls()


def test_after_ten_quiet_minutes_answers_are_quick_again() -> None:
    world = World()
    for _ in range(5):
        world.attempt()
    world.clock.advance(700)
    attempt = world.attempt()
    world.clock.advance(1.0)
    assert world.outcome(attempt) == "wrong"


def test_guessing_is_reported_once_a_minute() -> None:
    world = World()
    for _ in range(40):
        world.attempt()
        world.pass_time(1)
    (told,) = world.told.of(GuessingSlowed)
    assert told.peer == ATTACKER
    assert told.wrong == 5


def test_ban_shuts_an_address_out_for_a_while() -> None:
    world = World(ban=Ban(20, 600))
    while not world.told.of(AddressBanned):
        world.attempt()
        world.pass_time(0.5)
        assert world.clock.seconds() < 600
    assert len(world.checked) == 20
    assert world.guard.is_banned(ATTACKER)
    assert not world.guard.is_banned("192.0.2.1")
    world.clock.advance(10)
    assert world.outcome(world.attempt(key="right")) == "shut out"
    world.clock.advance(600)
    assert not world.guard.is_banned(ATTACKER)
    assert world.outcome(world.attempt(key="right")) == "right"
    (banned,) = world.told.of(AddressBanned)
    assert (banned.peer, banned.wrong, banned.seconds) == (ATTACKER, 20, 600)


def test_check_that_fails_gives_its_turn_back() -> None:
    world = World()
    for _ in range(5):
        world.attempt()
    world.pass_time(9)

    def broken() -> Deferred[str]:
        raise RuntimeError("a bug")

    for _ in range(10):
        failing = Deferred.fromCoroutine(world.guard.check(ATTACKER, broken, bool, "shut out"))
        failing.addErrback(lambda failure: failure.trap(RuntimeError))
    assert world.outcome(world.attempt(key="right")) == "right"


def test_memory_for_addresses_is_bounded() -> None:
    world = World()
    for number in range(10_100):
        world.attempt(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(world.guard._addresses) == 10_000


@pytest.mark.parametrize(("text", "ban"), [("20/10m", Ban(20, 600)), ("3/90s", Ban(3, 90))])
def test_ban_is_read_as_a_number_and_a_time(text: str, ban: Ban) -> None:
    assert read_ban(text) == ban


@pytest.mark.parametrize("text", ["", "20", "20/", "/10m", "0/10m", "20/10", "-1/10m", "20/10m/x", "x/10m"])
def test_wrong_ban_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_ban(text)
