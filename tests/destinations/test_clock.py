"""The wall clock is set forward or back while destinations are connected."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from twisted.internet.interfaces import IReactorCore
from twisted.internet.task import Clock
from typing_extensions import override
from zope.interface import alsoProvides

from rtmprelay.clock import SteadyClock
from rtmprelay.config.relay import RelayConfig
from rtmprelay.destinations.status import DestinationState, DestinationStatus
from rtmprelay.service import RelayService
from tests.destinations.harness import destination
from tests.destinations.stub_server import StubServer
from tests.helpers import group, start_frames

AN_HOUR = 3600.0


class SteppedReactor(Clock):
    """A reactor in memory that shows the wall clock, as real ones do, and times its calls by it."""

    step = 0.0

    @override
    def seconds(self) -> float:
        return super().seconds() + self.step


class FakePublisher:
    connection_id = "encoder"
    address = "192.0.2.1"


class SteppedRelay:
    """A relay with one destination, whose wall clock can be set."""

    def __init__(self, reactor: SteppedReactor, server: StubServer) -> None:
        self.reactor = reactor
        self.server = server
        self.service = RelayService(RelayConfig(listen=(), destinations=(destination(),)), reactor)
        self.service.startService()
        now = self.service.factory.clock.seconds()
        self.stream = self.service.registry.publish("live/cam", FakePublisher(), now)  # type: ignore[arg-type]
        self.send(0)
        self.pump()

    @property
    def status(self) -> DestinationStatus:
        (status,) = self.service.destinations.statuses()
        return status

    def send(self, begin_ms: int, size: int = 20) -> None:
        frames = [*start_frames(), *group(begin_ms, size=size)]
        self.stream.publish_frames(frames, self.service.factory.clock.seconds())

    def set_wall_clock(self, by: float) -> None:
        self.reactor.step += by
        self.reactor.advance(0)
        self.pump()

    def advance(self, seconds: float) -> None:
        for _ in range(round(seconds * 2)):
            self.reactor.advance(0.5)
            self.pump()

    def pump(self) -> None:
        while self.server.pump():
            pass


@pytest.fixture
def relay(monkeypatch: pytest.MonkeyPatch) -> SteppedRelay:
    reactor, server = SteppedReactor(), StubServer()
    # That is how `steady` tells a reactor from a clock that a test moves.
    alsoProvides(reactor, IReactorCore)
    make: Callable[..., StubServer] = lambda *_: server  # noqa: E731
    monkeypatch.setattr("rtmprelay.wiring.transport_endpoint", make)
    monkeypatch.setattr(SteadyClock, "seconds", lambda _: Clock.seconds(reactor))
    return SteppedRelay(reactor, server)


def test_quick_closes_count_as_a_refusal_although_the_wall_clock_is_set_forward(relay: SteppedRelay) -> None:
    for _ in range(3):
        assert relay.status.state is DestinationState.CONNECTED
        relay.set_wall_clock(AN_HOUR)
        relay.server.last.close()
        refused = relay.status.error_class
        relay.advance(5)
    assert refused == "refused"


def test_a_server_that_reads_slowly_is_not_cut_when_the_wall_clock_is_set_forward(
    relay: SteppedRelay,
) -> None:
    connection = relay.server.last
    connection.transport.stalled = True
    relay.send(200, size=50_000)
    relay.set_wall_clock(AN_HOUR)
    assert connection in relay.server.open_connections
    relay.advance(10)
    assert connection not in relay.server.open_connections
    assert "took no byte for 10 s" in str(relay.status.last_error)


@pytest.mark.parametrize("step", [AN_HOUR, -AN_HOUR])
def test_times_in_the_status_follow_the_wall_clock(relay: SteppedRelay, step: float) -> None:
    relay.advance(5)
    relay.send(200)
    relay.set_wall_clock(step)
    status = relay.status
    assert (status.connect_time, status.last_sent_time) == (step, step + 5)
    relay.server.last.close()
    assert 6.0 <= (relay.status.next_attempt_time or 0.0) - step <= 6.2
