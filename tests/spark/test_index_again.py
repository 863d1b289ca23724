"""The next runs of `index`: what is new, what has grown, and what cannot be read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from tests.spark.media import age, frames_file
from tests.spark.world import index

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

import pyarrow.compute as pc

from spark_analytics.catalogue import Catalogue
from spark_analytics.flv.sources import ByteSource, open_source
from spark_analytics.recordings import job, plan, tasks
from spark_analytics.recordings.discover import FoundFile, find_recordings
from spark_analytics.recordings.results import Reading
from spark_analytics.recordings.tasks import Lot, run_task, scan
from spark_analytics.store.schema import RECORDING_TABLES
from spark_analytics.store.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from tests.spark.test_index import by_stream, make_two, rows_of
from tests.spark.test_index import engine as engine
from tests.spark.test_index import stream as stream


def test_only_what_is_new_is_read(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "rec", tmp_path / "catalogue"
    folder.mkdir()
    first, second = folder / "live_a_20260101_120000.flv", folder / "live_b_20260101_120000.flv"
    for path, length in ((first, 3), (second, 4)):
        path.write_bytes(frames_file(stream(length)))
        age(path)
    before = index(folder, out)
    assert "2 recordings read" in capsys.readouterr().out
    files = sorted(path for path in out.rglob("*") if path.is_file())
    contents = {path: path.read_bytes() for path in files if path.name != "_lock"}
    # Nothing is new: nothing is read, and nothing is written.
    with monkeypatch.context() as patch:
        patch.setattr("spark_analytics.recordings.job.scan_here", None)
        assert index(folder, out).version == before.version
    assert "nothing is new" in capsys.readouterr().out
    assert sorted(path for path in out.rglob("*") if path.is_file()) == files
    assert all(path.read_bytes() == data for path, data in contents.items())
    # One changes, one vanishes, one is new.
    first.write_bytes(frames_file(stream(6)))
    age(first, 1000)
    second.unlink()
    third = folder / "live_c_20260101_120000.flv"
    third.write_bytes(frames_file(stream(2)))
    age(third)
    after = index(folder, out)
    assert "2 recordings read" in capsys.readouterr().out
    rows = by_stream(after)
    assert {key: (row["duration_ms"] // 1000, row["vanished_at"] is None) for key, row in rows.items()} == {
        "live/a": (5, True),
        "live/b": (3, False),
        "live/c": (1, True),
    }
    # What is known of the vanished one stays; what was known of the changed one does not.
    seconds = [(row["stream"], row["second"]) for row in rows_of(after, "seconds", "stream", "second")]
    assert seconds == [("a", n) for n in range(6)] + [("b", n) for n in range(4)] + [
        ("c", n) for n in range(2)
    ]
    assert {row["stream"]: (row["files"], row["vanished"]) for row in rows_of(after, "sessions")} == {
        "a": (1, 0),
        "b": (1, 1),
        "c": (1, 0),
    }
    # The version before can still be read as it was.
    assert sorted(row["second"] for row in rows_of(before, "seconds") if row["stream"] == "a") == [0, 1, 2]
    # It comes back, and nothing has to be read.
    second.write_bytes(frames_file(stream(4)))
    os.utime(second, ns=(0, rows["live/b"]["mtime_ns"]))
    with monkeypatch.context() as patch:
        patch.setattr("spark_analytics.recordings.tasks.run_task", None)
        again = index(folder, out)
    assert "0 recordings read" in capsys.readouterr().out
    assert by_stream(again)["live/b"]["vanished_at"] is None
    again.register(spark)
    runs = {row["run"] for row in spark.sql("SELECT run FROM recordings").collect()}
    assert runs == {row["run"] for row in rows.values()}


def test_a_file_that_grows_is_read_again(tmp_path: Path) -> None:
    folder, out = tmp_path / "rec", tmp_path / "catalogue"
    folder.mkdir()
    path = folder / "live_a_20260101_120000.flv"
    data = frames_file(stream(4))
    path.write_bytes(data[:-7])
    assert by_stream(index(folder, out))["live/a"]["status"] == "growing"
    # The server died: nobody has written to it since.
    times = path.stat().st_mtime_ns
    rows = Catalogue(out).open().arrow("recordings").to_pylist()
    assert rows[0]["mtime_ns"] == times
    os.utime(path, ns=(times, times - 100 * 10**9))
    row = by_stream(index(folder, out))["live/a"]
    assert (row["status"], row["lost_bytes"]) == ("truncated", 12)


def test_a_file_that_cannot_be_read_does_not_end_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It becomes shorter between the listing and the reading."""
    folder, out = tmp_path / "rec", tmp_path / "catalogue"
    make_two(folder)
    real = plan.make_tasks

    def cut_first(*arguments: Any) -> Any:
        tasks = real(*arguments)
        os.truncate(folder / "live_a_20260101_120000.flv", 50)
        return tasks

    with monkeypatch.context() as patch:
        patch.setattr("spark_analytics.recordings.job.make_tasks", cut_first)
        found = by_stream(index(folder, out))
    assert found["live/a"]["status"] == "unreadable"
    assert "became shorter" in found["live/a"]["error"]
    assert found["live/b"]["status"] == "ok"
    assert "unreadable: " in capsys.readouterr().out
    # As long as it is the same file that cannot be read, there is nothing to publish.
    before = Catalogue(out).open()
    bad = folder / "live_a_20260101_120000.flv"
    bad.write_bytes(frames_file(stream(2)))
    os.utime(bad, ns=(0, found["live/a"]["mtime_ns"]))
    with monkeypatch.context() as patch:
        rows = before.arrow("recordings", where=pc.field("path") == str(bad))
        patch.setattr("spark_analytics.recordings.job.index_recordings", lambda *_: rows)
        assert index(folder, out).version == before.version
    # Nor is anything written for it.
    files = set(out.rglob("*"))
    with monkeypatch.context() as patch:
        patch.setattr("spark_analytics.recordings.job.make_tasks", cut_first)
        assert index(folder, out).version == before.version
    assert set(out.rglob("*")) == files
    bad.write_bytes(frames_file(stream(2)))
    os.utime(bad, ns=(0, found["live/a"]["mtime_ns"]))
    assert "1 unreadable (1 with something wrong)" in capsys.readouterr().out
    os.truncate(bad, 50)
    age(folder / "live_a_20260101_120000.flv")
    assert by_stream(index(folder, out))["live/a"]["status"] == "truncated"


def shrink_while_it_is_read(splits: Sequence[plan.Split], reading: Reading) -> Iterator[Lot]:
    """What a task does, with one file that loses its end when it is open already."""

    def open_and_cut(path: str, size: int) -> ByteSource:
        source = open_source(path, size)
        if "live_a_" in path:
            os.truncate(path, 50)
        return source

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "open_source", open_and_cut)
        yield from run_task(splits, reading)


def test_a_file_that_shrinks_while_it_is_read_does_not_end_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """In a worker of Spark the same code runs, and no test can reach into it."""
    if engine == "spark":
        return
    folder, out = tmp_path / "rec", tmp_path / "catalogue"
    make_two(folder, size=400)
    monkeypatch.setattr("spark_analytics.recordings.tasks.run_task", shrink_while_it_is_read)
    found = by_stream(index(folder, out))
    assert (found["live/a"]["status"], found["live/b"]["status"]) == ("unreadable", "ok")
    assert "became shorter" in found["live/a"]["error"]
    assert len(rows_of(Catalogue(out).open(), "seconds")) == 2


class Cluster:
    """A cluster whose machines come one by one, as far as the one who asks can tell."""

    def __init__(self, master: str, cores: list[int]) -> None:
        self.master = master
        self._cores = cores

    @property
    def defaultParallelism(self) -> int:  # noqa: N802
        return self._cores.pop(0) if len(self._cores) > 1 else self._cores[0]

    def parallelize(self, *_: object) -> Cluster:
        return self

    def count(self) -> int:
        """The first one is there."""
        self._cores[:1] = []
        return 1


@pytest.mark.parametrize(
    ("master", "cores", "expected"),
    [("local[4]", [4], 4), ("spark://h:7077", [2, 4, 8, 16, 16], 16), ("yarn", [2, 1, 1], 1)],
)
def test_work_is_cut_for_all_who_come(master: str, cores: list[int], expected: int) -> None:
    """Before a cluster has begun anything, Spark says two."""
    cluster: Any = Cluster(master, [*cores])
    assert job.cores_at_hand(cluster, pause=lambda _: None) == expected


def test_files_that_change_before_they_are_read_again_end_the_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark reads them again if it loses a machine. Rows that do not belong together must not be written."""
    path = tmp_path / "live_a_20260101_120000.flv"
    path.write_bytes(frames_file(stream(4)))
    age(path)
    files = tuple(find_recordings([str(tmp_path)]).files.values())
    with scan(spark, files, plan.make_tasks(files, 2), Reading("run", datetime.now(UTC)), 0) as found:
        assert not found.is_here
        assert found.frame(spark, "seconds").count() == 4
        # As when the machine is gone that kept them.
        assert found.lots is not None
        found.lots.unpersist(True)
        path.unlink()
        with pytest.raises(Exception, match="changed while"):
            found.frame(spark, "seconds").count()


def test_a_clock_that_was_never_set_does_not_end_the_job(tmp_path: Path) -> None:
    """Nanoseconds of the year 2400 are more than a table holds."""
    folder = tmp_path / "rec"
    make_two(folder)
    os.utime(folder / "live_b_20260101_120000.flv", (13_569_465_600, 13_569_465_600))
    assert FoundFile("/r/b", 1, 13_569_465_600 * 10**9).mtime_ns == 2**63 - 1
    found = by_stream(index(folder, tmp_path / "catalogue"))
    assert found["live/a"]["status"] == "ok"
    assert found["live/b"]["video_frames"] == found["live/a"]["video_frames"] > 0


def test_marking_what_is_gone_takes_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = tmp_path / "rec", tmp_path / "catalogue"
    make_two(folder)
    index(folder, out)
    (folder / "live_a_20260101_120000.flv").unlink()
    monkeypatch.setattr("spark_analytics.cli.index.open_session", None)
    assert by_stream(index(folder, out))["live/a"]["vanished_at"] is not None


@pytest.mark.parametrize("changed", ["recordings", "seconds", "keyframes", "incidents", "sessions"])
def test_a_catalogue_of_another_schema_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    old, new, out = tmp_path / "old", tmp_path / "new", tmp_path / "catalogue"
    for folder, name in ((old, "a"), (old, "gone"), (new, "b")):
        folder.mkdir(exist_ok=True)
        path = folder / f"live_{name}_20260101_120000.flv"
        path.write_bytes(frames_file(stream(1)) + b"torn")
        age(path)
    index(old, out)
    (old / "live_gone_20260101_120000.flv").unlink()
    index(old, out)
    table = TABLES[changed]
    monkeypatch.setitem(TABLES, changed, attrs.evolve(table, version=table.version + 1))
    tables = [TABLES[table.name] for table in RECORDING_TABLES]
    monkeypatch.setattr(plan, "RECORDING_TABLES", tables)
    snapshot = index(new, out)
    streams = {name: sorted(row["stream"] for row in rows_of(snapshot, name)) for name in snapshot.tables}
    # Of what is gone nothing can be read: it stays as it is, with null in columns that are new.
    assert streams == {name: ["a", "b", "gone"] for name in streams}
    assert by_stream(snapshot)["live/gone"]["vanished_at"] is not None
    assert snapshot.schema_version(changed) == table.version + 1
    assert index(new, out).version == Catalogue(out).open().version == snapshot.version
