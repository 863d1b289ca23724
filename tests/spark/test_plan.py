"""Which files are read, and who reads which part of them."""

from __future__ import annotations

import glob
import os
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.errors import CatalogueError, NothingThereError
from spark_analytics.flv import sources
from spark_analytics.paths import covers, matches
from spark_analytics.recordings import discover as files_module
from spark_analytics.recordings.discover import (
    FileLocation,
    FoundFile,
    Listing,
    check_places,
    find_recordings,
    place_of,
)
from spark_analytics.recordings.plan import MIB, cut, is_settled, make_plan, make_tasks, tells_news
from spark_analytics.recordings.rules import INDEXER_VERSION

NOW = 1_800_000_000.0


# -- looking for files ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.flv", "b.flv", "below/c.flv", "below/.hidden.flv", ".trash/d.flv", "e.mp4"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"12345")
    return tmp_path


def found(*names: object) -> list[str]:
    return [Path(path).name for path in find_recordings(map(str, names)).files]


def test_recordings_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(folder) == ["a.flv", "b.flv", "c.flv"]
    assert found(folder / "below") == ["c.flv"]
    assert found(folder / "e.mp4") == ["e.mp4"], "what is named may be called anything"
    assert found(folder / "*.flv") == ["a.flv", "b.flv"]
    assert found(folder / "**" / "*.flv") == ["a.flv", "b.flv", "c.flv"]
    assert found(folder / "b*") == ["b.flv", "c.flv"], "a pattern may match folders"
    assert found(folder, folder / "a.flv") == ["a.flv", "b.flv", "c.flv"], "each once"
    assert found(f"file://{folder}") == ["a.flv", "b.flv", "c.flv"]
    monkeypatch.chdir(folder)
    (file,) = find_recordings(["a.flv"]).files.values()
    assert file == FoundFile(str(folder / "a.flv"), 5, (folder / "a.flv").stat().st_mtime_ns)
    with pytest.raises(CatalogueError, match="There is no file or folder nowhere"):
        find_recordings(["nowhere"])
    # A disk that is not mounted must not look like one that was emptied, whichever way it is named.
    with pytest.raises(CatalogueError, match=r"There is no folder .*/disk, where disk/\*.flv is to be"):
        find_recordings(["disk/*.flv"])
    with pytest.raises(CatalogueError, match="There is no folder"):
        check_places(["disk/*/x.flv"])
    check_places([str(folder), "a*.flv", "s3://elsewhere/x"])


def test_links_to_folders_lead_to_recordings(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What was moved to another disk, with a link in its place; but not around in a circle for ever."""
    disk = tmp_path_factory.mktemp("disk")
    (disk / "d.flv").write_bytes(b"12345")
    (folder / "moved").symlink_to(disk)
    (folder / "nowhere").symlink_to(folder / "no such folder")
    assert found(folder) == ["a.flv", "b.flv", "c.flv", "d.flv"]
    assert sorted(found(folder)) == sorted(found(folder / "**" / "*.flv"))
    (disk / "back").symlink_to(folder)
    (disk / "itself").symlink_to(disk)
    assert found(folder) == ["a.flv", "b.flv", "c.flv", "d.flv"]
    assert sorted(found(disk)) == ["a.flv", "b.flv", "c.flv", "d.flv"]


PATTERNS = [
    "*.flv",
    "*",
    "?.flv",
    "[ab].flv",
    "[!a].flv",
    "**/*.flv",
    "**",
    "b*/*.flv",
    "*/*",
    "below",
    "[z-a]",
    "a[.]flv",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_means_what_is_found_by_it(folder: Path, pattern: str) -> None:
    """Otherwise recordings would be marked as vanished that nobody looked for."""
    everything = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    hidden = {name for name in everything if "/." in f"/{name}"}
    by_glob = {name.rstrip("/") for name in glob.glob(pattern, root_dir=folder, recursive=True)} - {""}
    assert {name for name in everything - hidden if matches(name, pattern)} == by_glob
    below = {name for name in everything if any(name.startswith(f"{one}/") for one in by_glob)}
    assert {name for name in everything if covers(name, pattern)} - hidden == (by_glob | below) - hidden


def test_what_is_there_has_not_vanished(folder: Path) -> None:
    """Not found is not gone: a file may be called as recordings are not, or lie deeper than was looked for."""
    known = {
        str(folder / name): row(str(folder / name)) for name in ("e.mp4", "below/c.flv", "below/gone.flv")
    }
    for name in (folder, folder / "*", folder / "b*"):
        plan = make_plan(find_recordings([str(name)]), known, NOW)
        assert [one["path"] for one in plan.vanished] == [str(folder / "below/gone.flv")]
    assert not make_plan(find_recordings([str(folder / "*.flv")]), known, NOW).vanished


def test_a_place_that_is_gone_for_good(folder: Path) -> None:
    known = {path: row(path) for path in ("/r/old/a.flv", "/r/old2/b.flv", "s3://x/old/a.flv")}
    for name, vanished in (("/r/old/", "/r/old/a.flv"), ("s3://x/old/", "s3://x/old/a.flv")):
        plan = make_plan(Listing({}, (place_of(name),)), known, NOW)
        assert [one["path"] for one in plan.vanished] == [vanished]


def test_a_file_that_still_cannot_be_read_is_no_news() -> None:
    before = row("/r/a", status="unreadable", error="Permission denied")
    plan = make_plan(Listing({"/r/a": FoundFile("/r/a", 5, 7)}, (FileLocation("/r"),)), {"/r/a": before}, NOW)
    assert not tells_news(plan, [before], {"/r/a": before})
    assert tells_news(plan, [before], {})
    for change in ({"status": "ok"}, {"error": "Input/output error"}, {"size": 6}):
        assert tells_news(plan, [{**before, **change}], {"/r/a": before})


def test_a_name_that_is_no_text_is_left_out(folder: Path) -> None:
    (folder / os.fsdecode(b"bad\xff.flv")).write_bytes(b"x")
    warnings: list[str] = []
    assert len(find_recordings([str(folder)], warnings.append).files) == 3
    assert "is not UTF-8" in warnings[0]


def test_what_is_no_file_is_left_out(folder: Path) -> None:
    """To open a pipe would wait for ever."""
    os.mkfifo(folder / "pipe.flv")
    (folder / "folder.flv").mkdir()
    (folder / "dangling.flv").symlink_to(folder / "nowhere")
    warnings: list[str] = []
    assert len(find_recordings([str(folder)], warnings.append).files) == 3
    assert warnings == [
        f"{folder / 'dangling.flv'} is left out: the link leads nowhere",
        f"{folder / 'pipe.flv'} is left out: it is no file",
    ]
    assert found(folder / "*.flv", folder / "below") == ["a.flv", "b.flv", "c.flv"]
    assert found(folder / "pipe.flv") == []


def test_other_file_systems(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of S3 or HDFS, through pyarrow."""
    monkeypatch.setattr(files_module, "is_uri", lambda _: True)
    monkeypatch.setattr(sources, "is_uri", lambda _: True)
    base = f"file://{folder}"
    assert sorted(found(base)) == ["a.flv", "b.flv", "c.flv"]
    assert found(f"{base}/a*.flv") == ["a.flv"]
    assert sorted(found(f"{base}/*.flv")) == ["a.flv", "b.flv"], "a star stays in its folder"
    assert sorted(found(f"{base}/b*")) == ["b.flv", "c.flv"]
    assert found(f"{base}/a.flv") == ["a.flv"]
    (file,) = find_recordings([f"{base}/below/c.flv"]).files.values()
    assert (file.path, file.size) == (f"{base}/below/c.flv", 5)
    assert file.mtime_ns > 0
    source = sources.open_source(file.path, 5)
    assert (source.read(1, 3), source.size) == (b"234", 5)
    source.close()
    odd = folder / "live_caf%C3%A9 1_20260101_120000.flv"
    odd.write_bytes(b"12345")
    (file,) = find_recordings([f"{base}/live_*.flv"]).files.values()
    assert (file.name, sources.open_source(file.path, 5).read(0, 5)) == (odd.name, b"12345")
    with pytest.raises(NothingThereError, match="There is no file or folder"):
        find_recordings([f"{base}/nowhere"])
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(
        CatalogueError, match=r"cannot be looked at: .*nosuch://, and fsspec is not installed"
    ):
        find_recordings(["nosuch://scheme/x"])
    # Nor is one that does not answer gone: after a change of the schema its recordings would be forgotten.
    with monkeypatch.context() as patch:
        patch.setattr(files_module, "file_system_of", no_answer)
        with pytest.raises(CatalogueError, match="timed out") as told:
            find_recordings([f"{base}/a.flv"])
    assert not isinstance(told.value, NothingThereError)


def no_answer(_: str) -> NoReturn:
    raise OSError("the connection timed out")


@pytest.mark.parametrize(
    "address", ["s3://KEY:hush@bucket/rec", "s3://bucket/rec?secret_key=hush", "s3://b/*?region=hush"]
)
def test_secrets_do_not_get_into_a_catalogue(address: str) -> None:
    with pytest.raises(CatalogueError, match="in the environment") as refused:
        find_recordings([address])
    assert "hush" not in str(refused.value)


class LocalByFsspec:
    """What of fsspec pyarrow uses, for files of this machine."""

    protocol = "nosuch"

    def info(self, path: str) -> dict[str, Any]:
        if not os.path.exists(path):
            raise FileNotFoundError(path)
        kind = "directory" if os.path.isdir(path) else "file"
        return {"name": path, "size": os.path.getsize(path), "type": kind, "mtime": os.path.getmtime(path)}

    def isdir(self, path: str) -> bool:
        return os.path.isdir(path)

    def find(self, path: str, **_: object) -> dict[str, dict[str, Any]]:
        names = [os.path.join(parent, name) for parent, _, names in os.walk(path) for name in names]
        return {name: self.info(name) for name in names}

    def isfile(self, path: str) -> bool:
        return os.path.isfile(path)

    def open(self, path: str, mode: str) -> Any:
        return open(path, mode)


def test_file_systems_that_only_fsspec_knows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = SimpleNamespace(url_to_fs=lambda uri: (LocalByFsspec(), uri.removeprefix("nosuch://")))
    monkeypatch.setitem(sys.modules, "fsspec.core", fsspec)
    assert sorted(found(f"nosuch://{folder}")) == ["a.flv", "b.flv", "c.flv"]
    source = sources.open_source(f"nosuch://{folder}/a.flv", 5)
    assert source.read(1, 3) == b"234"
    source.close()


def test_the_names_of_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def from_uri(uri: str) -> tuple[None, str]:
        asked.append(uri)
        return None, "x"

    monkeypatch.setattr("pyarrow.fs.FileSystem", SimpleNamespace(from_uri=from_uri))
    for uri in ("s3a://bucket/x", "hdfs://host:8020/x"):
        sources.file_system_of(uri)
    assert asked == ["s3://bucket/x", "hdfs://host:8020/x"]


# -- what must be read ---------------------------------------------------------------------------------------


def row(path: str, **values: Any) -> dict[str, Any]:
    return {
        "path": path,
        "size": 5,
        "mtime_ns": 7,
        "status": "ok",
        "indexer_version": INDEXER_VERSION,
        "vanished_at": None,
        "run": "r",
        **values,
    }


@pytest.mark.parametrize(
    ("values", "is_read"),
    [
        ({}, False),
        ({"size": 6}, True),
        ({"mtime_ns": 8}, True),
        ({"indexer_version": 0}, True),
        ({"status": "unreadable"}, True),
        ({"status": "damaged"}, False),
        ({"status": "growing"}, True),
    ],
)
def test_what_changed_is_read(values: dict[str, Any], is_read: bool) -> None:
    listing = Listing({"/r/a": FoundFile("/r/a", 5, 7)}, (FileLocation("/r"),))
    plan = make_plan(listing, {"/r/a": row("/r/a", **values)}, NOW)
    assert (len(plan.read), plan.kept) == (int(is_read), int(not is_read))


def test_a_growing_file_that_nobody_has_touched_yet_is_left_alone() -> None:
    mtime = int((NOW - 10) * 1e9)
    listing = Listing({"/r/a": FoundFile("/r/a", 5, mtime)}, (FileLocation("/r"),))
    assert make_plan(listing, {"/r/a": row("/r/a", status="growing", mtime_ns=mtime)}, NOW).is_empty


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [(-61.0, True), (-59.0, False), (0.0, False), (80_000.0, False), (90_000.0, True), (4e7, True)],
)
def test_a_time_that_is_far_ahead_does_not_make_a_file_grow(ahead: float, expected: bool) -> None:
    """The clock of a disk may be that of another zone; a year is a wrong time."""
    assert is_settled(FoundFile("/r/a", 5, int((NOW + ahead) * 1e9)), NOW) is expected


def test_what_vanished_and_what_was_not_looked_for() -> None:
    known = {path: row(path) for path in ("/r/a", "/r/b", "/other/c", "/r2/d", "/r/x/live_1.flv")}
    known["/r/gone"] = row("/r/gone", vanished_at=datetime.now(UTC))
    plan = make_plan(Listing({"/r/a": FoundFile("/r/a", 5, 7)}, (FileLocation("/r"),)), known, NOW)
    assert sorted(one["path"] for one in plan.vanished) == ["/r/b", "/r/x/live_1.flv"]
    pattern = make_plan(Listing({}, (FileLocation("/r/x/*.flv", "/r/x/*.flv"),)), known, NOW)
    assert [one["path"] for one in pattern.vanished] == ["/r/x/live_1.flv"]
    back = make_plan(Listing({"/r/gone": FoundFile("/r/gone", 5, 7)}, (FileLocation("/r/gone"),)), known, NOW)
    assert (len(back.returned), back.read, back.is_empty) == (1, (), False)


@given(st.lists(st.integers(0, 5000 * MIB), max_size=30), st.integers(1, 16))
def test_every_byte_is_read_once(sizes: list[int], parallelism: int) -> None:
    files = tuple(FoundFile(f"/r/{number}", size, 0) for number, size in enumerate(sizes))
    tasks = make_tasks(files, parallelism)
    assert all(tasks)
    by_file: dict[str, list[tuple[int, int, int]]] = {}
    for split in (split for task in tasks for split in task):
        assert files[split.file_number] is split.file
        by_file.setdefault(split.file.path, []).append((split.number, split.lo, split.hi))
        assert split.is_whole_file == (split.hi - split.lo == split.file.size)
    for file in files:
        parts = sorted(by_file[file.path])
        assert [number for number, _, _ in parts] == list(range(len(parts)))
        assert parts[0][1] == 0
        assert parts[-1][2] == file.size
        assert all(before[2] == after[1] for before, after in pairwise(parts))


def test_one_large_file_keeps_all_cores_busy() -> None:
    assert len(make_tasks((FoundFile("/r/a", 3000 * MIB, 0),), 4)) == 8
    assert len(cut(FoundFile("/r/a", 10, 0), 0, 64 * MIB)) == 1
