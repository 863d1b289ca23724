"""The store on S3, and read by others: the same rows everywhere."""

from __future__ import annotations

import json
import logging
import secrets
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake", reason="The store is not installed: pip install '.[catalogue]'")
pytest.importorskip("moto", reason="There is no S3 to test with: pip install '.[test]'")
pytest.importorskip("polars", reason="Polars is not installed: pip install '.[test]'")

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from moto.server import ThreadedMotoServer

import spark_analytics
from spark_analytics.__main__ import main
from spark_analytics.catalogue import Catalogue
from spark_analytics.engine.duck import DuckEngine
from spark_analytics.errors import CatalogueBusyError, CatalogueError
from spark_analytics.store.part_files import PartFile, _write_task
from spark_analytics.store.tables import TABLES
from spark_analytics.store.upkeep import compact, vacuum
from spark_analytics.store.versions import Snapshot, _read_task
from tests.spark.hurried_writer import DAY, table, write_once
from tests.spark.report_world import two_weeks, write
from tests.spark.test_store import add, paths
from tests.spark.test_store_writers import assert_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a bucket in an S3 of this machine."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "hush",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            monkeypatch.setenv(name, value)
        # All servers of a process have the same buckets.
        name = f"bucket-{secrets.token_hex(4)}"
        request = urllib.request.Request(f"http://{host}:{port}/{name}", method="PUT")
        with urllib.request.urlopen(request, timeout=30):
            pass
        yield f"s3://{name}"
    finally:
        server.stop()


def test_a_catalogue_on_s3_is_written_and_read_like_one_on_a_disk(bucket: str, tmp_path: Path) -> None:
    catalogue = Catalogue(f"{bucket}/deep/catalogue")
    with pytest.raises(CatalogueError, match=f"There is no catalogue in {bucket}/deep/catalogue"):
        catalogue.open()
    add(catalogue, "a", stream="one")
    add(catalogue, "b", stream="two", day=date(2026, 1, 2))
    assert paths(catalogue) == ["a", "b"]
    assert paths(catalogue, 1) == ["a"]
    snapshot = catalogue.open()
    assert len(snapshot.files("recordings", ranges={"stream": ("two", "two")})) == 1
    engine = DuckEngine(snapshot)
    question = "SELECT path, day FROM recordings WHERE day = DATE '2026-01-02'"
    assert engine.ask(question).to_pylist() == [{"path": "b", "day": date(2026, 1, 2)}]
    engine.close()
    assert [one.version for one in catalogue.versions()] == [2, 1]


@pytest.mark.full
def test_two_writers_on_s3_do_not_mix(bucket: str) -> None:
    catalogue = Catalogue(f"{bucket}/catalogue")
    write_once(catalogue)
    with catalogue.change() as slow:
        slow.replace("recordings", table("recordings", path="slow", started_at=DAY))
        write_once(catalogue)
        with pytest.raises(CatalogueBusyError):
            slow.publish()
    command = [sys.executable, "-m", "tests.spark.hurried_writer", catalogue.root.address, "4"]
    processes = [subprocess.Popen(command) for _ in range(2)]
    try:
        assert [process.wait(120) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    assert assert_whole(catalogue) == 2 + 8


def test_upkeep_of_a_catalogue_on_s3(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_analytics.store.upkeep.GRACE", timedelta(days=-1))
    catalogue = Catalogue(f"{bucket}/catalogue")
    for name in "abc":
        add(catalogue, name)
    with catalogue.change() as change:
        (joined,) = compact(change)
        assert (joined.before, joined.after) == (3, 1)
        assert vacuum(change, timedelta(0)).files > 3
    assert paths(catalogue) == ["a", "b", "c"]


def test_what_the_tasks_of_spark_do_is_the_same_on_s3(bucket: str) -> None:
    """Spark itself has no file system for it: its Python workers read and write."""
    definition = TABLES["recordings"]
    catalogue = Catalogue(f"{bucket}/catalogue")
    rows = pa.concat_tables([table("recordings", path=name, file_id=name, started_at=DAY) for name in "abc"])
    with catalogue.change() as change:
        folder = change.base.folder("recordings").address
        task = _write_task(folder, definition, change.run, "part", frozenset("b"), rows.to_batches())
        written = [PartFile(**row) for batch in task for row in batch.to_pylist()]
        assert [(file.is_open, file.rows) for file in written] == [(False, 2), (True, 1)]
        change.take("recordings", written, definition.version)
        change.publish()
    assert paths(catalogue) == ["a", "b", "c"]
    listed = [{"path": file.path, "day": file.day, "size": file.size, "rows": file.rows} for file in written]
    read = pa.Table.from_batches(_read_task(folder, definition, [pa.RecordBatch.from_pylist(listed)]))
    assert sorted(read["path"].to_pylist()) == ["a", "b", "c"]
    assert set(read["day"].to_pylist()) == {DAY.date()}


#: Few rows are written from here, so that the workers write these.
_WITH_SPARK = """
import sys
from spark_analytics.__main__ import main
from spark_analytics.recordings import job
job._FEW_ROWS = 20
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.full
def test_spark_writes_and_reads_a_catalogue_on_s3_in_a_session(
    bucket: str, recordings: Path, snapshot: Snapshot
) -> None:
    """One of its own: its workers have the environment of the process that started it."""

    def run(*words: str) -> str:
        command = [sys.executable, "-c", _WITH_SPARK, *words, "--master", "local[2]"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    address = f"{bucket}/catalogue"
    assert "is version 1 now" in run("index", str(recordings), "--out", address)
    question = "SELECT stream, count(*) AS seconds, sum(video_frames) AS pictures FROM seconds GROUP BY stream ORDER BY stream"
    answers = run("sql", question, "--catalogue", address, "--format", "json").splitlines()
    engine = DuckEngine(snapshot)
    assert [json.loads(line) for line in answers] == engine.ask(question).to_pylist()
    engine.close()
    assert len(answers) > 5
    assert "nothing is new" in run("index", str(recordings), "--out", address)


def test_the_commands_take_the_address_of_a_catalogue(
    bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    add(Catalogue(f"{bucket}/catalogue"), "a")
    question = ["sql", "SELECT path FROM recordings", "--catalogue", f"{bucket}/catalogue", "--format", "csv"]
    assert main(question) == 0
    assert capsys.readouterr().out == "path\na\n"


# -- other readers -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """A catalogue with all kinds of columns, of several runs, of which some files were replaced."""
    root = tmp_path_factory.mktemp("world") / "catalogue"
    write(root, two_weeks(streams=2, days=3, viewers=5))
    with Catalogue(root).change() as change:
        change.add("recordings", table("recordings", path="é %41 'x'", started_at=DAY, size=2**62))
        change.add("sessions", table("sessions", paths=["a", "b"], started_at=DAY), is_open=True)
        change.add("viewers", table("viewers", dropped_by_reason={"queue_full": 3}, started_at=DAY))
        change.rewrite("viewers", change.base.files("viewers")[:1], lambda rows: rows.slice(1))
        change.publish()
    return Catalogue(root).open()


def rows_of(found: Any, name: str) -> list[str]:
    """Rows in a form that is the same from every reader."""
    columns = TABLES[name].column_names
    arrow = pa.table(found).select(columns)
    rows = arrow.cast(TABLES[name].arrow_schema()).to_pylist()
    return sorted(json.dumps([row[column] for column in columns], default=str) for row in rows)


def test_every_reader_sees_equal_rows(world: Snapshot) -> None:
    """Of every table that has rows, by the version that is pinned."""
    opened = spark_analytics.open(world.root)
    assert set(world.tables) >= {"recordings", "seconds", "viewers", "sessions", "destinations"}
    for name in world.tables:
        expected = rows_of(opened.table(name).arrow(), name)
        assert expected
        delta = DeltaTable(str(world.folder(name)), version=world.pins[name].version)
        by_delta = QueryBuilder().register(name, delta).execute(f"SELECT * FROM {name}")
        assert rows_of(pa.table(by_delta.read_all()), name) == expected
        assert rows_of(opened.sql(f"SELECT * FROM {name}"), name) == expected
        assert rows_of(opened.table(name).duckdb().to_arrow_table(), name) == expected
        assert len(opened.table(name).pandas()) == len(expected)
        frame = pl.read_delta(str(world.folder(name)), version=world.pins[name].version)
        assert sorted(frame.columns) == sorted(TABLES[name].column_names)
        plain = [
            column.name for column in TABLES[name].columns if not column.type.startswith(("map", "array"))
        ]
        ours = pl.from_arrow(opened.table(name).arrow(plain))
        assert isinstance(ours, pl.DataFrame)
        assert sorted(map(str, frame.select(plain).rows())) == sorted(map(str, ours.rows()))


def test_spark_sees_the_same_rows(spark: SparkSession, world: Snapshot) -> None:
    opened = spark_analytics.open(world.root)
    for name in world.tables:
        found = opened.table(name).spark(spark).toArrow()
        assert rows_of(found, name) == rows_of(opened.table(name).arrow(), name)


def test_the_door_says_what_there_is(world: Snapshot) -> None:
    opened = spark_analytics.open(str(world.root), as_of=1)
    assert (opened.version, len(opened.table("sessions").arrow())) == (1, 0)
    assert [one.version for one in opened.versions()] == [2, 1]
    assert opened.table("recordings").arrow(["path"], days=(DAY.date(), DAY.date())).num_rows == 0
    with pytest.raises(CatalogueError, match="There is no table recording; there are: recordings, "):
        opened.table("recording")
