"""Event logs that come in pieces, twice, late or damaged make the tables that all of them at once make."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

from spark_analytics.errors import CatalogueError
from spark_analytics.event_logs.derive import TableWriter
from spark_analytics.event_logs.lines import LogSplit, splits_of
from spark_analytics.event_logs.logs import look_at
from spark_analytics.questions.api import list_destinations, list_outages, list_viewers
from spark_analytics.questions.ask import ALWAYS, Scope, TimeWindow
from spark_analytics.report.data import gather
from spark_analytics.store.part_files import PartFile, read_files
from spark_analytics.store.place import Place
from spark_analytics.store.schema import Table
from tests.rounds import rounds
from tests.spark.event_archive import LATER, Archive, Make
from tests.spark.event_world import FakeServer, moment, story
from tests.spark.test_event_tables import make as make
from tests.spark.test_event_tables import whole as whole


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


@pytest.mark.fewer_rounds
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
    windows = (TimeWindow(moment(-3600), moment(3600)), ALWAYS, TimeWindow(moment(-3600)))
    for window in windows[: rounds(1, 3)]:
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
    monkeypatch.setattr("spark_analytics.event_logs.update.new_splits", lambda *_: _with_a_gap(path, text))
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
    monkeypatch.setattr("spark_analytics.event_logs.update.new_splits", lambda *_: nowhere)
    assert archive.index().changed
    assert [row["status"] for row in archive.rows("event_files")] == ["unreadable"]
    assert archive.rows("events") == []
    # That it fails again changes nothing.
    assert not archive.index().changed
    monkeypatch.undo()
    assert archive.index().events == len(story().lines)
    archive.assert_same(whole)


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


def test_night_opens_no_file_of_what_ended_on_earlier_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive(tmp_path)
    story().write(archive.logs)
    assert archive.index().changed
    day = 86_400.0
    server = FakeServer("i2", 3 * day)
    server.start()
    server.at(3 * day + 1).connect("c1", "obs")
    server.publish("c1")
    server.destination("connecting", address="rtmp://a/live2")
    server.at(3 * day + 2).destination("connected", address="rtmp://a/live2")
    server.at(3 * day + 60).unpublish("c1")
    server.destination("closed", reason="the server stops", messages=1, bytes=1, dropped=0)
    server.stop()
    server.write(archive.logs)
    opened: set[tuple[str, date]] = set()

    def note(folder: Place, table: Table, files: Iterable[PartFile], *rest: Any, **more: Any) -> pa.Table:
        files = list(files)
        opened.update((table.name, file.day) for file in files)
        return read_files(folder, table, files, *rest, **more)

    monkeypatch.setattr("spark_analytics.store.change.read_files", note)
    archive.index(moment(4 * day))
    assert ("publishes", moment(3 * day).date()) in opened
    # Tables with a row for each server and each log are read as a whole.
    assert {name for name, of in opened if of < moment(3 * day).date()} <= {"servers", "event_files"}
    assert len(archive.rows("publishes")) == 3
