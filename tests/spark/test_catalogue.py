"""A catalogue is always a whole version, whoever is killed while writing, and however many write."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

pytest.importorskip("pyarrow", reason="Spark is not installed: pip install '.[spark]'")

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_analytics import catalogue as catalogues
from spark_analytics import parquet_files
from spark_analytics.catalogue import Catalogue, folder_of
from spark_analytics.cleaning import GRACE, clean_up
from spark_analytics.errors import CatalogueBusyError, CatalogueError
from spark_analytics.manifest import Manifest, newest, path_of, publish, versions
from spark_analytics.schemas import TABLES
from tests.spark.hurried_writer import DAY, table

_IS_S07 = (pc.field("app") == "live") & (pc.field("stream") == "s07")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How often a writer is killed. The long version is for a quiet hour.
KILLS = int(os.environ.get("SPARK_TEST_KILLS", "6"))


def add(catalogue: Catalogue, path: str, keep: bool = True) -> None:
    with catalogue.change() as change:
        runs = change.base.runs("recordings") if keep else ()
        change.write_arrow("recordings", table("recordings", path=path, started_at=DAY), runs)
        change.publish()


def paths(catalogue: Catalogue) -> list[str]:
    return sorted(catalogue.open().arrow("recordings", ["path"])["path"].to_pylist())


def test_versions(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "new")
    with pytest.raises(CatalogueError, match="There is no catalogue in"):
        catalogue.open()
    assert catalogue.snapshot().arrow("recordings").num_rows == 0
    add(catalogue, "a")
    before = catalogue.open()
    add(catalogue, "b")
    assert paths(catalogue) == ["a", "b"]
    assert before.arrow("recordings", ["path"])["path"].to_pylist() == ["a"], "a version never changes"
    add(catalogue, "c", keep=False)
    assert paths(catalogue) == ["c"]
    assert versions(catalogue.root) == [1, 2, 3]


def test_all_names_last_before_a_version_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The power may go at any moment: a folder whose name was not written down would be missing from the version."""
    synced: list[Path] = []
    real_sync, real_link = os.fsync, os.link

    def sync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        real_sync(descriptor)

    def link(source: Path, target: Path) -> None:
        root = tmp_path / "new"
        if target.parent == root:
            # This one sees whether there are links at all.
            return real_link(source, target)
        (run,) = (root / "recordings").iterdir()
        files = [path for path in run.rglob("*") if path.is_file()]
        wanted = {*files, *(path.parent for path in files), run, root / "recordings", root, tmp_path}
        assert files
        assert wanted <= set(synced)
        real_link(source, target)
        synced.clear()

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "link", link)
    add(Catalogue(tmp_path / "new"), "a")
    assert synced == [tmp_path / "new" / "_commits"]


def test_what_is_not_published_never_was(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    with catalogue.change() as change:
        change.write_arrow("recordings", table("recordings", path="b", started_at=DAY))
    assert paths(catalogue) == ["a"]
    with pytest.raises(KeyError), catalogue.change() as change:
        change.write_arrow("no such table", table("recordings", path="b", started_at=DAY))
    assert paths(catalogue) == ["a"]


def test_what_came_to_nothing_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    with catalogue.change() as change:
        change.write_arrow("recordings", table("recordings", path="b", started_at=DAY))
        change.write_arrow("incidents", table("incidents", wall=DAY), part="-open")

    def write(*names: str) -> None:
        with catalogue.change() as change:
            for name in names:
                change.write_arrow(name, table("recordings", path="c", started_at=DAY))

    with pytest.raises(KeyError):
        write("recordings", "no such table")
    assert len(list((tmp_path / "recordings").iterdir())) == 1
    assert not list((tmp_path / "incidents").iterdir())

    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    # What a version names stays, whatever goes wrong behind that.
    monkeypatch.setattr(catalogues, "clean_up", fails)
    with pytest.raises(OSError, match="full"):
        add(catalogue, "d")
    assert paths(catalogue) == ["a", "d"]


def test_what_is_forgotten_is_not_read_and_not_kept(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    tables = ("seconds", "keyframes", "recordings")
    with catalogue.change() as change:
        for name in tables:
            change.write_arrow(name, table(name, day=DAY.date()))
        change.publish()
    with catalogue.change() as change:
        # All of them, be it that they can be asked for only once.
        change.forget(name for name in tables[:2])
        assert [change.base.has(name) for name in tables] == [False, False, True]
        change.publish()
    assert list(catalogue.open().manifest.tables) == ["recordings"]


def test_days_that_are_not_asked_for_are_not_read(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    with catalogue.change() as change:
        rows = table("recordings", path="b", started_at=DAY, day=date(2026, 1, 2))
        change.write_arrow("recordings", rows, change.base.runs("recordings"))
        change.publish()
    (broken,) = tmp_path.glob("recordings/*/day=2026-01-01/*.parquet")
    broken.write_bytes(b"not Parquet")
    found = catalogue.open().arrow("recordings", ["path"], days=(date(2026, 1, 2), date(2026, 1, 3)))
    assert found["path"].to_pylist() == ["b"]


@pytest.mark.parametrize("by_spark", [False, True], ids=["arrow", "spark"])
def test_other_streams_of_a_day_are_not_read(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_spark: bool
) -> None:
    """Rows are sorted by stream, and lie in lots of which each says what is in it."""
    monkeypatch.setattr(parquet_files, "ROWS_TOGETHER", 100)
    rows = pa.Table.from_pylist(
        [
            {"app": "live", "stream": f"s{number % 20:02d}", "second": number, "wall": DAY, "day": DAY.date()}
            for number in range(2000)
        ],
        schema=TABLES["seconds"].arrow_schema(),
    )
    with Catalogue(tmp_path).change() as change:
        if by_spark:
            spark = request.getfixturevalue("spark")
            change.write("seconds", spark.createDataFrame(rows).repartition(3))
        else:
            change.write_arrow("seconds", rows)
        snapshot = change.publish()
    files = parquet_files.files_of(snapshot.folders("seconds"))
    lots = [
        lot
        for fragment in ds.dataset(list(map(str, files)), format="parquet").get_fragments()
        for lot in fragment.split_by_row_group(_IS_S07)
    ]
    assert sum(group.num_rows for lot in lots for group in lot.row_groups) <= 300
    found = snapshot.arrow("seconds", ["second"], _IS_S07)["second"].to_pylist()
    assert sorted(found) == list(range(7, 2000, 20))


def test_only_one_may_write(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    with catalogue.change(), pytest.raises(CatalogueBusyError, match=f"process {os.getpid()} on "):
        add(catalogue, "a")
    add(catalogue, "a")


def test_a_file_system_without_locks_cannot_mix_two_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogues, "_try_lock", lambda _: True)
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    with catalogue.change() as slow:
        slow.write_arrow("recordings", table("recordings", path="slow", started_at=DAY))
        add(catalogue, "fast")
        with pytest.raises(CatalogueBusyError, match="Another run has changed"):
            slow.publish()
    assert paths(catalogue) == ["a", "fast"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_may_say_that_it_has_no_locks(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuses)
    add(Catalogue(tmp_path), "a")
    assert paths(Catalogue(tmp_path)) == ["a"]


def test_a_version_is_published_once(tmp_path: Path) -> None:
    publish(tmp_path, Manifest(1))
    with pytest.raises(CatalogueBusyError):
        publish(tmp_path, Manifest(1, notes={"other": True}))
    assert newest(tmp_path).notes == {}
    assert [path.name for path in (tmp_path / "_commits").iterdir()] == ["00000001.json"]


def test_a_newer_format_is_told(tmp_path: Path) -> None:
    publish(tmp_path, Manifest(1))
    path = tmp_path / "_commits" / "00000001.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(CatalogueError, match="format 99"):
        Catalogue(tmp_path).open()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1, "version": 1}', "\x00\x00"])
def test_a_damaged_version_is_told(tmp_path: Path, text: str) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    add(catalogue, "b")
    path = path_of(tmp_path, 2)
    path.write_text(text)
    with pytest.raises(CatalogueError, match=r"00000002\.json is damaged .* the version before it"):
        catalogue.open()
    path.unlink()
    assert paths(catalogue) == ["a"]


def test_an_old_version_that_is_damaged_disturbs_nobody(tmp_path: Path) -> None:
    """It is cleaned away like any other."""
    catalogue = Catalogue(tmp_path)
    for name in "abc":
        add(catalogue, name)
    path_of(tmp_path, 2).write_text("")
    (tmp_path / "_commits" / "9.json").write_text("no name of a version")
    add(catalogue, "d")
    with catalogue.change():
        pass
    assert paths(catalogue) == ["a", "b", "c", "d"]
    clean_up(tmp_path, time.time() + 2 * GRACE)
    assert versions(tmp_path) == [4]
    assert paths(catalogue) == ["a", "b", "c", "d"]


def test_a_version_that_cannot_be_opened_is_not_waited_for(tmp_path: Path) -> None:
    add(Catalogue(tmp_path), "a")
    path_of(tmp_path, 2).symlink_to(tmp_path / "no such file")
    with pytest.raises(FileNotFoundError):
        newest(tmp_path)


def test_without_links_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_link)
    with (
        pytest.raises(CatalogueError, match="is on a file system without hard links"),
        Catalogue(tmp_path).change(),
    ):
        pytest.fail("a change has begun that cannot be published")
    assert [path.name for path in tmp_path.iterdir()] == ["_lock"]


def test_tables_of_another_version_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    monkeypatch.setitem(TABLES, "recordings", attrs.evolve(TABLES["recordings"], version=99))
    with pytest.raises(
        CatalogueError, match=r"table recordings .* is of version 1, and this program knows 99"
    ):
        catalogue.open()
    assert not catalogue.snapshot().has("recordings")


def test_what_no_version_needs_is_deleted_after_a_while(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    add(catalogue, "b", keep=False)
    first, second = (newest(tmp_path), catalogue.open())
    # What a run leaves that was killed.
    unpublished = folder_of(tmp_path, "recordings", "20260101T000000-00000000")
    unpublished.mkdir()
    assert first == second.manifest
    assert clean_up(tmp_path) == [], "somebody may be reading"
    later = time.time() + GRACE + 1
    old = {path.name for path in clean_up(tmp_path, later)}
    assert "00000001.json" in old
    assert unpublished.name in old
    assert paths(catalogue) == ["b"]
    assert versions(tmp_path) == [2]
    assert len(list((tmp_path / "recordings").iterdir())) == 1


def writer(path: Path, rounds: int = 0) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.spark.hurried_writer", str(path), str(rounds)])


def assert_whole(catalogue: Catalogue) -> int:
    """The newest version has the rows that belong together, and nothing else; its number."""
    snapshot = catalogue.snapshot()
    version = snapshot.manifest.version
    if version:
        incidents = snapshot.arrow("incidents", ["kind", "byte_offset"]).to_pylist()
        assert sorted((row["kind"], row["byte_offset"]) for row in incidents) == [
            (str(version), n) for n in range(3)
        ]
        assert snapshot.arrow("recordings", ["path"])["path"].to_pylist() == [str(version)]
    return version


def test_a_killed_writer_leaves_a_whole_catalogue(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    rng = random.Random(4)
    reached = 0
    for _ in range(KILLS):
        process = writer(tmp_path)
        try:
            deadline = time.monotonic() + 60
            while catalogue.snapshot().manifest.version <= reached:
                assert time.monotonic() < deadline, "it must get somewhere"
                time.sleep(0.005)
            time.sleep(rng.random() * 0.05)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        version = assert_whole(catalogue)
        assert version > reached
        reached = version


def test_writers_take_turns(tmp_path: Path) -> None:
    processes = [writer(tmp_path, 5) for _ in range(3)]
    try:
        for process in processes:
            assert process.wait(120) == 0
    finally:
        for process in processes:
            process.kill()
    assert assert_whole(Catalogue(tmp_path)) == 15


def test_a_catalogue_stays_where_it_is_when_the_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java has a current folder of its own, so that a relative path would mean two places."""
    monkeypatch.chdir(tmp_path)
    catalogue = Catalogue("catalogue")
    monkeypatch.chdir("/")
    assert catalogue.root == tmp_path / "catalogue"


def write_two(spark: SparkSession, catalogue: Catalogue) -> None:
    rows = pa.concat_tables(
        [table("recordings", path=path, started_at=DAY, run="theirs") for path in ("a", "b")]
    )
    with catalogue.change() as change:
        change.write("recordings", spark.createDataFrame(rows, TABLES["recordings"].spark_schema()))
        change.publish()


def test_spark_reads_and_writes_what_is_here(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever file system its paths mean if nothing is said, as where HADOOP_CONF_DIR is set, and whatever the name."""
    session = spark.newSession()
    session.conf.set("fs.defaultFS", "viewfs://c/")
    session.conf.set("fs.viewfs.mounttable.c.linkFallback", f"file://{tmp_path}/other")
    (tmp_path / "other").mkdir()
    catalogue = Catalogue(tmp_path / "cat[1] {a,b} %41 *? \\ 12:00")
    write_two(session, catalogue)
    assert paths(catalogue) == ["a", "b"]
    assert {row.path for row in catalogue.open().read(session, "recordings").collect()} == {"a", "b"}
    catalogue.open().register(session)
    assert session.sql("SELECT count(*) AS n FROM recordings").first() == (2,)
    assert not list((tmp_path / "other").iterdir())


def test_rows_that_do_not_arrive_are_missed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of a cluster that do not share the folder write to their own disks, and Spark is content with that."""
    catalogue = Catalogue(tmp_path / "new")
    monkeypatch.setattr(catalogues, "_uri", lambda folder: f"file://{tmp_path}/elsewhere/{folder.name}")
    with pytest.raises(CatalogueError, match=r"wrote 2 rows, of which 0 are in .* all workers share"):
        write_two(spark, catalogue)
    assert not catalogue.snapshot().manifest.version
