"""What is known of servers, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from spark_analytics.event_logs.servers import News, Server, known_servers, with_new

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
ONE = Server("i1", "relay-1", "1.0", NOON, NOON + timedelta(hours=1), False, 100, 98)


def after(**time: float) -> datetime:
    return ONE.last_seen + timedelta(**time)


@pytest.mark.parametrize(
    ("now", "how", "settled"),
    [
        (after(minutes=4), "running", False),
        (after(minutes=6), "died", False),
        (after(days=6), "died", False),
        (after(days=8), "died", True),
    ],
)
def test_a_server_that_is_silent(now: datetime, how: str, settled: bool) -> None:
    assert (ONE.ended_how(now), ONE.is_settled(now)) == (how, settled)
    stopped = attrs.evolve(ONE, has_stopped=True)
    assert (stopped.ended_how(now), stopped.is_settled(now)) == ("stopped", True)


def test_what_is_remembered_is_known_again() -> None:
    row = ONE.row(after(minutes=1))
    assert row["missing_events"] == 2
    (known,) = known_servers([row]).values()
    assert known == attrs.evolve(ONE, known_number=100, known_until=ONE.last_seen)


def test_what_is_new_is_added() -> None:
    new = Server("i1", None, None, after(minutes=1), after(minutes=9), True, 150, 50)
    known = known_servers([ONE.row(NOON)])
    (together,) = with_new(known, [new]).values()
    assert (together.host, together.started_at, together.last_seen) == ("relay-1", NOON, after(minutes=9))
    assert (together.events, together.last_number, together.has_stopped) == (148, 150, True)
    assert (together.known_number, together.known_until) == (100, ONE.last_seen)


def test_without_numbers_nobody_knows_how_many_are_missing() -> None:
    one = attrs.evolve(ONE, is_numbered=False)
    row = one.row(after(minutes=1))
    assert row["missing_events"] is None
    (known,) = known_servers([row]).values()
    assert not known.is_numbered
    assert not known.joined(one).is_numbered
    assert known.joined(ONE).is_numbered


def news(
    *new: tuple[Server, int],
    before: Iterable[Server] = (ONE,),
    now: datetime = NOON,
    waiting: Iterable[str] = ("i1",),
) -> News:
    return News(known_servers(server.row(now) for server in before), list(new), now, frozenset(waiting))


def part(first: int, last: int, instance: str = "i1", missing: int = 0) -> tuple[Server, int]:
    """What one file tells."""
    events = last - first + 1 - missing
    return attrs.evolve(ONE, instance=instance, last_number=last, events=events), first


def test_events_that_come_late_are_noticed() -> None:
    assert news(part(100, 120)).late()
    assert not news(part(101, 120)).late()
    assert not news(part(1, 20, "i2")).late()


def test_events_that_come_twice_at_once_are_noticed() -> None:
    assert not news(part(121, 130), part(101, 120), part(1, 130, "i2")).late()
    assert news(part(120, 130), part(101, 120)).late()
    assert news(part(101, 130), part(110, 120)).late()
    # Both in one file.
    assert news(part(101, 110, missing=-1)).late()
    assert not news(part(101, 110, missing=1)).late()


@pytest.mark.parametrize(
    ("server", "now", "waiting", "late"),
    [
        (ONE, after(days=6), (), False),
        (ONE, after(days=8), (), True),
        # Something of it is open still: the run before was not later than a week after its last event.
        (ONE, after(days=8), ("i1",), False),
        (attrs.evolve(ONE, has_stopped=True), after(days=1), (), True),
    ],
)
def test_a_server_is_heard_of_that_was_done_with(
    server: Server, now: datetime, waiting: tuple[str, ...], late: bool
) -> None:
    new = part(101, 120)
    assert news(new, before=[server], now=now, waiting=waiting).late() == ({"i1"} if late else set())
    assert not news(before=[server], now=now, waiting=waiting).late()


def test_the_first_day_that_may_change() -> None:
    """A server that was done with is forgotten, however it ended."""
    stopped = attrs.evolve(ONE, instance="i0", has_stopped=True, last_seen=NOON - timedelta(days=9))
    died = attrs.evolve(ONE, instance="i2", last_seen=NOON - timedelta(days=800))
    servers = (ONE, stopped, died)
    now = NOON + timedelta(days=3)
    some = news(before=servers, now=now)
    assert some.since(some.together().values()) == NOON.date()
    told = news(part(101, 120), before=servers, now=now, waiting=())
    assert told.since(told.together().values()) == NOON.date()
    back = (attrs.evolve(ONE, started_at=NOON - timedelta(days=2)), 101)
    assert news(back).since([ONE]) == back[0].started_at.date()
    quiet = news(before=servers, now=now, waiting=())
    assert quiet.since(quiet.together().values()) == now.date()
    assert news(before=[], waiting=()).since([]) == NOON.date()
