"""`--check-destinations`: the steps to each server, and the reason where one fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.interfaces import IResolutionReceiver
from twisted.internet.task import Clock

from rtmprelay.destinations.preflight import CheckReport, check_destinations
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.wire.url import RtmpUrl
from tests.destinations.harness import destination
from tests.destinations.stub_server import StubServer

KEY = "KEY-that-nobody-may-see"
ALL_STEPS = ["dns", "tcp", "handshake", "connect", "publish", "stays"]


class Names:
    """Resolves every name to one address, or to none."""

    def __init__(self) -> None:
        self.known = True

    def resolveHostName(self, receiver: IResolutionReceiver, *_: object) -> None:  # noqa: N802
        receiver.resolutionBegan(None)  # type: ignore[arg-type]
        if self.known:
            receiver.addressResolved(IPv4Address("TCP", "192.0.2.9", 1935))
        receiver.resolutionComplete()


class ReactorWithNames(Clock):
    """A clock that resolves names, too."""

    def __init__(self) -> None:
        super().__init__()
        self.nameResolver = Names()


class Check:
    """Checks destinations whose servers are all the same stub."""

    def __init__(self, server: StubServer) -> None:
        self.server = server
        self.reactor = ReactorWithNames()

    def run(
        self, *destinations: DestinationSettings, during: Callable[[], object] = lambda: None
    ) -> list[CheckReport]:
        """Check the destinations; `during` is called while a server should stay connected."""
        reports: list[list[CheckReport]] = []
        checking = Deferred.fromCoroutine(check_destinations(self.reactor, destinations))
        checking.addCallback(reports.append)
        for _ in range(40):
            while self.server.pump():
                pass
            during()
            self.reactor.advance(0.5)
        (found,) = reports
        return found

    def run_one(self, during: Callable[[], object] = lambda: None) -> CheckReport:
        (report,) = self.run(destination(url=f"rtmp://one/live/{KEY}"), during=during)
        assert KEY not in "".join(report.lines())
        return report


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Check:
    server = StubServer()
    monkeypatch.setattr("rtmprelay.destinations.preflight.transport_endpoint", lambda *_: server)
    return Check(server)


def steps_of(report: CheckReport) -> list[str]:
    return [step.name for step in report.steps]


def assert_fails_at(report: CheckReport, name: str, reason: str) -> None:
    assert not report.succeeded
    *before, last = report.steps
    assert all(step.problem is None for step in before)
    assert last.name == name
    assert reason in (last.problem or "")


def test_server_that_accepts_passes_all_steps(check: Check) -> None:
    report = check.run_one()
    assert report.succeeded
    assert steps_of(report) == ALL_STEPS
    first, *lines = report.lines()
    assert first == "one (rtmp://one:1935/live/***)"
    assert [line.split()[:2] for line in lines] == [["ok", step] for step in ALL_STEPS]
    assert lines[0].endswith("192.0.2.9")


def test_accepted_publish_is_ended_with_a_goodbye_and_without_media(check: Check) -> None:
    check.run_one()
    assert check.server.last.order[-3:] == ["publish", "FCUnpublish", "deleteStream"]
    assert check.server.open_connections == []


def test_unknown_name_fails_at_dns(check: Check) -> None:
    check.reactor.nameResolver.known = False
    assert_fails_at(check.run_one(), "dns", "the name of the server is not known")


def test_closed_port_fails_at_tcp(check: Check) -> None:
    check.server.failure = ConnectionRefusedError()
    assert_fails_at(check.run_one(), "tcp", "connection refused")


def test_server_that_never_answers_fails_at_the_handshake_after_ten_seconds(check: Check) -> None:
    check.server.deaf = True
    report = check.run_one()
    assert_fails_at(report, "handshake", "does not answer")
    assert report.steps[-1].seconds == 10.0


def test_refused_app_fails_at_connect(check: Check) -> None:
    check.server.refuse_connect = lambda _: f"no such app, {KEY}"
    assert_fails_at(check.run_one(), "connect", "no such app, ***")


def test_refused_key_fails_at_publish_with_the_answer_of_the_server(check: Check) -> None:
    check.server.refuse_publish = ("NetStream.Publish.BadName", f"{KEY} is in use")
    report = check.run_one()
    assert_fails_at(report, "publish", "NetStream.Publish.BadName: *** is in use")
    assert f"  FAIL {'publish':<9}" in report.lines()[-1]


def test_server_that_closes_after_it_accepted_fails_at_stays(check: Check) -> None:
    assert_fails_at(
        check.run_one(during=lambda: check.server.last.close()), "stays", "the server closed the connection"
    )


def test_all_addresses_of_enabled_destinations_are_checked(check: Check) -> None:
    backup = (RtmpUrl.parse("rtmp://backup/live/key"),)
    reports = check.run(
        destination("first", "rtmp://one/live", backup=backup),
        destination("second", "rtmp://two/live/key"),
        destination("disabled", enabled=False),
    )
    assert [(report.destination, report.address) for report in reports] == [
        ("first", "rtmp://one:1935/live/***"),
        ("first", "rtmp://backup:1935/live/***"),
        ("second", "rtmp://two:1935/live/***"),
    ]
    assert [connection.command("publish").arguments[0] for connection in check.server.connections] == [
        "rtmprelay-check",
        "key",
        "key",
    ]
