"""Recordings in S3: the same commands, and the same rows as of the files on a disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.media import DAMAGES, age, make_recording

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.__main__ import main
from spark_analytics.catalogue import Catalogue
from spark_analytics.flv import sources
from tests.spark.cluster import PATIENCE
from tests.spark.s3_server import ObjectStore, serving
from tests.spark.test_flv_source import read
from tests.spark.test_killed_index import ENGINES
from tests.spark.world import index

#: What may differ: where a file is, when it was changed and read.
_OWN = {"file_id", "path", "mtime_ns", "run", "indexed_at"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A film, a damaged one, and one whose name must be written in another way in an address."""
    (tmp_path / "rec" / "below").mkdir(parents=True)
    film = make_recording(tmp_path / "rec" / "live_film_20260101_120000.flv", "h264_b_frames", 6)
    others = {
        "live_bad_20260101_120000.flv": DAMAGES["garbage"](film.read_bytes()),
        "below/live_caf%C3%A9_20260101_120000.flv": film.read_bytes(),
        "below/notes.txt": b"no recording",
    }
    for name, data in others.items():
        (tmp_path / "rec" / name).write_bytes(data)
    for path in (tmp_path / "rec").rglob("*.flv"):
        age(path)
    return tmp_path / "rec"


@pytest.fixture
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """The same files as objects."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    with serving({f"rec/{path.relative_to(folder)}": path.read_bytes() for path in files}) as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        yield store


def index_far_away(address: str, catalogue: Path, options: tuple[str, ...]) -> str:
    """A process of its own: those that read for Spark have the environment that it was started with."""
    command = [sys.executable, "-m", "spark_analytics", "index", address, "--out", str(catalogue)]
    command += options
    done = subprocess.run(
        command, env=os.environ, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_of(catalogue: Path, table: str) -> list[dict[str, Any]]:
    """What does not depend on where the recordings are."""
    rows = Catalogue(catalogue).open().arrow(table).to_pylist()
    bare = [{name: value for name, value in row.items() if name not in _OWN} for row in rows]
    return sorted(bare, key=lambda row: json.dumps(row, default=str))


@ENGINES
def test_objects_are_indexed_asked_for_and_cut_like_files(
    folder: Path,
    store: ObjectStore,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    index(folder, near)
    assert "3 recordings read" in index_far_away("s3://bucket/rec", far, options)
    for table in ("recordings", "keyframes", "seconds", "incidents"):
        assert rows_of(far, table) == rows_of(near, table)
        assert rows_of(far, table)
    # A rerun looks at the listing alone.
    store.asked.clear()
    assert main(["index", "s3://bucket/rec/", "--out", str(far)]) == 0
    assert "0 recordings read" in capsys.readouterr().out
    assert store.asked == []
    clips = [tmp_path / "near.flv", tmp_path / "far.flv"]
    for catalogue, clip in zip((near, far), clips, strict=True):
        question = ["find", "live/film", "--at", "2026-01-01T12:00:03", "--seconds", "2", "--cut", str(clip)]
        assert main([*question, "--catalogue", str(catalogue)]) == 0
    assert "s3://bucket/rec/live_film_20260101_120000.flv" in capsys.readouterr().out
    assert clips[0].read_bytes() == clips[1].read_bytes()


def test_tags_of_objects_are_read_in_few_requests(
    folder: Path, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`s3a` is what Hadoop calls it."""
    block = 1 << 16
    monkeypatch.setattr(sources, "REMOTE_BLOCK", block)
    name = "live_film_20260101_120000.flv"
    far = read(f"s3a://bucket/rec/{name}")
    near = read(folder / name)
    assert {row.pop("path") for row in far} == {f"s3a://bucket/rec/{name}"}
    assert far == [{field: value for field, value in row.items() if field != "path"} for row in near]
    size = len(store.objects[f"rec/{name}"])
    assert len(far) > 100
    assert Counter(method for method, _ in store.asked)["GET"] <= size // block + 3
