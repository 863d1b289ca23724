"""What players of HLS tell of themselves, in the tables and in the answer of `viewers`."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from spark_analytics.catalogue import Catalogue
from spark_analytics.questions.api import list_plays, list_viewers
from spark_analytics.questions.ask import Scope
from spark_analytics.store.tables import TABLES
from tests.spark.event_archive import ENGINES, Archive, Make, archives
from tests.spark.event_world import FakeServer, moment
from tests.spark.report_world import write

COLUMNS = ("connection", "protocol", "stalls", "startup", "throughput_kbps")
NEW = {"protocol", "startup", "throughput_kbps"}


@pytest.fixture(scope="module", params=ENGINES)
def make(request: pytest.FixtureRequest) -> Make:
    return archives(request, "hls")


def evening() -> FakeServer:
    """Two viewers of HLS, one whose end is lost, and one of RTMP, by a server of today and one of before."""
    server = FakeServer()
    server.start()
    for connection in ("l1", "l2", "l3"):
        server.tell("connection_opened", connection, peer=f"10.0.0.{connection[1]}:9")
        server.join(connection, protocol="hls")
    server.connect("c4")
    server.join("c4", protocol="rtmp")
    server.at(60).report("l1", stalls=1, throughput_kbps=3_000)
    server.at(61).report("l3", stalls=2, throughput_kbps=2_000)
    server.mark("an hour later")
    server.at(120).report("l1", stalls=0, throughput_kbps=None)
    server.report("l3", stalls=0, throughput_kbps=1_000)
    server.at(130).leave("l1", stalls=1, startup=0.4, throughput_kbps=4_000, protocol="hls")
    server.leave("l2", startup=0.8, throughput_kbps=None, protocol="hls")
    server.at(140).leave("c4", stalls=3, startup=None, throughput_kbps=None, protocol="rtmp")
    for connection in ("l1", "l2", "l3", "c4"):
        server.close(connection)
    server.at(150).connect("c5")
    server.join("c5")
    server.at(160).leave("c5")
    server.close("c5")
    server.stop()
    return server


EXPECTED = [
    ("c4", "rtmp", 3, None, None),
    ("c5", None, 0, None, None),
    ("l1", "hls", 1, 0.4, 4_000),
    ("l2", "hls", 0, 0.8, None),
    ("l3", "hls", 2, None, 1_000),
]


def test_each_play_has_what_its_player_told(make: Make) -> None:
    archive = make()
    evening().write(archive.logs)
    archive.index()
    assert archive.values("viewers", *COLUMNS) == EXPECTED


def test_read_in_two_runs_it_is_the_same(make: Make) -> None:
    archive = make()
    server = evening()
    cut = server.marks["an hour later"]
    server.write(archive.logs, 0, cut)
    archive.index(moment(70))
    assert ("l3", "hls", 2, None, 2_000) in archive.values("viewers", *COLUMNS)
    server.write(archive.logs, cut)
    archive.index()
    assert archive.values("viewers", *COLUMNS) == EXPECTED


def test_answer_has_the_mean_of_the_plays_that_tell_it(make: Make) -> None:
    archive = make()
    evening().write(archive.logs)
    archive.index()
    (row,) = list_viewers(archive.snapshot, Scope())
    assert (row["stalls"], row["startup"], row["throughput_kbps"]) == (6, pytest.approx(0.6), 2_500)
    (later,) = list_viewers(archive.snapshot, Scope(), together=True)
    assert later["startup"] == row["startup"]
    plays = {play["connection"]: play for play in list_plays(archive.snapshot, Scope())}
    assert [plays["l1"][name] for name in COLUMNS[1:]] == ["hls", 1, 0.4, 4_000]


def test_nothing_is_told_of_plays_of_a_catalogue_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tables have no such columns."""
    now = TABLES["viewers"]
    before = tuple(column for column in now.columns if column.name not in NEW)
    play = {
        "app": "live",
        "stream": "test",
        "started_at": moment(0),
        "watch_seconds": 5.0,
        "connection": "c1",
    }
    with monkeypatch.context() as older:
        older.setitem(TABLES, "viewers", attrs.evolve(now, version=2, columns=before))
        write(tmp_path, {"viewers": [play]})
    snapshot = Catalogue(tmp_path).open()
    (row,) = list_viewers(snapshot, Scope())
    assert (row["plays"], row["startup"], row["throughput_kbps"]) == (1, None, None)
    (one,) = list_plays(snapshot, Scope())
    assert [one[name] for name in sorted(NEW)] == [None] * 3


def test_events_of_before_are_kept_and_what_follows_is_made_anew(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logs of before are gone. What comes now has the columns."""
    server = evening()
    cut = server.marks["an hour later"]
    today = make()
    first = server.write(today.logs, 0, cut)
    today.index(moment(70))
    snapshot = today.snapshot
    older = Archive(tmp_path)
    with monkeypatch.context() as patch:
        for name in ("events", "viewers", "open_events"):
            table = TABLES[name]
            columns = tuple(column for column in table.columns if column.name not in NEW)
            version = table.version - (name != "events")
            patch.setitem(TABLES, name, attrs.evolve(table, version=version, columns=columns))
        with Catalogue(older.root).change() as change:
            for name in TABLES:
                if snapshot.has(name):
                    rows = snapshot.arrow(name)
                    change.replace(name, rows.select([one.name for one in TABLES[name].columns]))
            change.publish()
    first.unlink()
    server.write(older.logs, cut)
    older.index()
    assert older.values("viewers", *COLUMNS) == [
        ("c4", "rtmp", 3, None, None),
        ("c5", None, 0, None, None),
        ("l1", "hls", 1, 0.4, 4_000),
        ("l2", "hls", 0, 0.8, None),
        # How it began was told before.
        ("l3", None, 2, None, 1_000),
    ]
