"""A catalogue of the first form is told from its look, and indexed anew without losing a row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="The store is not installed: pip install '.[catalogue]'")

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_analytics.__main__ import main
from tests.spark.test_increments import Content, World, arrow
from tests.spark.test_increments import _stand_ins as _stand_ins


def write_first_form(world: World) -> None:
    """What the last run has seen, as programs wrote it before: folders of runs, and a version that names them."""
    run = "run=20260101T000000-00000000"
    for name in ("recordings", "seconds", "keyframes", "incidents"):
        rows = arrow(name, [row for of_file in world.seen.values() for row in of_file[name]])
        for day in set(rows["day"].to_pylist()):
            folder = world.out / name / run / f"day={day}"
            folder.mkdir(parents=True)
            of_day = rows.filter(pc.equal(rows["day"], pa.scalar(day))).drop_columns(["day"])
            pq.write_table(of_day, folder / "part-0.parquet")
    tables = {
        name: {"version": 1, "runs": [run.removeprefix("run=")]}
        for name in ("recordings", "seconds", "keyframes", "incidents")
    }
    commits = world.out / "_commits"
    commits.mkdir()
    version = {"format": 1, "version": 7, "created_at": 1.0, "tables": tables, "notes": {}}
    (commits / "00000007.json").write_text(json.dumps(version))


def world_of_first_form(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.write("there", Content("x", 0, 200, "ok"))
    world.write("gone", Content("x", 203, 60, "truncated"))
    for name in ("there", "gone"):
        path = str(world.path(name))
        world.seen[path] = Content(**json.loads(Path(path).read_text())).rows(path)
    write_first_form(world)
    world.delete("gone")
    return world


def test_a_catalogue_of_the_first_form_is_indexed_anew_and_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = world_of_first_form(tmp_path)
    assert main(["streams", "--catalogue", str(world.out)]) == 1
    assert "is a catalogue of the first form" in capsys.readouterr().err
    world.index()
    said = capsys.readouterr().out
    assert said.count("was a catalogue of the first form") == 1
    assert "1 recordings read" in said
    world.check()
    assert not (world.out / "_commits").exists()
    assert not list(world.out.glob("*/run=*"))
    world.index()
    said = capsys.readouterr().out
    assert "first form" not in said
    assert "nothing is new" in said


@pytest.mark.parametrize("after", [0, 1])
def test_a_run_that_dies_with_the_first_form_is_repeated(tmp_path: Path, after: int) -> None:
    world = world_of_first_form(tmp_path)
    world.die(after)
    world.index()
    world.check()


def test_a_first_form_that_is_damaged_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = world_of_first_form(tmp_path)
    (world.out / "_commits" / "00000007.json").write_text("{")
    assert main(["index", str(world.folder), "--out", str(world.out)]) == 1
    assert "cannot be taken over" in capsys.readouterr().err
    assert (world.out / "_commits").exists()
