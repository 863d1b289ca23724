"""Server-sent events: greeting, status, events, and readers that do not read."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed

from rtmprelay.events import ConnectionOpened, MediaStatistics
from rtmprelay.web.server import scheduling
from rtmprelay.web.settings import HttpSettings
from tests.web.helpers import Client, Web, destination, one_turn

ASK = b"GET /events HTTP/1.1\r\nHost: relay\r\n\r\n"


@pytest.fixture(autouse=True, params=["at once", "piece by piece"])
def pace(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything also works when the live streams leave HTTP no time: then each piece waits for a turn."""
    if request.param == "piece by piece":
        monkeypatch.setattr(scheduling, "BUDGET", -1.0)


def listen(web: Web) -> Client:
    """A reader of events."""
    client = Client(web)
    client.send(ASK)
    return client


def happen(web: Web, peer: str = "192.0.2.1:50000") -> None:
    """Something happens."""
    web.service.events.publish(ConnectionOpened(connection="c000001", peer=peer))


def kinds(events: list[tuple[str, Any]]) -> list[str]:
    return [kind for kind, _ in events]


def test_a_reader_is_greeted_and_gets_the_status() -> None:
    """All that a page needs to draw itself, at once."""
    web = Web(destinations=[destination("far", enabled=False)])
    web.publish()
    web.advance(3.1)
    happen(web)
    client = listen(web)
    (hello_kind, hello), (status_kind, status) = client.events()
    assert (hello_kind, status_kind) == ("hello", "status")
    assert hello["api_version"] == 1
    assert hello["changes_allowed"] is True
    assert hello["interval"] == 1.0
    assert hello["history"]["streams"] == {"live/test": [None, 0.0, 0.0]}
    assert hello["history"]["destinations"] == {"far": [None, 0.0, 0.0, 0.0]}
    assert hello["events"][-1]["event"] == "connection_opened"
    assert hello["events"][-1]["sentence"] == "Connection c000001 accepted from 192.0.2.1:50000"
    assert hello["events"][-1]["level"] == "info"
    assert status["streams"]["live/test"]["live"] is True
    assert status["destinations"]["far"]["status"] == "disabled"
    assert status["health"]["streams"] == 1


def test_the_headers() -> None:
    """No cache and no proxy may keep events back; HEAD tells them without a stream."""
    web = Web()
    client = listen(web)
    head = client.transport.value().partition(b"\r\n\r\n")[0].lower()
    assert b"content-type: text/event-stream" in head
    assert b"cache-control: no-store" in head
    assert b"x-accel-buffering: no" in head
    described = web.request("HEAD", "/events").headers
    assert described["content-type"].startswith("text/event-stream")
    assert described["x-accel-buffering"] == "no"
    # It is not empty: it has no end.
    assert "content-length" not in described


def test_the_status_comes_every_second() -> None:
    """The same bytes for everybody; nothing is made when nobody listens."""
    web = Web()
    first, second = listen(web), listen(web)
    first.transport.read_all()
    second.transport.read_all()
    web.advance(3.2)
    data = first.transport.read_all()
    assert data.count(b"event: status") == 3
    assert second.transport.read_all() == data
    made = 0

    def count() -> Deferred[bytes]:
        nonlocal made
        made += 1
        return succeed(b"{}")

    first.lose()
    second.lose()
    web.http._status.everything = count  # type: ignore[method-assign]
    web.advance(3)
    assert made == 0


def test_events_come_as_they_happen_gathered_for_a_moment() -> None:
    """A hundred at once are one write for each reader, and each is told once."""
    web = Web()
    client = listen(web)
    client.events()
    for number in range(30):
        happen(web, f"192.0.2.1:{number}")
    assert client.transport.value() == b""
    web.advance(0.15)
    events = client.events()
    assert kinds(events) == ["event"] * 30
    assert [event["peer"] for _, event in events] == [f"192.0.2.1:{number}" for number in range(30)]
    assert set(events[0][1]) == {"time", "event", "level", "sentence", "connection", "peer"}
    web.advance(0.5)
    assert client.events() == []


def test_a_newcomer_hears_nothing_twice_and_nobody_misses_anything() -> None:
    """What is in the greeting does not come again; the others get it all the same."""
    web = Web()
    old = listen(web)
    old.events()
    happen(web, "a")
    new = listen(web)
    happen(web, "b")
    web.advance(0.5)
    assert [event["peer"] for kind, event in old.events() if kind == "event"] == ["a", "b"]
    (_, hello), *later = new.events()
    assert hello["events"][-1]["peer"] == "a"
    assert [event["peer"] for kind, event in later if kind == "event"] == ["b"]


def test_many_readers_are_served_in_groups() -> None:
    """Two hundred writes in a row would hold the live streams up."""
    web = Web()
    readers = [listen(web) for _ in range(40)]
    for reader in readers:
        reader.transport.read_all()
    happen(web)
    web.clock.advance(0.1)
    assert sum(bool(reader.transport.value()) for reader in readers) == 8
    web.clock.advance(0.01)
    assert sum(bool(reader.transport.value()) for reader in readers) == 16
    web.advance(0.2)
    assert all(kinds(reader.events()) == ["event"] for reader in readers)
    readers[20].lose()
    web.advance(1)
    assert sum("status" in kinds(reader.events()) for reader in readers if not reader.lost) == 39


def test_routine_is_left_out() -> None:
    """Statistics come for each connection all the time; the status has the same."""
    web = Web()
    client = listen(web)
    client.events()
    fields: dict[str, Any] = dict.fromkeys(("seconds", "kbps", "messages", "bytes", "dropped", "queued"), 0)
    web.service.events.publish(MediaStatistics(connection="c1", stream="live/a", role="player", **fields))
    web.advance(0.5)
    assert client.events() == []


def test_only_the_last_events_are_kept() -> None:
    """A hundred; and texts that strangers chose are cut."""
    web = Web()
    for number in range(150):
        happen(web, f"{number}")
    happen(web, "x" * 5000)
    (_, hello), _ = listen(web).events()
    assert len(hello["events"]) == 100
    assert hello["events"][0]["peer"] == "51"
    assert len(hello["events"][-1]["peer"]) < 1100
    assert len(hello["events"][-1]["sentence"]) < 1100


def test_a_reader_that_lags_behind_gets_the_latest_status_only() -> None:
    """And all events, up to a bound; when it reads again it goes on."""
    web = Web()
    client = listen(web)
    client.events()
    client.transport.stalled = True
    for number in range(500):
        happen(web, f"{number} " + "x" * 500)
        web.clock.advance(0.11)
        if client.transport._told_full:
            break
    full_at = len(client.transport.value())
    web.advance(5)
    # No status was added while it was full.
    assert len(client.transport.value()) == full_at
    client.transport.read_all()
    web.advance(1.2)
    assert "status" in kinds(client.events())


def test_a_reader_that_takes_no_events_is_cut_off() -> None:
    """The bytes that wait for it are bounded; a browser comes back by itself."""
    web = Web(HttpSettings(unread_events=50_000))
    client = listen(web)
    client.transport.stalled = True
    for number in range(2000):
        happen(web, f"{number} " + "x" * 500)
        web.clock.advance(0.11)
        if client.transport.aborted:
            break
    assert client.transport.aborted
    assert len(client.transport.value()) < 65536 + 50_000 + 10_000
    client.close_if_told()
    assert web.http._events.client_count == 0


def test_a_reader_that_takes_nothing_for_long_is_cut_off() -> None:
    """Also when little happens."""
    web = Web()
    client = listen(web)
    client.transport.stalled = True
    for number in range(200):
        happen(web, f"{number} " + "x" * 500)
        web.clock.advance(0.11)
        if client.transport._told_full:
            break
    web.advance(29)
    assert not client.transport.aborted
    web.advance(2)
    assert client.transport.aborted


def test_the_number_of_readers_is_bounded() -> None:
    """The next one is told to come later."""
    web = Web(HttpSettings(max_event_readers=2))
    first, _ = listen(web), listen(web)
    assert web.get("/events").error == (503, "too_many_clients")
    first.lose()
    assert listen(web).events()


def test_stopping_ends_the_streams_politely() -> None:
    """With the last chunk, so that nobody takes it for a broken connection; and no timer is left."""
    web = Web()
    client = listen(web)
    client.transport.read_all()
    happen(web)
    stopped = web.http.stop()
    assert client.transport.value().endswith(b"0\r\n\r\n")
    client.close_if_told()
    assert client.lost
    assert stopped.called
    web.service.stopService()
    assert web.clock.getDelayedCalls() == []


@pytest.mark.parametrize("order", ["before", "after"])
def test_readers_that_go_during_a_round(order: str) -> None:
    """One that has gone gets nothing, and the others do."""
    web = Web()
    readers = [listen(web) for _ in range(20)]
    for reader in readers:
        reader.transport.read_all()
    happen(web)
    web.clock.advance(0.1)
    gone = readers[0] if order == "before" else readers[15]
    gone.lose()
    web.advance(0.2)
    left = [reader for reader in readers if reader is not gone]
    assert all(kinds(reader.events()) == ["event"] for reader in left)
    assert isinstance(gone.transport.getPeer(), IPv4Address)


def test_readers_that_all_go_during_a_round() -> None:
    """The next one is served as if nobody had been there."""
    web = Web()
    readers = [listen(web) for _ in range(20)]
    happen(web)
    web.clock.advance(0.1)
    for reader in readers:
        reader.lose()
    web.advance(0.5)
    late = listen(web)
    late.events()
    happen(web, "later")
    web.advance(1.2)
    assert kinds(late.events()) == ["event", "status"]


def test_events_in_quick_succession_are_not_put_off() -> None:
    """What happens all the time is told all the time, and the status keeps its pace."""
    web = Web()
    client = listen(web)
    client.events()
    told = []
    for number in range(100):
        happen(web, f"{number}")
        web.clock.advance(0.03)
        told.append(kinds(client.events()))
    longest = max(len(list(run)) for empty, run in itertools.groupby(told, key=lambda one: not one) if empty)
    assert longest <= 4
    assert sum(one.count("status") for one in told) in (2, 3)
    web.advance(0.2)
    assert sum(one.count("event") for one in told) + kinds(client.events()).count("event") == 100


def test_a_greeting_that_takes_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens meanwhile is neither lost nor told twice."""
    monkeypatch.setattr(scheduling, "BUDGET", -1.0)
    web = Web()
    for number in range(20):
        web.publish(f"live/{number}")
    other = listen(web)
    other.events()
    happen(web, "before")
    client = Client(web)
    client.protocol.dataReceived(ASK)
    for number in range(60):
        one_turn(web.clock)
        # Time goes on while the turns last.
        web.clock.rightNow += 0.01
        if number % 5 == 0:
            happen(web, f"{number}")
    web.advance(0.5)
    (_, hello), *later = client.events()
    heard = [event["peer"] for event in hello["events"] if event["event"] == "connection_opened"]
    heard += [event["peer"] for kind, event in later if kind == "event"]
    expected = ["before", *(f"{number}" for number in range(0, 60, 5))]
    assert heard == expected
    assert [event["peer"] for kind, event in other.events() if kind == "event"] == expected


def test_a_bug_sends_the_readers_away() -> None:
    """And the next one may find it mended."""
    web = Web()
    client = listen(web)
    real = web.http._status.everything
    web.http._status.everything = lambda: fail(RuntimeError("a bug"))  # type: ignore[method-assign]
    web.advance(1.2)
    assert client.transport.value().endswith(b"0\r\n\r\n")
    web.http._status.everything = real  # type: ignore[method-assign]
    assert kinds(listen(web).events()) == ["hello", "status"]
