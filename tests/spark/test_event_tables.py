"""The tables that follow from event logs: the figures of a story, read at once and in pieces."""

from __future__ import annotations

import gzip
import json
import os
from datetime import date
from pathlib import Path

import attrs
import pytest

from spark_analytics.errors import CatalogueError
from spark_analytics.event_logs.files import look_at
from spark_analytics.event_logs.lines import LogSplit, splits_of
from spark_analytics.event_logs.write import TableWriter
from spark_analytics.questions.asking import Scope
from spark_analytics.questions.audience import list_destinations, list_outages, list_viewers
from spark_analytics.questions.time_window import ALWAYS, TimeWindow
from spark_analytics.report.data import gather
from tests.spark.event_archive import ENGINES, LATER, Archive, Make, archives
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


def test_read_in_pieces_it_is_the_same(make: Make, whole: Archive) -> None:
    """Files that cut plays and outages in two, one that grows, one that is compressed meanwhile."""
    archive = make()
    server = story()
    watch, out, back = (server.marks[name] for name in ("two watch", "YouTube is out", "YouTube is back"))
    first = server.write(archive.logs, 0, watch)
    assert archive.index(moment(33)).events == watch
    watching = archive.values("viewers", "connection", "ended_how", "messages", "watch_seconds")
    assert watching == [("c2", "watching", 0, 22.0), ("c3", "watching", 0, 12.0)]
    first.write_text(server.text(0, out) + server.lines[out][:20])
    assert archive.index(moment(103)).events == out - watch
    assert [row["ended_how"] for row in archive.rows("outages")] == ["lasts", "lasts"]
    first.unlink()
    server.write(archive.logs, 0, out, compress=True)
    server.write(archive.logs, out, back)
    archive.index(moment(141))
    assert archive.values("outages", "ended_how", "lost_messages") == [("lasts", None), ("recovered", 0)]
    server.write(archive.logs, back, compress=True)
    archive.index(LATER)
    archive.assert_same(whole)
    assert archive.rows("open_events") == []
    version = archive.snapshot.version
    assert not archive.index(LATER).changed
    assert archive.snapshot.version == version


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one after the other"])
def test_events_that_are_in_two_files_count_once(make: Make, whole: Archive, at_once: bool) -> None:
    """A copy of the end of a log has a first line of its own, so it is not known for a copy."""
    archive = make()
    server = story()
    server.write(archive.logs)
    if not at_once:
        archive.index()
    server.write(archive.logs, first=5)
    assert archive.index().changed
    archive.assert_same(whole)
    # `events` has them twice; a part of the day is counted from there.
    for scope in (Scope(), Scope(TimeWindow(moment(-3600), moment(3600)))):
        assert list_destinations(archive.snapshot, scope) == list_destinations(whole.snapshot, scope)
        assert list_viewers(archive.snapshot, scope) == list_viewers(whole.snapshot, scope)
        assert list_outages(archive.snapshot, scope) == list_outages(whole.snapshot, scope)
    windows = (ALWAYS, TimeWindow(moment(-3600)), TimeWindow(moment(-3600), moment(3600)))
    for window in windows:
        assert gather(archive.snapshot, window) == gather(whole.snapshot, window)


def test_the_rest_of_a_log_that_comes_after_nobody_waited_any_more(make: Make, whole: Archive) -> None:
    """What the server's death had ended for good has ended otherwise."""
    archive = make()
    server = story()
    cut = server.marks["YouTube is out"]
    server.write(archive.logs, 0, cut)
    archive.index(moment(600))
    week = 7 * 86_400
    archive.index(moment(week + 600))
    assert {how for (how,) in archive.values("viewers", "ended_how")} == {"left", "server died"}
    assert archive.rows("open_events") == []
    server.write(archive.logs, cut)
    archive.index(moment(week + 700))
    archive.assert_same(whole)


def test_a_server_that_died_among_damaged_files_in_any_order(make: Make) -> None:
    """The second file comes first; lines are torn, nonsense, or of an event that nobody knows; files are damaged."""
    server = FakeServer("i9", at=86_390 - 43_200)
    server.start()
    server.connect("c1")
    server.publish("c1")
    server.destination("connecting", address="rtmp://a")
    server.destination("connected", address="rtmp://a")
    server.connect("c2")
    server.join("c2")
    server.join("c2", "live/other")
    server.tell("something_new", "c2", "live/test", colour="green", bytes="many")
    cut = len(server.lines)
    # Midnight has passed.
    server.at(43_230).report("c2", messages=100, bytes=5000, dropped=4)
    server.destination("failed", error_class="network", reason="gone")
    server.lose(3)
    server.at(43_260).report("c2", messages=100, bytes=5000)
    archive = make()
    late = server.write(archive.logs, cut)
    late.write_bytes(late.read_bytes() + b'nonsense\n{"time": "2026-11-1')
    summary = archive.index(moment(43_300))
    assert (summary.events, summary.unreadable) == (3, 1)
    server.write(archive.logs, 0, cut)
    _write_damaged(archive.logs)
    summary = archive.index(moment(43_300))
    assert summary.files == 7
    assert cut + 5 < summary.events < cut + 40
    (viewer,) = archive.rows("viewers", instance="i9", stream="test")
    assert (viewer["ended_how"], viewer["ended_at"], viewer["watch_seconds"]) == ("watching", None, 70.0)
    assert archive.index(moment(50_000)).changed
    # Nothing was told of the other play before.
    unknown = archive.values("viewers", "messages", "bytes", "stalls", instance="i9", stream="other")
    assert unknown == [(None, None, None)]
    assert [row["gb"] for row in list_viewers(archive.snapshot, Scope(key="live/other"))] == [0.0]
    (viewer,) = archive.rows("viewers", instance="i9", stream="test")
    assert (viewer["ended_how"], viewer["ended_at"]) == ("server died", moment(43_260))
    assert (viewer["messages"], viewer["bytes"], viewer["dropped"]) == (200, 10_000, 4)
    (row,) = archive.rows("servers", instance="i9")
    assert (row["ended_how"], row["missing_events"]) == ("died", 3)
    (outage,) = archive.rows("outages", instance="i9")
    assert (outage["ended_how"], outage["seconds"]) == ("server died", 30.0)
    after_midnight = [row for row in archive.rows("destinations") if row["day"] > moment(0).date()]
    assert [row["uptime_percent"] for row in after_midnight] == [50.0]
    (new,) = archive.rows("events", event="something_new")
    assert (new["bytes"], json.loads(new["line"])["colour"]) == (None, "green")
    statuses = {Path(row["path"]).name: row["status"] for row in archive.rows("event_files")}
    assert statuses == {
        "events_20261116_120000.jsonl": "empty",
        "events_20261116_120001.jsonl": "torn",
        "events_20261116_120002.jsonl": "unreadable",
        "events_20261116_120003.jsonl": "damaged",
        "events_20261116_120004.jsonl": "damaged",
        "events_20261116_235950-1.jsonl": "ok",
        late.name: "damaged",
    }


def test_what_is_behind_a_gap_is_read_once_and_in_order(
    make: Make, whole: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers get at some parts of a log only: the server compresses it at this very moment."""
    archive = make()
    path = story().write(archive.logs)
    text = path.read_text()
    monkeypatch.setattr("spark_analytics.event_logs.index.new_splits", lambda *_: _with_a_gap(path, text))
    first = archive.index()
    monkeypatch.undo()
    (row,) = archive.rows("event_files")
    assert (row["status"], row["error"]) == (
        "unreadable",
        "the file cannot be read: No such file or directory",
    )
    assert 0 < row["read_until"] < len(text) / 2
    assert (
        first.events == row["events"] == text[: row["read_until"]].count("\n") == len(archive.rows("events"))
    )
    assert (first.unreadable, first.refused) == (0, 1)
    path.unlink()
    story().write(archive.logs, compress=True)
    second = archive.index()
    assert first.events + second.events == len(story().lines)
    assert second.refused == 0
    (row,) = archive.rows("event_files")
    assert (row["status"], row["error"], row["unreadable"]) == ("ok", None, 0)
    numbers = sorted(row["number"] for row in archive.rows("events"))
    assert numbers == list(range(1, len(story().lines) + 1))
    archive.assert_same(whole)


def _with_a_gap(path: Path, text: str) -> list[LogSplit]:
    """Eight parts of a file, of which the third and the sixth are nowhere."""
    found = look_at(str(path))
    assert found is not None
    parts = splits_of(found, 0, len(text) // 8 + 1)
    assert len(parts) == 8
    return [
        attrs.evolve(part, name=part.name + ".gone") if number in (2, 5) else part
        for number, part in enumerate(parts)
    ]


def test_a_log_that_no_worker_gets_at_is_tried_again(
    make: Make, whole: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make()
    path = story().write(archive.logs)
    found = look_at(str(path))
    assert found is not None
    nowhere = splits_of(attrs.evolve(found, name="/nowhere/events.jsonl"), 0)
    monkeypatch.setattr("spark_analytics.event_logs.index.new_splits", lambda *_: nowhere)
    assert archive.index().changed
    assert [row["status"] for row in archive.rows("event_files")] == ["unreadable"]
    assert archive.rows("events") == []
    # That it fails again changes nothing.
    assert not archive.index().changed
    monkeypatch.undo()
    assert archive.index().events == len(story().lines)
    archive.assert_same(whole)


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


def test_days_that_are_over_stay_unless_something_of_them_was_open(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server died long ago; an outage of another ends two days after it began."""
    day = 86_400.0
    old = FakeServer("i0", at=-400 * day)
    old.start()
    old.publish("c1")
    old.destination("connecting", address="rtmp://a")
    old.destination("connected", address="rtmp://a")
    old.at(-400 * day + 60).destination("dropped", reason="queue_full", count=3)
    server = FakeServer(at=0)
    server.start()
    server.publish("c1")
    server.destination("connecting", address="rtmp://a")
    server.destination("connected", address="rtmp://a")
    server.at(100).destination("failed", error_class="network", reason="gone")
    cut = len(server.lines)
    server.at(2 * day).destination("connected", address="rtmp://a")
    server.at(2 * day + 100).unpublish("c1")
    server.destination("closed")
    server.stop()
    pieces, whole = make(), make()
    old.write(pieces.logs)
    pieces.index(moment(0))
    server.write(pieces.logs, 0, cut)
    pieces.index(moment(101))
    firsts = _remember_first_days(monkeypatch)
    server.write(pieces.logs, cut)
    pieces.index(moment(3 * day))
    assert firsts == [moment(0).date()]
    old.write(whole.logs)
    server.write(whole.logs)
    whole.index(moment(3 * day))
    pieces.assert_same(whole)
    assert len(pieces.rows("destinations")) == 4


def _remember_first_days(monkeypatch: pytest.MonkeyPatch) -> list[date]:
    """From which days on `destinations` is written."""
    firsts: list[date] = []
    write = TableWriter.write_destinations

    def remember(writer: TableWriter, first: date) -> None:
        firsts.append(first)
        write(writer, first)

    monkeypatch.setattr(TableWriter, "write_destinations", remember)
    return firsts


@pytest.fixture
def two_logs(make: Make) -> tuple[Archive, Path, Path]:
    """The story in two files, both read."""
    archive = make()
    server = story()
    cut = server.marks["YouTube is out"]
    logs = server.write(archive.logs, 0, cut), server.write(archive.logs, cut, len(server.lines) - 1)
    archive.index(moment(600))
    return archive, *logs


def complete(log: Path) -> None:
    """The server stops."""
    with log.open("a") as file:
        file.write(story().lines[-1] + "\n")


@pytest.mark.parametrize("table", ["servers", "event_files"])
def test_a_table_of_another_version_is_made_anew(
    two_logs: tuple[Archive, Path, Path], whole: Archive, table: str
) -> None:
    """From the events that there are, those of deleted logs too: nothing is read twice."""
    archive, first, second = two_logs
    first.unlink()
    archive.index(moment(600))
    archive.outdate(table)
    complete(second)
    assert archive.index().events == 1
    archive.assert_same(whole)
    assert len(archive.rows("events")) == len(story().lines)
    files = archive.values("event_files", "path", "events", "vanished_at")
    vanished = [at is not None for _, _, at in files]
    assert [path for path, _, _ in files] == [str(first), str(second)]
    assert (sum(events for _, events, _ in files), vanished) == (len(story().lines), [True, False])
    assert not archive.index().changed


def test_events_of_another_version_are_read_anew_from_all_logs(
    two_logs: tuple[Archive, Path, Path], whole: Archive, tmp_path: Path
) -> None:
    """Also from those that are not in the places of this run. If one is gone for good, nothing is changed."""
    archive, first, second = two_logs
    complete(second)
    archive.outdate("events")
    away = first.rename(tmp_path / "away")
    with pytest.raises(CatalogueError, match=f"1 of them cannot be, such as {first}: bring them back"):
        archive.index()
    away.rename(first)
    second.rename(tmp_path / second.name)
    archive.logs = tmp_path
    assert archive.index().events == len(story().lines)
    archive.assert_same(whole)
    assert len(archive.rows("events")) == len(story().lines)


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


def _write_damaged(folder: Path) -> None:
    (folder / "events_20261116_120000.jsonl").write_bytes(b"")
    (folder / "events_20261116_120001.jsonl").write_bytes(b'{"time')
    (folder / "events_20261116_120002.jsonl.gz").write_bytes(b"no gzip at all")
    whole = gzip.compress(story().text().encode())
    (folder / "events_20261116_120003.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "events_20261116_120004.jsonl").write_bytes(bytes(range(256)) * 40)
    for path in folder.glob("events_20261116_12000?.*"):
        # Long ago by the clock of the test, whatever day it is.
        os.utime(path, (moment(0).timestamp(),) * 2)
