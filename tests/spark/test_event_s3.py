"""Event logs on S3 are read as those on a disk are."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.catalogue import Catalogue
from spark_analytics.errors import CatalogueError
from spark_analytics.event_logs.update import EventSummary, index_events
from spark_analytics.recordings.discover import find_again
from tests.spark.event_archive import DERIVED, LATER, Archive
from tests.spark.event_world import story
from tests.spark.s3_server import ObjectStore, serving


class FarArchive(Archive):
    """Logs that are objects."""

    places: tuple[str, ...] = ("s3://bucket/logs",)

    def read(self) -> EventSummary:
        with Catalogue(self.root).change() as change:
            summary = index_events(self._open_spark, change, self.places, LATER)
            if summary.changed:
                change.publish()
        return summary


def objects_of(folder: Path) -> dict[str, bytes]:
    return {f"logs/{path.name}": path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def near(tmp_path: Path) -> Archive:
    """The story in two files on a disk, one of them compressed."""
    archive = Archive(tmp_path / "near")
    server = story()
    cut = server.marks["YouTube is out"]
    server.write(archive.logs, 0, cut, compress=True)
    server.write(archive.logs, cut)
    archive.index()
    return archive


def use(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)


def test_logs_on_s3_give_the_rows_of_those_on_a_disk(
    near: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = FarArchive(tmp_path / "far")
    server = story()
    objects = {**objects_of(near.logs), "logs/notes.txt": b"no log"}
    with serving(objects) as store:
        use(store, monkeypatch)
        assert far.read() == EventSummary(2, 2, len(server.lines), 0, 0, True)
        far.assert_same(near, DERIVED)
        paths = [path for (path,) in far.values("event_files", "path")]
        assert all(path.startswith("s3://bucket/logs/events_") for path in paths)
        store.asked.clear()
        assert not far.read().changed
        assert store.asked == [], "a log that is as it was is not opened again"


def test_log_on_s3_that_has_grown_is_read_from_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, far = Archive(tmp_path / "whole"), FarArchive(tmp_path / "far")
    server = story()
    name = server.write(whole.logs).name
    whole.index()
    cut = server.marks["YouTube is back"]
    with serving({f"logs/{name}": server.text(0, cut).encode() + b'{"torn'}) as store:
        use(store, monkeypatch)
        assert far.read().events == cut
        store.objects = {f"logs/{name}.gz": gzip.compress(server.text().encode())}
        assert far.read().events == len(server.lines) - cut
        far.assert_same(whole, DERIVED)
        store.objects = {"logs/notes.txt": b"no log"}
        far.read()
        assert [gone for (gone,) in far.values("event_files", "vanished_at")] == [LATER]


def test_pattern_and_single_object(near: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = FarArchive(tmp_path / "far")
    (compressed,) = near.logs.glob("*.gz")
    with serving(objects_of(near.logs)) as store:
        use(store, monkeypatch)
        far.places = ("s3://bucket/logs/*.gz", f"s3://bucket/logs/{compressed.name}")
        assert far.read().files == 1
        far.places = ("s3://bucket/nowhere",)
        with pytest.raises(CatalogueError, match="There is no file or folder"):
            far.read()


def test_recordings_are_found_again_by_listing_their_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask for each of thousands of files takes a request each."""
    names = [f"rec/{folder}/live_{number}.flv" for folder in "ab" for number in range(5)]
    uris = [f"s3://bucket/{name}" for name in names]
    with serving(dict.fromkeys([*names, "rec/a/below/live_9.flv", "rec/other/live_1.flv"], b"FLV")) as store:
        use(store, monkeypatch)
        found = find_again([*uris, "s3://bucket/rec/a/gone.flv", "s3://bucket/gone/live_1.flv"], pytest.fail)
        assert sorted(found) == sorted(uris)
        assert [file.size for file in found.values()] == [3] * 10
        assert store.asked == []
