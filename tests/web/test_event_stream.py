"""Server-sent events: greeting, status, events, and readers that do not read."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed

from rtmprelay.events import ConnectionOpened, MediaStatistics, PublishStopped
from rtmprelay.web.events.recent import RecentEvents
from rtmprelay.web.server import scheduling
from rtmprelay.web.settings import HttpSettings
from tests.web.helpers import Client, Web, destination, run_due_calls

ASK = b"GET /events HTTP/1.1\r\nHost: relay\r\n\r\n"


@pytest.fixture(autouse=True, params=["at once", "piece by piece"])
def pace(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test again with live streams that leave HTTP no time, so that every piece waits for another iteration."""
    if request.param == "piece by piece":
        monkeypatch.setattr(scheduling, "BUDGET", -1.0)


def listen(web: Web) -> Client:
    """Connect a reader of events."""
    client = Client(web)
    client.send(ASK)
    return client


def publish_event(web: Web, peer: str = "192.0.2.1:50000") -> None:
    """Publish an event."""
    web.service.events.publish(ConnectionOpened(connection="c000001", peer=peer))


def kinds(events: list[tuple[str, Any]]) -> list[str]:
    return [kind for kind, _ in events]


def test_greeting_has_all_that_a_page_needs_to_draw_itself() -> None:
    web = Web(destinations=[destination("far", enabled=False)])
    web.publish()
    web.advance(3.1)
    publish_event(web)
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
    assert hello["events"][-1]["level"] == "debug"
    assert status["streams"]["live/test"]["live"] is True
    assert status["destinations"]["far"]["status"] == "disabled"
    assert status["health"]["streams"] == 1


def test_headers_keep_caches_and_proxies_from_holding_events_back() -> None:
    """HEAD has the same headers."""
    web = Web()
    client = listen(web)
    head = client.transport.value().partition(b"\r\n\r\n")[0].lower()
    assert b"content-type: text/event-stream" in head
    assert b"cache-control: no-store" in head
    assert b"x-accel-buffering: no" in head
    described = web.request("HEAD", "/events").headers
    assert described["content-type"].startswith("text/event-stream")
    assert described["x-accel-buffering"] == "no"
    # The stream has no end, so it has no length.
    assert "content-length" not in described


def test_status_is_sent_every_second_and_generated_once_for_all_readers() -> None:
    """Without readers it is not generated."""
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


def test_events_of_a_tenth_of_a_second_are_sent_together_and_once() -> None:
    web = Web()
    client = listen(web)
    client.events()
    for number in range(30):
        publish_event(web, f"192.0.2.1:{number}")
    assert client.transport.value() == b""
    web.advance(0.15)
    events = client.events()
    assert kinds(events) == ["event"] * 30
    assert [event["peer"] for _, event in events] == [f"192.0.2.1:{number}" for number in range(30)]
    assert set(events[0][1]) == {"time", "event", "level", "sentence", "connection", "peer"}
    web.advance(0.5)
    assert client.events() == []


def test_new_reader_gets_no_event_twice_and_others_miss_none() -> None:
    web = Web()
    old = listen(web)
    old.events()
    publish_event(web, "a")
    new = listen(web)
    publish_event(web, "b")
    web.advance(0.5)
    assert [event["peer"] for kind, event in old.events() if kind == "event"] == ["a", "b"]
    (_, hello), *later = new.events()
    assert hello["events"][-1]["peer"] == "a"
    assert [event["peer"] for kind, event in later if kind == "event"] == ["b"]


def test_readers_are_written_to_in_groups() -> None:
    """Two hundred writes in a row would delay the live streams."""
    web = Web()
    readers = [listen(web) for _ in range(40)]
    for reader in readers:
        reader.transport.read_all()
    publish_event(web)
    web.clock.advance(0.1)
    assert sum(bool(reader.transport.value()) for reader in readers) == 8
    web.clock.advance(0.01)
    assert sum(bool(reader.transport.value()) for reader in readers) == 16
    web.advance(0.2)
    assert all(kinds(reader.events()) == ["event"] for reader in readers)
    readers[20].lose()
    web.advance(1)
    assert sum("status" in kinds(reader.events()) for reader in readers if not reader.lost) == 39


def test_statistics_are_not_sent_as_events() -> None:
    web = Web()
    client = listen(web)
    client.events()
    fields: dict[str, Any] = dict.fromkeys(("seconds", "kbps", "messages", "bytes", "dropped", "queued"), 0)
    web.service.events.publish(MediaStatistics(connection="c1", stream="live/a", role="player", **fields))
    web.advance(0.5)
    assert client.events() == []


def test_greeting_has_the_last_hundred_events_with_long_texts_cut() -> None:
    web = Web()
    for number in range(150):
        publish_event(web, f"{number}")
    publish_event(web, "x" * 5000)
    (_, hello), _ = listen(web).events()
    assert len(hello["events"]) == 100
    assert hello["events"][0]["peer"] == "51"
    assert len(hello["events"][-1]["peer"]) < 1100
    assert len(hello["events"][-1]["sentence"]) < 1100


def test_slow_reader_gets_no_status_until_it_reads_again() -> None:
    web = Web()
    client = listen(web)
    client.events()
    client.transport.stalled = True
    for number in range(500):
        publish_event(web, f"{number} " + "x" * 500)
        web.clock.advance(0.11)
        if client.transport.is_full:
            break
    full_at = len(client.transport.value())
    web.advance(5)
    # No status was added while the buffer was full.
    assert len(client.transport.value()) == full_at
    client.transport.read_all()
    web.advance(1.2)
    assert "status" in kinds(client.events())


def test_reader_that_does_not_read_is_cut_off_when_too_many_bytes_wait() -> None:
    web = Web(HttpSettings(unread_events=50_000))
    client = listen(web)
    client.transport.stalled = True
    for number in range(2000):
        publish_event(web, f"{number} " + "x" * 500)
        web.clock.advance(0.11)
        if client.transport.aborted:
            break
    assert client.transport.aborted
    assert len(client.transport.value()) < 65536 + 50_000 + 10_000
    client.lose_if_closed()
    assert web.http._events.client_count == 0


def test_reader_that_does_not_read_is_cut_off_after_a_while() -> None:
    web = Web()
    client = listen(web)
    client.transport.stalled = True
    for number in range(200):
        publish_event(web, f"{number} " + "x" * 500)
        web.clock.advance(0.11)
        if client.transport.is_full:
            break
    web.advance(29)
    assert not client.transport.aborted
    web.advance(2)
    assert client.transport.aborted


def test_number_of_readers_is_bounded() -> None:
    web = Web(HttpSettings(max_event_readers=2))
    first, _ = listen(web), listen(web)
    assert web.get("/events").error == (503, "too_many_clients")
    first.lose()
    assert listen(web).events()


def test_stop_ends_each_stream_with_its_last_chunk_and_leaves_no_timer() -> None:
    web = Web()
    client = listen(web)
    client.transport.read_all()
    publish_event(web)
    stopped = web.http.stop()
    assert client.transport.value().endswith(b"0\r\n\r\n")
    client.lose_if_closed()
    assert client.lost
    assert stopped.called
    web.service.stopService()
    assert web.clock.getDelayedCalls() == []


@pytest.mark.parametrize("order", ["before", "after"])
def test_other_readers_get_the_round_when_one_leaves_during_it(order: str) -> None:
    web = Web()
    readers = [listen(web) for _ in range(20)]
    for reader in readers:
        reader.transport.read_all()
    publish_event(web)
    web.clock.advance(0.1)
    left = readers[0] if order == "before" else readers[15]
    left.lose()
    received = left.transport.value()
    web.advance(0.2)
    assert left.transport.value() == received
    others = [reader for reader in readers if reader is not left]
    assert all(kinds(reader.events()) == ["event"] for reader in others)


def test_next_reader_is_served_after_all_left_during_a_round() -> None:
    web = Web()
    readers = [listen(web) for _ in range(20)]
    publish_event(web)
    web.clock.advance(0.1)
    for reader in readers:
        reader.lose()
    web.advance(0.5)
    late = listen(web)
    late.events()
    publish_event(web, "later")
    web.advance(1.2)
    assert kinds(late.events()) == ["event", "status"]


def test_steady_events_delay_neither_events_nor_status() -> None:
    web = Web()
    client = listen(web)
    client.events()
    received = []
    for number in range(100):
        publish_event(web, f"{number}")
        web.clock.advance(0.03)
        received.append(kinds(client.events()))
    longest = max(
        len(list(run)) for empty, run in itertools.groupby(received, key=lambda one: not one) if empty
    )
    assert longest <= 4
    assert sum(one.count("status") for one in received) in (2, 3)
    web.advance(0.2)
    assert sum(one.count("event") for one in received) + kinds(client.events()).count("event") == 100


def test_events_during_a_long_greeting_are_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "BUDGET", -1.0)
    web = Web()
    for number in range(20):
        web.publish(f"live/{number}")
    other = listen(web)
    other.events()
    publish_event(web, "before")
    client = Client(web)
    client.protocol.dataReceived(ASK)
    for number in range(60):
        run_due_calls(web.clock)
        # The iterations take time.
        web.clock.rightNow += 0.01
        if number % 5 == 0:
            publish_event(web, f"{number}")
    web.advance(0.5)
    (_, hello), *later = client.events()
    peers = [event["peer"] for event in hello["events"] if event["event"] == "connection_opened"]
    peers += [event["peer"] for kind, event in later if kind == "event"]
    expected = ["before", *(f"{number}" for number in range(0, 60, 5))]
    assert peers == expected
    assert [event["peer"] for kind, event in other.events() if kind == "event"] == expected


def test_bug_ends_the_streams_and_readers_can_come_back() -> None:
    web = Web()
    client = listen(web)
    real = web.http._status.everything
    web.http._status.everything = lambda: fail(RuntimeError("a bug"))  # type: ignore[method-assign]
    web.advance(1.2)
    assert client.transport.value().endswith(b"0\r\n\r\n")
    web.http._status.everything = real  # type: ignore[method-assign]
    assert kinds(listen(web).events()) == ["hello", "status"]


def test_ends_of_streams_are_kept_for_ten_minutes_however_much_happens() -> None:
    def stopped(key: str) -> PublishStopped:
        return PublishStopped(
            connection="c1", stream=key, duration=5.0, messages=9, bytes=99, reason="gone", clean=True
        )

    recent = RecentEvents()
    recent.event_happened(0.0, stopped("live/old"))
    recent.event_happened(700.0, stopped("live/new"))
    for _ in range(150):
        recent.event_happened(701.0, ConnectionOpened(connection="c2", peer="192.0.2.1:50000"))
    assert [(event["stream"], event["reason"]) for event in recent.ended()] == [("live/new", "gone")]
    web = Web()
    web.service.events.publish(stopped("live/gone"))
    hello = dict(listen(web).events())["hello"]
    assert [event["stream"] for event in hello["ended"]] == ["live/gone"]
