"""`compact` and `vacuum`: fewer files with the same rows, and none that a version needs is deleted."""

from __future__ import annotations

import os
import time
from datetime import date, timedelta
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="The store is not installed: pip install '.[catalogue]'")

from spark_analytics.__main__ import main
from spark_analytics.catalogue import Catalogue
from spark_analytics.errors import CatalogueError
from spark_analytics.store import upkeep
from spark_analytics.store.part_files import PartFile
from spark_analytics.store.upkeep import compact, groups_to_join, vacuum
from tests.spark.hurried_writer import DAY, write_once
from tests.spark.test_store import add, data_files, paths
from tests.spark.test_store_writers import died_before_publishing

MIB = 1024 * 1024

LATER = date(2026, 2, 1)


def file(number: int, size: int, day: int = 1, kind: str = "part") -> PartFile:
    return PartFile(f"day=2026-01-{day:02d}/{kind}-1-run-{number}.parquet", date(2026, 1, day), size, 1)


def test_small_files_of_a_day_are_joined_up_to_a_size() -> None:
    small = [file(number, 31 * MIB) for number in range(10)]
    groups = groups_to_join([*small, file(10, 32 * MIB), file(11, 500 * MIB), file(12, MIB, day=2)], LATER)
    assert sorted(one.path for group in groups for one in group) == sorted(one.path for one in small)
    assert all(32 * MIB <= sum(one.size for one in group) <= 512 * MIB for group in groups)


def test_files_that_the_next_run_replaces_are_joined_when_they_are_old() -> None:
    files = [file(1, MIB, kind="open"), file(2, MIB, kind="open"), file(3, MIB)]
    assert not groups_to_join(files, date(2026, 1, 1))
    assert [len(group) for group in groups_to_join(files, LATER)] == [3]


def test_compacting_changes_no_row_and_is_done_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogue = Catalogue(tmp_path)
    for name in "abcd":
        add(catalogue, name, stream=name)
    add(catalogue, "next day", day=date(2026, 1, 2))
    before = catalogue.open()
    assert main(["compact", "--catalogue", str(tmp_path)]) == 0
    assert "recordings: 4 files" in capsys.readouterr().out
    assert len(catalogue.open().files("recordings")) == 2
    assert paths(catalogue) == ["a", "b", "c", "d", "next day"]
    assert before.arrow("recordings").num_rows == 5
    (joined,) = catalogue.open().files(
        "recordings", ranges={"stream": ("c", "c")}, days=(DAY.date(), DAY.date())
    )
    assert joined.rows == 4
    assert main(["compact", "--catalogue", str(tmp_path)]) == 0
    assert "no small files" in capsys.readouterr().out
    assert catalogue.open().version == before.version + 1


def make_old(folder: Path, pattern: str = "**/*.parquet") -> None:
    """As if all that is there had been written long ago."""
    then = time.time() - 60 * 86_400
    for path in folder.glob(pattern):
        os.utime(path, (then, then))


def test_vacuum_deletes_what_kept_versions_do_not_need(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = Catalogue(tmp_path)
    for _ in range(4):
        write_once(catalogue)
    died_before_publishing(catalogue, monkeypatch, "dead")
    command = ["vacuum", "--catalogue", str(tmp_path), "--keep", "1h"]
    assert main(command) == 0
    assert "0 files" in capsys.readouterr().out, "all versions are of the last hour"
    make_old(tmp_path)
    with catalogue.change() as change:
        before = data_files(catalogue, "recordings")
        tried = vacuum(change, timedelta(0), dry_run=True)
        assert data_files(catalogue, "recordings") == before
        done = vacuum(change, timedelta(0))
    # Three files of `recordings` of before and that of the dead run; nine of `incidents`; four of `_versions`.
    assert (done.files, done.size) == (tried.files, tried.size)
    assert done.files == 3 + 1 + 9 + 4
    assert len(data_files(catalogue, "recordings")) == 1
    assert sorted(catalogue.open().arrow("recordings", ["path"])["path"].to_pylist()) == ["4"]
    assert [one.version for one in catalogue.versions()] == [6, 5]
    with pytest.raises(CatalogueError, match=r"There is no version 2 .* what is kept: 5 to 6"):
        catalogue.open(2)


def test_the_catalogue_goes_on_after_its_log_was_cleaned(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    for _ in range(5):
        write_once(catalogue)
    make_old(tmp_path, "**/*")
    for _ in range(2):
        with catalogue.change() as change:
            vacuum(change, timedelta(0))
        logs = list(tmp_path.glob("*/_delta_log/*.json"))
        assert {path.parent.parent.name for path in logs} == {
            "_versions",
            "recordings",
            "incidents",
            "sessions",
        }
        assert len(catalogue.open().arrow("sessions")) == 5
        make_old(tmp_path, "**/*")
    assert catalogue.open().arrow("recordings", ["path"])["path"].to_pylist() == ["5"]
    add(catalogue, "more")
    assert paths(catalogue) == ["5", "more"]
    assert catalogue.versions()[0].version == catalogue.open().version


def test_what_was_written_just_now_is_never_deleted(tmp_path: Path) -> None:
    """Somebody may be about to publish it, on a machine that does not see our lock."""
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    stray = tmp_path / "recordings" / "day=2026-01-01" / "part-stray.parquet"
    stray.write_bytes(b"x")
    with catalogue.change() as change:
        assert vacuum(change, timedelta(0)).files == 0
    assert stray.exists()
    os.utime(stray, (0, 0))
    with catalogue.change() as change:
        assert vacuum(change, timedelta(0)).files == 1


def test_a_version_is_asked_by_its_number_and_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogue = Catalogue(tmp_path)
    for name in "abc":
        add(catalogue, name)
    question = [
        "sql",
        "SELECT count(*) AS n FROM recordings",
        "--catalogue",
        str(tmp_path),
        "--format",
        "csv",
    ]
    assert main([*question, "--as-of", "2"]) == 0
    assert capsys.readouterr().out == "n\n2\n"
    assert main([*question, "--as-of", "2020-01-01"]) == 1
    assert "There is no version of 2020-01-01" in capsys.readouterr().err
    assert main(["versions", "--catalogue", str(tmp_path), "--format", "csv"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == ["version", "3", "2", "1"]


@pytest.mark.parametrize("command", ["compact", "vacuum", "versions"])
def test_where_there_is_no_catalogue_none_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main([command, "--catalogue", str(tmp_path / "none")]) == 1
    assert "There is no catalogue in" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_wrong_time_to_keep_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vacuum", "--keep", "7"]) == 1
    assert "--keep: '7' is not a duration" in capsys.readouterr().err


def test_compacting_and_vacuum_leave_what_belongs_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "GRACE", timedelta(0))
    catalogue = Catalogue(tmp_path)
    for number in range(6):
        write_once(catalogue)
        if number % 2:
            version = catalogue.open().version
            with catalogue.change() as change:
                compact(change)
                assert change.base.version > version
                vacuum(change, timedelta(0))
            names = [
                sorted(catalogue.open().arrow(name, [column])[column].to_pylist())
                for name, column in (("recordings", "path"), ("incidents", "kind"))
            ]
            assert set(names[0]) == set(names[1])
            assert [len(one) for one in names] == [1, 3]
