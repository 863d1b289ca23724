"""Several writers, killed writers, and disks that are full or read-only: never a mixed or lost row."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="The store is not installed: pip install '.[catalogue]'")

import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake

from spark_analytics.catalogue import Catalogue
from spark_analytics.errors import CatalogueBusyError, CatalogueError
from spark_analytics.store.change import Change
from spark_analytics.store.versions import Versions
from tests.spark.hurried_writer import DAY, table, write_once
from tests.spark.test_store import PATIENCE, add, paths
from tests.spark.test_store import unlocked as unlocked


def test_only_one_may_write(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    with catalogue.change(), pytest.raises(CatalogueBusyError, match=f"process {os.getpid()} on "):
        add(catalogue, "a")
    add(catalogue, "a")


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_may_say_that_it_has_no_locks(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuses)
    add(Catalogue(tmp_path), "a")
    assert paths(Catalogue(tmp_path)) == ["a"]


@pytest.mark.parametrize("same_table", [True, False])
def test_of_two_changes_at_once_the_second_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same_table: bool
) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    with unlocked(monkeypatch), catalogue.change() as slow:
        slow.replace(
            "recordings" if same_table else "sessions",
            table("sessions", stream="slow", started_at=DAY)
            if not same_table
            else table("recordings", path="slow", started_at=DAY),
        )
        add(catalogue, "fast")
        with pytest.raises(CatalogueBusyError, match="Somebody else has changed"):
            slow.publish()
    assert paths(catalogue) == ["a", "fast"]
    add(catalogue, "later")
    assert paths(catalogue) == ["a", "fast", "later"]
    assert not catalogue.open().has("sessions")


def test_two_compactions_at_once_do_not_double_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """delta-rs accepts the second one if it may try again."""
    catalogue = Catalogue(tmp_path)
    for name in "abc":
        add(catalogue, name)

    def compact(change: Change) -> None:
        rows = change.arrow("recordings")
        change.drop("recordings", change.files("recordings"))
        change.add("recordings", rows)

    with unlocked(monkeypatch), catalogue.change() as one, catalogue.change() as other:
        compact(one)
        compact(other)
        one.publish()
        with pytest.raises(CatalogueBusyError):
            other.publish()
    assert paths(catalogue) == ["a", "b", "c"]
    assert len(catalogue.open().files("recordings")) == 1


def died_before_publishing(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """A run that has committed its tables, and died."""

    def die(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(Versions, "publish", die)
        patch.setattr(Change, "discard", lambda _: None)
        with pytest.raises(SystemExit):
            add(catalogue, path)


def test_what_a_dead_run_has_committed_never_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = Catalogue(tmp_path)
    died_before_publishing(catalogue, monkeypatch, "first of all")
    with pytest.raises(CatalogueError, match="There is no catalogue"):
        catalogue.open()
    add(catalogue, "a")
    died_before_publishing(catalogue, monkeypatch, "dead")
    died_before_publishing(catalogue, monkeypatch, "dead again")
    assert paths(catalogue) == ["a"]
    add(catalogue, "b")
    assert paths(catalogue) == ["a", "b"]
    # Whoever reads the table without the catalogue sees the same.
    files = DeltaTable(tmp_path / "recordings").file_uris()
    assert sorted(ds.dataset(files, format="parquet").to_table(["path"])["path"].to_pylist()) == ["a", "b"]


def test_what_somebody_else_commits_is_not_read_and_does_not_stay(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    write_deltalake(tmp_path / "recordings", table("recordings", path="foreign"), mode="append")
    assert paths(catalogue) == ["a"]
    with catalogue.change() as change:
        change.add("recordings", table("recordings", path="mine", started_at=DAY))
        write_deltalake(tmp_path / "recordings", table("recordings", path="in between"), mode="append")
        with pytest.raises(CatalogueBusyError, match="Somebody else has changed"):
            change.publish()
    assert paths(catalogue) == ["a"]
    DeltaTable(tmp_path / "recordings").optimize.compact()
    add(catalogue, "b")
    assert paths(catalogue) == ["a", "b"]


def test_a_file_that_is_not_where_the_driver_sees_it_ends_the_change(tmp_path: Path) -> None:
    """Workers of a cluster that do not share the folder write to their own disks."""
    catalogue = Catalogue(tmp_path)
    with catalogue.change() as change:
        (file,) = change.add("recordings", table("recordings", path="a", started_at=DAY))
        (tmp_path / "recordings" / file.path).unlink()
        with pytest.raises(CatalogueError, match="all workers share with this machine"):
            change.publish()
    assert not catalogue.snapshot().version


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


# -- kills ---------------------------------------------------------------------------------------------------


def writer(path: Path, rounds: int = 0, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.hurried_writer", str(path), str(rounds), *options]
    return subprocess.Popen(command)


def assert_whole(catalogue: Catalogue) -> int:
    """The newest version has the rows that belong together, and nothing else; its number."""
    snapshot = catalogue.snapshot()
    if snapshot.version:
        number = str(snapshot.version)
        incidents = snapshot.arrow("incidents", ["kind", "byte_offset"]).to_pylist()
        assert sorted((row["kind"], row["byte_offset"]) for row in incidents) == [
            (number, n) for n in range(3)
        ]
        assert snapshot.arrow("recordings", ["path"])["path"].to_pylist() == [number]
        streams = snapshot.arrow("sessions", ["stream"])["stream"].to_pylist()
        assert sorted(map(int, streams)) == list(range(1, snapshot.version + 1))
    return snapshot.version


def kill_again_and_again(catalogue: Catalogue, kills: int, writers: int, seed: int) -> None:
    rng = random.Random(seed)
    options = ("--unlocked",) if writers > 1 else ()
    reached = 0
    for _ in range(kills):
        processes = [writer(catalogue.root.local, 0, *options) for _ in range(writers)]
        try:
            deadline = time.monotonic() + PATIENCE
            while assert_whole(catalogue) <= reached:
                assert time.monotonic() < deadline, "it must get somewhere"
                time.sleep(0.005)
            time.sleep(rng.random() * 0.1)
        finally:
            for process in processes:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
        reached = assert_whole(catalogue)
    write_once(catalogue)
    assert assert_whole(catalogue) == reached + 1


@pytest.mark.parametrize("writers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_killed_writers_leave_a_whole_catalogue(tmp_path: Path, writers: int) -> None:
    kill_again_and_again(Catalogue(tmp_path), 3, writers, seed=4)


@pytest.mark.full
@pytest.mark.parametrize("writers", [1, 2])
def test_fifty_killed_writers_leave_a_whole_catalogue(tmp_path: Path, writers: int) -> None:
    kill_again_and_again(Catalogue(tmp_path), 50, writers, seed=5)


def test_writers_take_turns(tmp_path: Path) -> None:
    processes = [writer(tmp_path, 3) for _ in range(3)]
    try:
        for process in processes:
            assert process.wait(PATIENCE) == 0
    finally:
        for process in processes:
            process.kill()
    assert assert_whole(Catalogue(tmp_path)) == 9


#: Publishes versions until no file may be larger than the limit, which grows until all of them fit.
_ON_A_FULL_DISK = """
import resource, sys
from spark_analytics.catalogue import Catalogue
from spark_analytics.errors import CatalogueError
from tests.spark.hurried_writer import write_once

def limited(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

catalogue = Catalogue(sys.argv[1])
refused = 0
for size in range(0, 12_000, 500):
    limited(size)
    try:
        write_once(catalogue)
    except (CatalogueError, OSError):
        refused += 1
    limited(resource.RLIM_INFINITY)
print(refused)
"""


def test_a_full_disk_leaves_the_version_before(tmp_path: Path) -> None:
    """Files of any size may be the one that does not fit: part files, commits, and the publication."""
    write_once(Catalogue(tmp_path))
    command = [sys.executable, "-c", _ON_A_FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    refused = int(done.stdout)
    assert 0 < refused < 24
    assert assert_whole(Catalogue(tmp_path)) == 1 + 24 - refused


_AS_NOBODY = """
import os, sys
from spark_analytics.catalogue import Catalogue
from tests.spark.hurried_writer import write_once
import spark_analytics.engine.duck, duckdb, deltalake
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
catalogue = Catalogue(sys.argv[1])
print(catalogue.open().arrow("recordings").num_rows)
try:
    write_once(catalogue)
except OSError as error:
    print(type(error).__name__)
"""


def test_a_store_that_is_read_only_is_read_and_not_changed() -> None:
    # Not below the folder of pytest, which lets nobody else in.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        root = Path(folder) / "catalogue"
        write_once(Catalogue(root))
        places = [root, *root.rglob("*")]
        for place in places:
            place.chmod(0o555 if place.is_dir() else 0o444)
        try:
            command = [sys.executable, "-c", _AS_NOBODY, str(root)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        finally:
            for place in places:
                place.chmod(0o755)
        assert (done.returncode, done.stdout.split()) == (0, ["1", "PermissionError"]), done.stderr
        assert assert_whole(Catalogue(root)) == 1
