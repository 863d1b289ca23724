"""DuckDB and Spark make the same tables from the same event logs, and a small log costs no job of Spark."""

from __future__ import annotations

import random
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from spark_analytics.__main__ import main
from spark_analytics.catalogue import Catalogue
from spark_analytics.event_logs import derive, lines
from spark_analytics.event_logs.copies import Row
from spark_analytics.event_logs.derive import (
    AnyWorkbench,
    answer,
    count_events,
    duck_workbench,
    make_batch,
    spark_workbench,
)
from spark_analytics.event_logs.parse import TextLine, parse_events
from spark_analytics.event_logs.servers import Server, servers_of
from spark_analytics.event_logs.update import index_events
from spark_analytics.store.tables import OPEN_EVENTS
from tests.spark.event_archive import DERIVED, LATER, Archive
from tests.spark.event_world import FakeServer, moment, story

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL_TABLES = (*DERIVED, "open_events", "events")


def busy_server(seed: int) -> FakeServer:
    """Viewers, publishers and destinations that come and go at random; some of their events are lost."""
    rng = random.Random(seed)
    server = FakeServer("busy", at=1.0)
    server.start()
    playing: list[str] = []
    for number in range(400):
        server.at(server.now + rng.choice((0.0, 0.25, 7.0, 41.0)))
        name = f"c{rng.randrange(1, 25)}"
        what = rng.randrange(9)
        if what < 3:
            server.connect(name)
            server.join(name)
            playing.append(name)
        elif what == 3 and playing:
            reason = rng.choice(
                ("the peer broke it off", "over it (limit: max_bitrate)", "an internal error")
            )
            server.leave(playing.pop(), reason=reason, messages=number, dropped={"queue_full": number % 4})
        elif what == 4:
            server.report(name, messages=number, bytes=number * 1000, stalled_seconds=number / 7)
        elif what == 5:
            server.publish("c30")
            server.at(server.now + 20).unpublish("c30", clean=bool(number % 2), messages=number)
        elif what == 6:
            state = rng.choice(("connecting", "connected", "failed", "given_up", "closed", "statistics"))
            server.destination(
                state, address="rtmp://a", error_class="network", reason=f"why {number}", messages=3
            )
        elif what == 7:
            server.destination("dropped", reason=rng.choice(("not_connected", "queue_full")), count=number)
        else:
            server.close(name)
        if rng.random() < 0.06:
            server.lines[-1] = ""
    return server


def answers_of(
    bench: AnyWorkbench, events: pa.Table, servers: list[Server], now: datetime
) -> dict[str, list[Row]]:
    """What every file of SQL makes of some events, with all rows in an order that is always the same."""
    bench.add("found_events", events)
    bench.add("open_before", OPEN_EVENTS.arrow_schema().empty_table())
    answer(bench, "once_events")
    make_batch(bench, servers, now)
    for name in ("viewers", "publishes", "audience", "deliveries"):
        answer(bench, name)
    bench.add("all_publishes", bench.rows("publishes"))
    for name in ("live_times", "destination_states", "outages", "open_events"):
        answer(bench, name)
    for name in ("destination_states", "outages", "deliveries"):
        bench.add(f"all_{name}", bench.rows(name))
    answer(bench, "whole_events")
    bench.make("drops_once", "SELECT * FROM whole_events WHERE event = 'destination_dropped'", {})
    answer(bench, "destinations", first_day=date(1970, 1, 1))
    bench.make("counted_events", "SELECT * FROM found_events", {})
    answer(bench, "file_counts")
    names = [path.stem for path in Path(derive.__file__).parent.glob("*.sql")]
    return {name: sorted((plain(row) for row in bench.rows(name).to_pylist()), key=repr) for name in names}


def plain(row: Row) -> Row:
    """A map comes as a list of pairs, or as nothing at all."""
    return {name: dict(value) if isinstance(value, list) else value for name, value in sorted(row.items())}


@pytest.mark.full
def test_both_engines_give_equal_rows_to_every_file_of_sql(spark: SparkSession) -> None:
    events = []
    for server in (story(), busy_server(1)):
        lines = [TextLine(number, line) for number, line in enumerate(server.lines[:400]) if line]
        events.append(parse_events(server.instance, lines))
    found = pa.Table.from_batches(events)
    with duck_workbench() as bench:
        bench.add("counted_events", found)
        servers = [server for server, _ in servers_of(count_events(bench))]
        now = max(server.last_seen for server in servers)
        here = answers_of(bench, found, servers, now)
    with spark_workbench(spark) as bench:
        there = answers_of(bench, found, servers, now)
    for name, rows in here.items():
        assert there[name] == rows, name
        assert rows, name


@pytest.mark.full
def test_both_engines_make_equal_rows_of_every_table(spark: SparkSession, tmp_path: Path) -> None:
    """Also of what one run leaves open for the next one."""
    here, there = Archive(tmp_path / "here"), Archive(tmp_path / "there", spark)
    for first, last in pairwise((0, 200, 400)):
        for archive in (here, there):
            one, other = story(), busy_server(1)
            one.write(archive.logs, first // 10, last // 10)
            other.write(archive.logs, first, last)
            archive.index(other.times[last - 1])
        here.assert_same(there, ALL_TABLES)
    assert all(here.rows(table) for table in ALL_TABLES)


def test_small_log_costs_no_job_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    story().write(archive.logs)
    before = jobs_of(spark)
    with Catalogue(archive.root).change() as change:
        assert index_events(lambda: spark, change, [str(archive.logs)], LATER).events == len(story().lines)
        change.publish()
    assert jobs_of(spark) == before
    spark.range(1).count()
    assert jobs_of(spark) > before


def jobs_of(spark: SparkSession) -> int:
    """How many jobs Spark has begun so far."""
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def test_index_of_a_small_log_starts_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_analytics.cli.index.open_session", lambda _: pytest.fail("Spark is started"))
    story().write(tmp_path / "logs")
    assert main(["index", "--events", str(tmp_path / "logs"), "--out", str(tmp_path / "catalogue")]) == 0
    assert Catalogue(tmp_path / "catalogue").open().arrow("viewers").num_rows == 5


def test_log_that_is_larger_than_it_says_is_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a compressed file says of its size is not to be trusted."""
    monkeypatch.setattr(lines, "MOST_TEXT_HERE", 1000)
    archive = Archive(tmp_path)
    path = story().write(archive.logs, compress=True)
    path.write_bytes(path.read_bytes()[:-4] + b"\x10\x00\x00\x00")
    with pytest.raises(AssertionError, match="a few events need no Spark"):
        archive.index(moment(1000))
