"""Events that were lost, or lack something: the rest of the log is told right, however it was cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import pytest

from tests.spark.event_archive import ENGINES, Archive, Make, archives
from tests.spark.event_world import FakeServer, moment

END = moment(8000)


@pytest.fixture(scope="module", params=ENGINES)
def make(request: pytest.FixtureRequest) -> Make:
    return archives(request, "losses")


def index(make: Make, server: FakeServer, cuts: Iterable[int] = (), now: datetime = END) -> Archive:
    """Read a log at once, and again with a run of the index at each cut: the result is the same."""
    whole = make()
    server.write(whole.logs)
    whole.index(now)
    cuts = list(cuts)
    if cuts:
        pieces = make()
        for first, last in zip([0, *cuts], [*cuts, len(server.lines)], strict=True):
            server.write(pieces.logs, first, last)
            pieces.index(now if last == len(server.lines) else server.times[last - 1])
        pieces.assert_same(whole)
    return whole


PLAY = ("connection", "started_at", "ended_at", "watch_seconds", "ended_how", "messages")


def plays(archive: Archive) -> list[tuple[Any, ...]]:
    return archive.values("viewers", *PLAY)


def test_a_play_whose_end_was_lost_ends_with_its_connection(make: Make) -> None:
    """So does a publish. Some of what it got was told, and of others nothing."""
    server = FakeServer()
    server.start()
    server.connect("c1")
    server.at(10).join("c1")
    server.at(20).connect("c2", "obs")
    server.publish("c2")
    server.at(30).report("c2", role="publisher", messages=70)
    cut = len(server.lines)
    server.at(130).lose(2)
    server.close("c1")
    server.at(140).close("c2")
    closed = len(server.lines)
    server.at(300).tell("server_alive")
    server.at(7200).stop()
    archive = index(make, server, [cut, closed, closed + 1])
    assert plays(archive) == [("c1", moment(10), moment(130), 120.0, "lost", None)]
    columns = ("connection", "started_at", "ended_at", "seconds", "ended_how", "messages", "clean")
    assert archive.values("publishes", *columns) == [("c2", moment(20), moment(140), 120.0, "lost", 70, None)]
    minutes = archive.values("audience", "minute", "watch_seconds", "leaves")
    assert minutes == [(moment(0), 50.0, 0), (moment(60), 60.0, 0), (moment(120), 10.0, 1)]


def two_plays_of_each() -> FakeServer:
    """Four connections play the same stream twice, and of each another event is lost."""
    server = FakeServer()
    server.start()
    everybody = ("c1", "c2", "c3", "c4")
    for name in everybody:
        server.connect(name)
    steps: list[tuple[float, Callable[[str], None]]] = [
        (10, server.join),
        (20, lambda name: server.report(name, messages=7)),
        (30, lambda name: server.leave(name, messages=10)),
        (1000, server.join),
        (1010, lambda name: server.report(name, messages=70)),
        (1100, lambda name: server.leave(name, messages=100)),
        (1110, server.close),
    ]
    lost: dict[float, str] = {10: "c1", 30: "c2", 1000: "c3", 1100: "c4"}
    for at, happens in steps:
        server.mark(str(at))
        for name in everybody:
            server.at(at)
            happens(name)
            if lost.get(at) == name:
                server.lines[-1] = ""
    server.at(4000).stop()
    return server


def test_what_was_lost_of_one_play_does_not_touch_the_other(make: Make) -> None:
    server = two_plays_of_each()
    archive = index(make, server, [server.marks["30"] + 2, server.marks["1010"], server.marks["1110"]])
    first = (moment(10), moment(30), 20.0, "left", 10)
    second = (moment(1000), moment(1100), 100.0, "left", 100)
    assert plays(archive) == [
        ("c1", *first),
        ("c1", *second),
        ("c2", moment(10), moment(1110), 1100.0, "lost", 7),
        ("c2", *second),
        ("c3", *first),
        ("c3", *second),
        ("c4", *first),
        ("c4", moment(1000), moment(1110), 110.0, "lost", 70),
    ]
    for name in ("c1", "c2", "c3", "c4"):
        rests = [10 - 7] * (name != "c2") + [100 - 70] * (name != "c4")
        sent = archive.values("deliveries", "messages", who=name)
        assert sorted(count for (count,) in sent) == sorted([7, 70, *rests])


def test_plays_of_one_stream_at_once(make: Make) -> None:
    """On two message streams of one connection; the one that began first ends first. One more is so short that nobody
    could tell by the clock.
    """
    server = FakeServer()
    server.start()
    server.connect("c1")
    server.at(10).join("c1")
    server.at(20).join("c1")
    server.at(30).tell("play_stopped", "c1", "live/test", duration=20.001, messages=1)
    server.at(40).report("c1", messages=5)
    server.at(50).tell("play_stopped", "c1", "live/test", duration=30.001, messages=7)
    server.at(50.2).join("c1")
    server.at(50.3).tell("play_stopped", "c1", "live/test", duration=0.101, messages=3)
    server.at(50.4).join("c1")
    server.at(50.5).tell("play_stopped", "c1", "live/test", duration=0.101, messages=4)
    server.close("c1")
    server.at(100).stop()
    archive = index(make, server, [5, 7])
    columns = ("started_at", "ended_at", "messages")
    assert archive.values("viewers", *columns) == [
        (moment(10), moment(30), 1),
        (moment(20), moment(50), 7),
        (moment(50.2), moment(50.3), 3),
        (moment(50.4), moment(50.5), 4),
    ]
    assert [row for row in archive.values("deliveries", "messages", "is_last") if row[0] == 2] == [(2, True)]


def test_a_connection_that_is_there_again_after_its_end(make: Make) -> None:
    """Other programs may call it by an address. What ends behind its end is not what began before it."""
    server = FakeServer()
    server.start()
    server.connect("c1")
    server.at(10).join("c1")
    server.at(20).close("c1")
    server.at(30).join("c1")
    server.at(40).leave("c1")
    server.at(3000).tell("server_alive")
    server.at(4000).stop()
    archive = index(make, server, [5, 7, 8])
    assert [row[1:5] for row in plays(archive)] == [
        (moment(10), moment(20), 10.0, "lost"),
        (moment(30), moment(40), 10.0, "left"),
    ]


def test_a_row_never_ends_before_it_begins(make: Make) -> None:
    server = FakeServer()
    server.start()
    server.connect("c1")
    server.at(1000).join("c1")
    server.at(500).tell("play_stopped", "c1", "live/test", duration=60.0)
    server.connect("c2")
    server.at(1000).publish("c2")
    server.at(400).close("c2")
    server.at(4000).stop()
    archive = index(make, server)
    assert [row[1:4] for row in plays(archive)] == [(moment(1000), moment(1000), 60.0)]
    assert archive.values("publishes", "started_at", "ended_at", "seconds") == [
        (moment(1000), moment(1000), 0.0)
    ]


def test_a_line_that_lacks_something_is_in_events_only(make: Make) -> None:
    """Every question about viewers or destinations ended with such a row for ever."""
    server = FakeServer()
    server.start()
    server.connect("c1")
    server.at(10).join("c1")
    server.destination("connecting", address="rtmp://a")
    server.destination("failed", error_class="network", reason="gone")
    good = len(server.lines)
    for name, stream in ((None, "live/test"), ("c1", None), (None, None)):
        for event in ("play_started", "play_stopped", "publish_started", "publish_stopped", "codec_detected"):
            server.tell(event, name, stream, duration=1.0)
        server.tell("media_statistics", name, stream, role="player", seconds=30.0, messages=1)
        for event in ("connecting", "connected", "failed", "dropped", "given_up", "statistics", "closed"):
            destination = None if name is None else "YouTube"
            server.tell(f"destination_{event}", None, stream, destination=destination, reason="not_connected")
    server.tell("connection_closed", None, peer="10.9.9.9:1")
    server.at(20).leave("c1", messages=3)
    server.destination("dropped", reason="queue_full", count=2)
    server.destination("closed", messages=0)
    server.stop()
    archive = index(make, server, [good])
    assert len(archive.rows("events")) == len(server.lines)
    assert plays(archive) == [("c1", moment(10), moment(20), 10.0, "left", 3)]
    assert archive.rows("publishes") == []
    assert archive.values("deliveries", "who", "messages") == [("YouTube", 0), ("c1", 3)]
    columns = ("destination", "stream", "seconds", "failures", "ended_how")
    assert archive.values("outages", *columns) == [("YouTube", "test", 10.0, 1, "closed")]
    assert {row["destination"] for row in archive.rows("destination_states")} == {"YouTube"}
    assert archive.values("destinations", "destination", "dropped") == [("YouTube", 2)]


def test_the_peer_is_the_one_that_was_known_last(make: Make) -> None:
    """Behind a proxy that is not the first. Servers before told it only when the connection was closed, and at the time of
    the first run it is the proxy's still.
    """
    server = FakeServer()
    server.start()
    server.connect("c9", peer="3.0.0.1:5")
    server.connect("c8")
    for name in ("c8", "c9"):
        server.at(10).join(name)
    server.at(20).leave("c8")
    cut = len(server.lines)
    server.at(30).close("c8", peer="2.0.0.1:5")
    server.at(40).stop()
    archive = index(make, server, [cut])
    assert archive.values("viewers", "connection", "peer", "client") == [
        ("c8", "2.0.0.1:5", "ffplay"),
        ("c9", "3.0.0.1:5", "ffplay"),
    ]


def test_who_goes_over_a_limit_is_sent_away(make: Make) -> None:
    server = FakeServer()
    server.start()
    for name, reason in (
        ("c1", "the peer sent more than 10 commands in a second (limit: commands_per_second)"),
        ("c2", "the peer took no byte for 30 s (limit: stall_timeout)"),
        ("c3", "the peer broke it off"),
    ):
        server.join(name)
        server.leave(name, reason=reason)
    archive = index(make, server)
    how = [("c1", "sent away"), ("c2", "too slow"), ("c3", "lost")]
    assert archive.values("viewers", "connection", "ended_how") == how


def test_only_the_exact_reasons_of_the_server_say_how_a_play_ended(make: Make) -> None:
    server = FakeServer()
    server.start()
    expected = {
        "the peer closed it": "left",
        "the client closed it": "left",
        "the viewer stopped": "left",
        "the stream ended": "left",
        "the peer broke it off": "lost",
        "the server stops": "server stopped",
        "the peer took no byte for 30 s (limit: stall_timeout)": "too slow",
        "an internal error": "unknown",
        "Connection to the other side was lost in a non-clean fashion.": "unknown",
        "the plot was lost, and no server stopped": "unknown",
        "see (limit: here) for more": "unknown",
        "": "unknown",
    }
    for number, reason in enumerate(expected):
        server.join(f"c{number}")
        server.leave(f"c{number}", reason=reason)
    archive = index(make, server)
    found = archive.values("viewers", "end_reason", "ended_how")
    assert dict(found) == expected


def test_how_many_events_are_missing_is_not_known_without_numbers(make: Make) -> None:
    """Logs of other programs have none."""
    archive = make()
    lines = [json.loads(line) for line in two_plays_of_each().lines if line]
    log = archive.logs / "events_20261116_120000.jsonl"
    for last in (12, None):
        kept = [{key: line[key] for key in line if key != "number"} for line in lines[:last]]
        log.write_text("".join(json.dumps(line) + "\n" for line in kept))
        archive.index(END)
        assert archive.values("servers", "events", "missing_events") == [(len(kept), None)]
