"""The tables that follow from event logs: the figures of a story, read at once and in pieces."""

from __future__ import annotations

import json

import pytest

from spark_analytics.questions.api import list_destinations
from spark_analytics.questions.ask import Scope
from tests.spark.event_archive import ENGINES, Archive, Make, archives
from tests.spark.event_world import FakeServer, moment, story


@pytest.fixture(scope="module", params=ENGINES)
def make(request: pytest.FixtureRequest) -> Make:
    return archives(request, "events")


@pytest.fixture(scope="module")
def whole(make: Make) -> Archive:
    """The story, read at once."""
    archive = make()
    story().write(archive.logs)
    summary = archive.index()
    assert (summary.files, summary.read, summary.unreadable, summary.changed) == (1, 1, 0, True)
    return archive


def test_servers(whole: Archive) -> None:
    (row,) = whole.rows("servers")
    assert (row["instance"], row["host"], row["version"], row["node"], row["ended_how"]) == (
        "i1",
        "relay-1",
        "1.0",
        "east",
        "stopped",
    )
    assert (row["started_at"], row["last_seen"]) == (moment(0), moment(600.5))
    assert row["events"] == row["last_number"] == len(story().lines)
    assert row["missing_events"] == 0


def test_viewers(whole: Archive) -> None:
    columns = (
        "connection",
        "stream",
        "started_at",
        "ended_at",
        "watch_seconds",
        "messages",
        "bytes",
        "ended_how",
    )
    assert whole.values("viewers", *columns) == [
        ("c2", "other", moment(110), moment(600), 490.0, 0, 0, "server stopped"),
        ("c2", "test", moment(10), moment(600), 590.0, 20_000, 40_000_000, "server stopped"),
        ("c3", "test", moment(20), moment(61), 41.0, 1000, 2_000_000, "left"),
        ("c4", "test", moment(115), moment(200), 85.0, 0, 0, "too slow"),
        ("c4", "test", moment(400), moment(600), 200.0, 0, 0, "server stopped"),
    ]
    (slow,) = whole.rows("viewers", connection="c3")
    assert slow["dropped_by_reason"] == {"queue_full": 90, "closed": 20}
    assert (slow["dropped"], slow["stalls"], slow["stalled_seconds"]) == (110, 2, 5.0)
    assert (slow["peer"], slow["client"], slow["app"]) == ("10.0.0.3:999", "ffplay", "live")


def test_publishes(whole: Archive) -> None:
    columns = (
        "connection",
        "started_at",
        "ended_at",
        "seconds",
        "video_codec",
        "audio_codec",
        "ended_how",
        "client",
    )
    assert whole.values("publishes", *columns) == [
        ("c1", moment(2), moment(300), 298.0, "H.264", "AAC", "lost", "obs"),
        ("c5", moment(305), moment(600), 295.0, None, None, "ended", "obs"),
    ]


def test_audience(whole: Archive) -> None:
    columns = ("minute", "peak", "watch_seconds", "joins", "leaves")
    minutes = [row for row in whole.values("audience", *columns, stream="test") if row[0] < moment(300)]
    assert minutes == [
        (moment(0), 2, 90.0, 2, 0),
        (moment(60), 2, 66.0, 1, 1),
        (moment(120), 2, 120.0, 0, 0),
        (moment(180), 2, 80.0, 0, 1),
        (moment(240), 1, 60.0, 0, 0),
    ]
    watched = sum(row["watch_seconds"] for row in whole.rows("audience"))
    assert watched == sum(row["watch_seconds"] for row in whole.rows("viewers")) == 1406


def test_deliveries_add_up_to_what_viewers_and_destinations_got(whole: Archive) -> None:
    rows = whole.rows("deliveries")
    for role, who, total in [
        ("viewer", "c2", 20_000),
        ("viewer", "c3", 1000),
        ("publisher", "c1", 14_000),
        ("destination", "YouTube", 25_000),
    ]:
        assert sum(row["messages"] for row in rows if (row["role"], row["who"]) == (role, who)) == total
    columns = ("began", "ended", "messages", "dropped", "stalls", "is_last")
    assert whole.values("deliveries", *columns, who="c3") == [
        (moment(20), moment(50), 900, 100, 1, False),
        (moment(50), moment(61), 100, 10, 1, True),
    ]


def test_states_and_outages(whole: Archive) -> None:
    columns = ("destination", "state", "began", "ended", "live_seconds")
    assert whole.values("destination_states", *columns) == [
        ("YouTube", "connected", moment(3), moment(100), 97.0),
        # The source was away for five seconds of it.
        ("YouTube", "connected", moment(140.5), moment(600), 454.5),
        ("YouTube", "connecting", moment(2), moment(3), 1.0),
        ("YouTube", "down", moment(100), moment(140.5), 40.5),
        ("archive", "connecting", moment(2), moment(4), 2.0),
        ("archive", "down", moment(4), moment(300), 296.0),
    ]
    lost, never = whole.rows("outages", destination="YouTube") + whole.rows("outages", destination="archive")
    assert (lost["began"], lost["ended"], lost["seconds"]) == (moment(100), moment(140.5), 40.5)
    assert (lost["error"], lost["error_class"], lost["failures"]) == ("the connection was lost", "network", 2)
    assert lost["last_error"] == "nothing listens there (connection refused)"
    assert (lost["lost_messages"], lost["ended_how"], lost["was_connected"]) == (2000, "recovered", True)
    assert (never["began"], never["ended"], never["seconds"]) == (moment(2), moment(300), 298.0)
    assert (never["error_class"], never["ended_how"], never["was_connected"]) == ("refused", "closed", False)


def test_destinations(whole: Archive) -> None:
    youtube, archive = whole.rows("destinations", destination="YouTube") + whole.rows(
        "destinations", destination="archive"
    )
    # Live from 2 to 300 and from 305 to 600; connected but for the first second and 40.5 later.
    assert (youtube["live_seconds"], youtube["connected_seconds"]) == (593.0, 551.5)
    assert youtube["uptime_percent"] == pytest.approx(100 * 551.5 / 593)
    assert (youtube["outages"], youtube["reconnects"], youtube["recovery_p95_seconds"]) == (1, 1, 40.5)
    assert youtube["dropped_by_reason"] == {"not_connected": 2000, "queue_full": 7}
    assert (youtube["messages"], youtube["bytes"], youtube["dropped"]) == (25_000, 55_000_000, 2007)
    assert (archive["uptime_percent"], archive["live_seconds"]) == (0.0, 298.0)
    assert (archive["reconnects"], archive["recovery_p95_seconds"]) == (0, None)


def test_absurd_numbers_are_none(make: Make) -> None:
    """Each of them ended every later run of the index."""
    server = FakeServer()
    server.start()
    nan, infinite = float("nan"), float("inf")
    durations = [1e300, nan, infinite, -infinite, -1.0, 1e11, 3.0]
    for number, duration in enumerate(durations):
        server.at(10).tell("play_stopped", f"c{number}", "live/test", duration=duration)
        server.tell("publish_stopped", f"c{number}", "live/test", duration=duration, stalled_seconds=duration)
        server.report(f"c{number}", seconds=duration)
        server.destination("statistics", seconds=duration, bytes=9 * 10**18, messages=-5)
    server.join("c98")
    server.at(15).tell("play_stopped", "c98", "live/test", duration=nan)
    server.at(20).join("c99")
    for _ in range(2):
        server.report("c99", bytes=9 * 10**18, messages=-(10**18), dropped=10**30, stalled_seconds=1e308)
        server.destination("dropped", reason="not_connected", count=9 * 10**18)
    server.at(30).leave("c99", messages=9 * 10**18, dropped={"queue_full": 9 * 10**18, "closed": 2})
    server.destination("dropped", count=7)
    server.destination("closed", bytes=9 * 10**18)
    server.at(40).tell("later", number=2**62)
    archive = make()
    server.write(archive.logs)
    summary = archive.index(moment(41))
    assert (summary.events, summary.unreadable) == (len(server.lines), 0)
    told = {row["connection"]: row for row in archive.rows("viewers")}
    watched = [told[f"c{number}"]["watch_seconds"] for number in range(len(durations))]
    assert watched == [0.0] * 6 + [3.0]
    # Its beginning was told.
    assert told["c98"]["watch_seconds"] == 5.0
    assert (told["c99"]["bytes"], told["c99"]["messages"], told["c99"]["dropped"]) == (0, 0, 0)
    assert told["c99"]["dropped_by_reason"] == {"closed": 2}
    (destination,) = archive.rows("destinations")
    assert destination["dropped_by_reason"] == {"not_connected": 0, "unknown": 7}
    assert (destination["dropped"], destination["bytes"]) == (7, 0)
    assert list_destinations(archive.snapshot, Scope())
    # And the run after it.
    server.at(41).tell("more")
    server.write(archive.logs)
    assert archive.index(moment(42)).events == 1


def test_a_text_without_end_is_cut(make: Make) -> None:
    """All rows of a run pass through the driver, which has no room for many thousands of such reasons."""
    server = FakeServer()
    server.start()
    server.join("c1")
    server.leave("c1", reason="why " * 20_000)
    archive = make()
    server.write(archive.logs)
    assert archive.index().unreadable == 0
    ((reason,),) = archive.values("viewers", "end_reason")
    assert reason == "why " * 1024
    ((line,),) = archive.values("events", "line", event="play_stopped")
    assert json.loads(line)["reason"] == "why " * 20_000


def test_sums_that_are_too_large_are_none(make: Make) -> None:
    """Each number has sense, but there are too many of them."""
    server = FakeServer()
    server.start()
    server.join("c1")
    most = 2**53 - 1
    for _ in range(1100):
        server.report("c1", bytes=most, messages=1)
        server.destination("statistics", seconds=30.0, bytes=most, messages=1)
        server.destination("dropped", reason="not_connected", count=most)
    archive = make()
    server.write(archive.logs)
    archive.index(moment(1))
    assert archive.values("viewers", "bytes", "messages") == [(0, 1100)]
    assert archive.values("destinations", "bytes", "messages", "dropped") == [(0, 1100, 0)]
    server.leave("c1", messages=1200)
    server.destination("closed", messages=1200)
    server.stop()
    server.write(archive.logs)
    archive.index(moment(2))
    assert archive.values("viewers", "bytes", "messages") == [(0, 1200)]
    assert archive.values("destinations", "bytes", "messages", "dropped") == [(0, 1200, 0)]


def test_a_clock_that_is_set_forward_by_years_makes_no_millions_of_minutes(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without a battery begins in another year; and an end may tell any duration."""
    monkeypatch.setattr("spark_analytics.event_logs.derive.MOST_DAYS", 2)
    years = 365 * 86_400.0
    server = FakeServer(at=-9 * years)
    server.start()
    server.connect("c1")
    server.join("c1")
    archive = make()
    server.write(archive.logs)
    archive.index(moment(-9 * years + 1))
    server.at(30).join("c2")
    server.at(90).leave("c1")
    server.leave("c2")
    server.tell("play_stopped", "c3", "live/test", duration=9 * years)
    server.stop()
    server.write(archive.logs)
    archive.index(moment(91))
    minutes = archive.snapshot.arrow("audience", ["minute", "peak", "joins", "leaves"]).sort_by("minute")
    # Its first one, two days, and the last one; the third play has a first one of its own, a minute later.
    assert len(minutes) == 1 + 2 * 1440 + 1 + 1
    assert [tuple(row.values()) for row in minutes.slice(len(minutes) - 2).to_pylist()] == [
        (moment(0), 3, 1, 0),
        (moment(60), 3, 0, 3),
    ]


def test_a_clock_that_is_set_back_by_days(make: Make) -> None:
    """The second publish ends before it has begun, and the destination is connected all the time."""
    day = 86_400.0
    server = FakeServer()
    server.start()
    server.publish("c1")
    server.at(10).destination("connecting", address="rtmp://a")
    server.destination("connected", address="rtmp://a")
    server.at(20).unpublish("c1")
    server.at(2 * day).publish("c2")
    server.at(0.5 * day).tell("publish_stopped", "c2", "live/test", duration=60.0)
    server.at(3 * day).destination("closed")
    server.stop()
    archive = make()
    server.write(archive.logs)
    archive.index(moment(3 * day + 1))
    assert [row["live_seconds"] for row in archive.rows("destinations") if row["live_seconds"]] == [10.0]


def test_two_publishers_of_one_stream_are_one_live_time(make: Make) -> None:
    """A third begins within the second, and a fourth after a pause."""
    server = FakeServer()
    server.start()
    server.publish("c1")
    server.destination("connecting", address="rtmp://a")
    server.destination("connected", address="rtmp://a")
    server.at(100).publish("c2")
    server.at(110).publish("c3")
    server.at(120).unpublish("c1", clean=False)
    server.at(130).unpublish("c3")
    server.at(200).unpublish("c2")
    server.at(210).publish("c4")
    server.at(240).unpublish("c4")
    server.destination("closed")
    server.stop()
    archive = make()
    server.write(archive.logs)
    archive.index()
    connected = archive.values("destination_states", "seconds", "live_seconds", state="connected")
    assert connected == [(240.0, 230.0)]
    columns = ("live_seconds", "connected_seconds", "uptime_percent")
    assert archive.values("destinations", *columns) == [(230.0, 230.0, 100.0)]
