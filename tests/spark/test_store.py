"""A catalogue is always a whole version, whoever is killed while writing, and however many write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

pytest.importorskip("deltalake", reason="The store is not installed: pip install '.[catalogue]'")

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from spark_analytics import catalogue as catalogues
from spark_analytics.catalogue import Catalogue
from spark_analytics.errors import CatalogueBusyError, CatalogueError
from spark_analytics.store import part_files
from spark_analytics.store.delta import DeltaFolder
from spark_analytics.store.schema import Column
from spark_analytics.store.tables import TABLES
from spark_analytics.store.versions import Versions
from tests.spark.hurried_writer import DAY, table

#: Seconds after which a process that does nothing is a failure.
PATIENCE = 120


def add(catalogue: Catalogue, path: str, **values: object) -> None:
    with catalogue.change() as change:
        change.add("recordings", table("recordings", path=path, started_at=DAY, **values))
        change.publish()


def paths(catalogue: Catalogue, as_of: int | datetime | None = None) -> list[str]:
    return sorted(catalogue.open(as_of).arrow("recordings", ["path"])["path"].to_pylist())


def data_files(catalogue: Catalogue, name: str) -> set[Path]:
    return set((catalogue.root.local / name).glob("day=*/*.parquet"))


# -- versions ------------------------------------------------------------------------------------------------


def test_every_version_stays_what_it_was(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "new")
    with pytest.raises(CatalogueError, match="There is no catalogue in"):
        catalogue.open()
    add(catalogue, "a")
    before = catalogue.open()
    add(catalogue, "b")
    with catalogue.change() as change:
        change.replace("recordings", table("recordings", path="c", started_at=DAY))
        change.publish("only c")
    assert paths(catalogue) == ["c"]
    assert before.arrow("recordings", ["path"])["path"].to_pylist() == ["a"]
    assert [paths(catalogue, number) for number in (1, 2, 3)] == [["a"], ["a", "b"], ["c"]]
    assert [(one.version, one.what) for one in catalogue.versions()] == [(3, "only c"), (2, ""), (1, "")]


def test_a_moment_names_the_version_that_was_the_catalogue_then(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    add(catalogue, "b")
    second, first = catalogue.versions()
    assert paths(catalogue, first.published_at) == ["a"]
    assert paths(catalogue, second.published_at + timedelta(days=1)) == ["a", "b"]
    with pytest.raises(CatalogueError, match=r"There is no version of 2020-.*; what is kept: 1 to 2"):
        catalogue.open(datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(CatalogueError, match="There is no version 9 of"):
        catalogue.open(9)


def test_what_is_not_published_never_was_and_leaves_no_file(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    files = data_files(catalogue, "recordings")
    with catalogue.change() as change:
        change.add("recordings", table("recordings", path="b", started_at=DAY))
    rows = {name: table("recordings", path="b", started_at=DAY) for name in ("recordings", "no such table")}

    def write() -> None:
        with catalogue.change() as change:
            for name, one in rows.items():
                change.add(name, one)

    with pytest.raises(KeyError):
        write()
    assert paths(catalogue) == ["a"]
    assert data_files(catalogue, "recordings") == files


def test_a_first_run_that_finds_nothing_makes_no_table(tmp_path: Path) -> None:
    with Catalogue(tmp_path).change() as change:
        assert not change.base.version
    assert [path.name for path in tmp_path.iterdir()] == ["_lock"]


def test_of_two_first_runs_the_second_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = Catalogue(tmp_path)
    with unlocked(monkeypatch), catalogue.change() as slow:
        slow.add("sessions", table("sessions", stream="slow", started_at=DAY))
        add(catalogue, "fast")
        with pytest.raises(CatalogueBusyError, match="Somebody else has changed"):
            slow.publish()
    assert paths(catalogue) == ["fast"]
    assert not catalogue.open().has("sessions")


def test_a_change_goes_on_after_it_was_published(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    with catalogue.change() as change:
        for name in "abc":
            change.add("recordings", table("recordings", path=name, started_at=DAY))
            assert change.publish().version == change.base.version
        change.add("recordings", table("recordings", path="lost", started_at=DAY))
    assert paths(catalogue) == ["a", "b", "c"]
    assert [paths(catalogue, number) for number in (1, 2)] == [["a"], ["a", "b"]]


def test_only_files_that_are_dropped_are_replaced(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "old")
    kept = data_files(catalogue, "recordings")
    with catalogue.change() as change:
        change.add("recordings", table("recordings", path="open", started_at=DAY), is_open=True)
        change.publish()
    with catalogue.change() as change:
        change.drop("recordings", [file for file in change.files("recordings") if file.is_open])
        change.add("recordings", table("recordings", path="new", started_at=DAY))
        change.publish()
    assert paths(catalogue) == ["new", "old"]
    assert {file.path for file in catalogue.open().files("recordings")} >= {
        str(path.relative_to(tmp_path / "recordings")) for path in kept
    }


def test_a_table_that_is_replaced_keeps_the_files_of_days_that_are_the_same(tmp_path: Path) -> None:
    def rows(*sizes: int) -> pa.Table:
        days = [date(2026, 1, number) for number, _ in enumerate(sizes, 1)]
        named = [
            table("viewers", stream="s", bytes=size, day=day, dropped_by_reason={"closed": 1})
            for day, size in zip(days, sizes, strict=True)
        ]
        return pa.concat_tables([*named, *named[:1]])

    catalogue = Catalogue(tmp_path)
    for sizes in ((1, 2, 3), (1, 5, 3), (1, 5), (1, 5)):
        with catalogue.change() as change:
            change.replace("viewers", rows(*sizes))
            change.publish()
        found = catalogue.open().arrow("viewers", ["bytes"])["bytes"].to_pylist()
        assert sorted(found) == sorted([1, *sizes])
    # Three of the first version, and the day that has changed.
    assert len(data_files(catalogue, "viewers")) == 4


def test_all_names_last_before_a_version_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The power may go at any moment: a file that was not written down would be missing from the version."""
    synced: set[Path] = set()
    real_sync, real_publish = os.fsync, Versions.publish
    root = tmp_path / "new"

    def sync(descriptor: int) -> None:
        synced.add(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        real_sync(descriptor)

    def publish(self: Versions, *arguments: Any) -> Any:
        (file,) = data_files(Catalogue(root), "recordings")
        log = root / "recordings" / "_delta_log"
        commits = {path for path in log.iterdir() if path.suffix == ".json"}
        assert len(commits) == 2
        assert {file, file.parent, root / "recordings", *commits, log, root, tmp_path} <= synced
        synced.clear()
        return real_publish(self, *arguments)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Versions, "publish", publish)
    add(Catalogue(root), "a")
    log = root / "_versions" / "_delta_log"
    assert {log, log / f"{1:020d}.json", *(root / "_versions").glob("*.parquet")} <= synced


def test_what_is_forgotten_is_not_read_and_not_kept(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    tables = ("seconds", "keyframes", "recordings")
    with catalogue.change() as change:
        for name in tables:
            change.add(name, table(name))
        change.publish()
    with catalogue.change() as change:
        change.forget(name for name in tables[:2])
        assert [change.base.has(name) for name in tables] == [False, False, True]
        change.publish()
    assert [catalogue.open().has(name) for name in tables] == [False, False, True]


# -- reading -------------------------------------------------------------------------------------------------


def test_days_and_streams_that_are_not_asked_for_are_not_read(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a", stream="one")
    add(catalogue, "b", stream="two", day=date(2026, 1, 2))
    snapshot = catalogue.open()
    (broken,) = tmp_path.glob("recordings/day=2026-01-01/*.parquet")
    broken.write_bytes(b"not Parquet")
    found = snapshot.arrow("recordings", ["path"], days=(date(2026, 1, 2), date(2026, 1, 3)))
    assert found["path"].to_pylist() == ["b"]
    (file,) = snapshot.files("recordings", ranges={"stream": ("two", "two")})
    assert (file.day, file.rows) == (date(2026, 1, 2), 1)
    assert not snapshot.files("recordings", ranges={"started_at": (DAY + timedelta(1), DAY + timedelta(2))})


def test_other_streams_of_a_day_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are sorted by stream, and lie in groups of which each says what is in it."""
    monkeypatch.setattr(part_files, "ROWS_TOGETHER", 100)
    rows = pa.Table.from_pylist(
        [
            {"app": "live", "stream": f"s{number % 20:02d}", "second": number, "wall": DAY, "day": DAY.date()}
            for number in range(2000)
        ],
        schema=TABLES["seconds"].arrow_schema(),
    )
    with Catalogue(tmp_path).change() as change:
        change.add("seconds", rows)
        snapshot = change.publish()
    wanted = (pc.field("app") == "live") & (pc.field("stream") == "s07")
    files = [f"{snapshot.folder('seconds')}/{file.path}" for file in snapshot.files("seconds")]
    groups = [
        group
        for fragment in ds.dataset(files, format="parquet").get_fragments()
        for lot in fragment.split_by_row_group(wanted)
        for group in lot.row_groups
    ]
    assert sum(group.num_rows for group in groups) <= 300
    found = snapshot.arrow("seconds", ["second"], wanted)["second"].to_pylist()
    assert sorted(found) == list(range(7, 2000, 20))


def test_a_name_of_any_length_is_found(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a", stream="é" * 1024)
    found = catalogue.open().files("recordings", ranges={"stream": ("é" * 1024, "é" * 1024)})
    assert len(found) == 1


def test_a_column_that_is_new_is_null_in_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of recordings that are gone cannot be made anew: they stay."""
    catalogue = Catalogue(tmp_path)
    add(catalogue, "gone")
    old = TABLES["recordings"]
    columns = (*old.columns[:-1], Column("mood", "string", "how it felt"), old.columns[-1])
    new = attrs.evolve(old, version=old.version + 1, columns=columns)
    monkeypatch.setitem(TABLES, "recordings", new)
    # It can be read at once, by this program, and is written to later.
    assert catalogue.open().arrow("recordings", ["path", "mood"]).to_pylist() == [
        {"path": "gone", "mood": None}
    ]
    add(catalogue, "new", mood="fine")
    rows = catalogue.open().arrow("recordings", ["path", "mood"]).sort_by("path").to_pylist()
    assert rows == [{"path": "gone", "mood": None}, {"path": "new", "mood": "fine"}]
    assert catalogue.open().schema_version("recordings") == new.version
    monkeypatch.setitem(TABLES, "recordings", old)
    with pytest.raises(CatalogueError, match="A newer version of this program wrote the table recordings"):
        catalogue.open()
    with pytest.raises(CatalogueError, match="A newer version"), catalogue.change():
        pytest.fail("an older program must not write")


def test_a_store_that_a_newer_program_arranges_otherwise_is_told(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    versions = DeltaFolder.open(catalogue.root / "_versions")
    assert versions is not None
    versions.add_columns(pa.schema([("shard", pa.string())]))
    with pytest.raises(CatalogueError, match="A newer version of this program wrote"):
        catalogue.open()


def test_a_table_with_deletion_vectors_is_refused(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    add(catalogue, "a")
    DeltaTable(tmp_path / "recordings").alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    with (
        pytest.raises(CatalogueError, match="Somebody has enabled deletion vectors on"),
        catalogue.change(),
    ):
        pytest.fail("rows that somebody has deleted would come back")


@pytest.mark.parametrize("name", ["a%41b", "a\\b"])
def test_a_folder_whose_name_would_be_misread_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CatalogueError, match="cannot have a catalogue"):
        Catalogue(tmp_path / name)


def test_a_folder_of_any_other_name_will_do(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "cat[1] {a,b} %4 *? é#12:00 day=2026-01-01")
    add(catalogue, "a")
    add(catalogue, "b")
    assert paths(catalogue) == ["a", "b"]
    assert paths(catalogue, 1) == ["a"]


def test_a_catalogue_stays_where_it_is_when_the_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java has a current folder of its own, so that a relative path would mean two places."""
    monkeypatch.chdir(tmp_path)
    catalogue = Catalogue("catalogue")
    monkeypatch.chdir("/")
    assert catalogue.root.local == tmp_path / "catalogue"


# -- several writers -----------------------------------------------------------------------------------------


@contextmanager
def unlocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on machines that do not see each other's locks."""
    with monkeypatch.context() as patch:
        patch.setattr(catalogues, "locked", lambda *_: nullcontext())
        yield
