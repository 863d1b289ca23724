"""The tables that follow from event logs: the figures of a story, read at once and in pieces."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_analytics.catalogue import Catalogue, Snapshot
from tests.spark.event_world import FakeServer, moment, story

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_analytics.event_logs.index import EventSummary

LATER = moment(700)

#: What follows from events, whatever the order in which they were read.
DERIVED = (
    "servers",
    "viewers",
    "publishes",
    "audience",
    "deliveries",
    "destination_states",
    "outages",
    "destinations",
)


class Archive:
    """A catalogue, and the logs that it is made of."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self.logs = folder / "logs"
        self.root = folder / "catalogue"
        self.logs.mkdir(parents=True)

    def index(self, now: datetime = LATER) -> EventSummary:
        from spark_analytics.event_logs.index import index_events

        with Catalogue(self.root).change() as change:
            summary = index_events(lambda: self._spark, change, [str(self.logs)], now)
            if summary.changed:
                change.publish()
        return summary

    @property
    def snapshot(self) -> Snapshot:
        return Catalogue(self.root).open()

    def rows(self, table: str, *columns: str, **where: object) -> list[dict[str, Any]]:
        """Rows of a table, in some order that is always the same."""
        snapshot = self.snapshot
        if not snapshot.has(table):
            return []
        found = [
            {**row, "dropped_by_reason": dict(row.get("dropped_by_reason") or ())}
            for row in snapshot.arrow(table).to_pylist()
        ]
        found = [row for row in found if all(row[name] == value for name, value in where.items())]
        found.sort(key=lambda row: json.dumps(row, default=str))
        return [{name: row[name] for name in columns} for row in found] if columns else found

    def values(self, table: str, *columns: str, **where: object) -> list[tuple[Any, ...]]:
        """The same as tuples, sorted by the columns."""
        found = [tuple(row.values()) for row in self.rows(table, *columns, **where)]
        return sorted(found, key=lambda values: [(value is None, str(value)) for value in values])

    def assert_same(self, other: Archive, tables: Iterable[str] = DERIVED) -> None:
        for table in tables:
            assert self.rows(table) == other.rows(table), table


Make = Callable[[], Archive]


@pytest.fixture(scope="module")
def make(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Make:
    return lambda: Archive(spark, tmp_path_factory.mktemp("events"))


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
    assert (row["instance"], row["host"], row["version"], row["ended_how"]) == (
        "i1",
        "relay-1",
        "1.0",
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


def test_the_questions_of_the_documents(spark: SparkSession, whole: Archive) -> None:
    """Every SQL on the page runs; the first one answers what the viewers lost in the outage."""
    page = (Path(__file__).parents[2] / "docs" / "audience.rst").read_text()
    questions = re.findall(r"\.\. code-block:: sql\n\n((?:   .*\n|\n)+)", page)
    assert len(questions) == 6
    whole.snapshot.register(spark)
    answers = [
        spark.sql(question.replace("date_sub(current_date(), 1)", "DATE'2026-11-16'")).collect()
        for question in questions
    ]
    ((outage,), peaks, *_) = answers
    assert (outage["seconds"], outage["lost_messages"]) == (40.5, 2000)
    # c2 was there, and c4 came; the reports say that c4 lost 5.
    assert (outage["viewers"], outage["viewers_dropped"], outage["path"]) == (2, 5, None)
    assert [(row["stream"], row["peak"]) for row in peaks] == [("test", 2), ("other", 1)]
    assert all(answers)


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
    assert archive.values("outages", "ended_how", "lost_messages") == [("lasts", 0), ("recovered", 0)]
    server.write(archive.logs, back, compress=True)
    archive.index(LATER)
    archive.assert_same(whole)
    assert archive.rows("open_events") == []
    version = archive.snapshot.manifest.version
    assert not archive.index(LATER).changed
    assert archive.snapshot.manifest.version == version


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
    (viewer,) = archive.rows("viewers", instance="i9")
    assert (viewer["ended_how"], viewer["ended_at"], viewer["watch_seconds"]) == ("watching", None, 70.0)
    assert archive.index(moment(50_000)).changed
    (viewer,) = archive.rows("viewers", instance="i9")
    assert (viewer["ended_how"], viewer["ended_at"]) == ("server died", moment(43_260))
    assert (viewer["messages"], viewer["bytes"], viewer["dropped"]) == (200, 10_000, 4)
    (row,) = archive.rows("servers", instance="i9")
    assert (row["ended_how"], row["missing_events"]) == ("died", 3)
    (outage,) = archive.rows("outages", instance="i9")
    assert (outage["ended_how"], outage["seconds"]) == ("server died", 30.0)
    after_midnight = [row for row in archive.rows("destinations") if row["day"] > moment(0).date()]
    assert [row["uptime_percent"] for row in after_midnight] == [50.0]
    (unknown,) = archive.rows("events", event="something_new")
    assert (unknown["bytes"], json.loads(unknown["line"])["colour"]) == (None, "green")
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
