"""What is known of servers, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from spark_analytics.event_logs.heard import Heard
from spark_analytics.event_logs.servers import Server, known_servers, with_new

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


def test_events_that_come_late_are_noticed() -> None:
    known = known_servers([ONE.row(NOON)])
    new = attrs.evolve(ONE, instance="i1")
    assert Heard(known, [(new, 100)], NOON).is_late()
    assert not Heard(known, [(new, 101)], NOON).is_late()
    assert not Heard(known, [(attrs.evolve(new, instance="i2"), 1)], NOON).is_late()


def test_the_first_day_that_may_change() -> None:
    gone = attrs.evolve(ONE, instance="i0", has_stopped=True, last_seen=NOON - timedelta(days=9))
    known = known_servers([ONE.row(NOON), gone.row(NOON)])
    heard = Heard(known, [], NOON + timedelta(days=3))
    assert heard.since(heard.together(anew=False)) == NOON.date()
    assert all(server.known_until is None for server in heard.together(anew=True).values())
    assert Heard({}, [], NOON).since({}) == NOON.date()
