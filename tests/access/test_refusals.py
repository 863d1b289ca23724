"""Refusals: one event a second for each address and kind, and no refusal is missing in the counts."""

from __future__ import annotations

from twisted.internet.task import Clock

from rtmprelay.access.refusals import RefusalReports
from rtmprelay.event_bus import EventBus
from rtmprelay.events import ControlRefused, PlayRefused
from tests.helpers import EventList


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.told = EventList()
        bus = EventBus()
        bus.add_sink(self.told)
        self.reports = RefusalReports(bus, self.clock)

    def refuse(self, host: str, times: int = 1, stream: str = "live/x") -> None:
        for _ in range(times):
            refusal = PlayRefused(connection="c1", stream=stream, peer=host, reason="no")
            self.reports.report(host, refusal)

    @property
    def counts(self) -> list[int]:
        return [event.others + 1 for event in self.told.of(PlayRefused)]


def test_first_refusal_is_reported_at_once_and_the_rest_a_second_later_with_their_count() -> None:
    world = World()
    world.refuse("192.0.2.1", 300)
    assert world.counts == [1]
    world.clock.advance(1)
    assert world.counts == [1, 299]
    world.clock.advance(1)
    assert not world.clock.getDelayedCalls()


def test_steady_flood_is_reported_once_a_second_and_counted_exactly() -> None:
    world = World()
    for _ in range(100):
        world.refuse("192.0.2.1", 30)
        world.clock.advance(0.1)
    world.reports.flush()
    assert sum(world.counts) == 3_000
    assert len(world.counts) <= 12


def test_addresses_and_kinds_are_reported_separately_and_a_customer_of_ipv6_is_one_address() -> None:
    world = World()
    for host in ("192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"):
        world.refuse(host)
    world.reports.report("192.0.2.1", ControlRefused(peer="192.0.2.1:1"))
    assert [event.peer for event in world.told.of(PlayRefused)] == [
        "192.0.2.1",
        "192.0.2.2",
        "2001:db8::1",
        "2001:db8:0:1::1",
    ]
    assert len(world.told.of(ControlRefused)) == 1


def test_refusals_of_very_many_addresses_share_one_report() -> None:
    world = World()
    for number in range(5_000):
        world.refuse(f"10.0.{number >> 8}.{number & 255}")
    assert len(world.counts) <= 1_001
    world.clock.advance(1)
    assert sum(world.counts) == 5_000


def test_flush_reports_the_refusals_that_are_held_back() -> None:
    world = World()
    world.refuse("192.0.2.1", 3)
    world.reports.flush()
    assert world.counts == [1, 2]
    assert not world.clock.getDelayedCalls()
