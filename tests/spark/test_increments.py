"""Any order of new, grown, changed, vanished and moved files gives the tables that one run over the end state gives.

Nothing is read by Spark here: files hold what a reader would have found in them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("deltalake", reason="The store is not installed: pip install '.[catalogue]'")

import pyarrow as pa

from spark_analytics.__main__ import main
from spark_analytics.catalogue import Catalogue
from spark_analytics.recordings import plan
from spark_analytics.recordings.discover import FoundFile, file_id_of
from spark_analytics.recordings.results import Reading
from spark_analytics.recordings.rules import INDEXER_VERSION
from spark_analytics.recordings.sessions import sessions_table
from spark_analytics.store.schema import RECORDINGS
from spark_analytics.store.tables import TABLES
from spark_analytics.store.versions import Versions

Row = dict[str, Any]

#: Two minutes before midnight: rows of one recording belong to several days.
BEGIN = datetime(2026, 1, 1, 23, 58, tzinfo=UTC)

#: When a run wrote a row, and which one, says nothing of what is in it.
_OF_RUNS = ("run", "indexed_at", "vanished_at")


@attrs.frozen
class Content:
    """What is in a recording."""

    stream: str
    start: int
    seconds: int
    status: str

    def write(self, path: Path, mtime: int) -> None:
        """The file of it."""
        path.write_text(json.dumps(attrs.asdict(self)))
        os.utime(path, (mtime, mtime))

    def rows(self, path: str) -> dict[str, list[Row]]:
        """The rows of the tables."""
        begin = BEGIN + timedelta(seconds=self.start)
        end = begin + timedelta(seconds=self.seconds)
        names = {"file_id": file_id_of(path), "app": "live", "stream": self.stream}
        found = os.stat(path)
        recording = {
            **names,
            "path": path,
            "started_at": begin,
            "ended_at": end,
            "duration_ms": self.seconds * 1000,
            "size": found.st_size,
            "mtime_ns": found.st_mtime_ns,
            "status": self.status,
            "error": "a bad disk" if self.status == "unreadable" else None,
            "lost_bytes": 0,
            "indexer_version": INDEXER_VERSION,
            "day": begin.date(),
        }
        walls = [begin + timedelta(seconds=number) for number in range(self.seconds)]
        if self.status == "unreadable":
            walls = []
        seconds = [
            {**names, "second": number, "wall": wall, "day": wall.date()} for number, wall in enumerate(walls)
        ]
        keyframes = [
            {**names, "path": path, "byte_offset": number, "wall": wall, "day": wall.date()}
            for number, wall in enumerate(walls[::2])
        ]
        incidents = keyframes[:1] if self.status == "truncated" else []
        incidents = [{**row, "kind": "torn_tail"} for row in incidents]
        return {
            "recordings": [recording],
            "seconds": seconds,
            "keyframes": keyframes,
            "incidents": incidents,
        }


def arrow(table: str, rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=TABLES[table].arrow_schema())


class StandIn:
    """What Spark would have found in some files."""

    is_here = True

    def __init__(self, files: Sequence[FoundFile], reading: Reading) -> None:
        self._found: dict[str, list[Row]] = {name: [] for name in TABLES}
        for file in files:
            content = Content(**json.loads(Path(file.path).read_text()))
            for name, rows in content.rows(file.path).items():
                self._found[name] += rows
        written = {"run": reading.run, "indexed_at": reading.now}
        self.recordings = arrow("recordings", [{**row, **written} for row in self._found["recordings"]])

    def rows(self, table: str) -> pa.Table:
        """The rows of a table."""
        return arrow(table, self._found[table])


def stand_in_scan(files: Sequence[FoundFile], _: object, reading: Reading, __: int) -> StandIn:
    return StandIn(files, reading)


class DiedError(Exception):
    """A run dies where it would publish."""


class World:
    """A folder of recordings, its catalogue, and what the catalogue should have."""

    def __init__(self, root: Path) -> None:
        self.folder, self.out = root / "rec", root / "catalogue"
        self.folder.mkdir(parents=True)
        self.clock = 1_000_000
        #: What the last run has seen of each path, there or not.
        self.seen: dict[str, dict[str, list[Row]]] = {}
        self.there: set[str] = set()

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.flv"

    def write(self, name: str, content: Content) -> None:
        self.clock += 1
        content.write(self.path(name), self.clock)

    def delete(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

    def move(self, name: str, to: str) -> None:
        if self.path(name).exists():
            self.path(name).rename(self.path(to))

    def outdate(self, table: str) -> None:
        """As if an older program had written a table."""
        if Catalogue(self.out).snapshot().version:
            with Catalogue(self.out).change() as change:
                change.take(table, [], 0)
                change.publish()

    def index(self) -> None:
        assert main(["index", str(self.folder), "--out", str(self.out)]) == 0
        self.there = {str(path) for path in self.folder.iterdir()}
        for path in self.there:
            self.seen[path] = Content(**json.loads(Path(path).read_text())).rows(path)

    def die(self, after: int) -> None:
        """A run that dies when it would publish for the next time after so many times."""
        left = [after]
        publish = Versions.publish

        def publish_or_die(self: Versions, *arguments: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise DiedError
            return publish(self, *arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Versions, "publish", publish_or_die)
            try:
                self.index()
            except DiedError:
                return

    def check(self) -> None:
        snapshot = Catalogue(self.out).snapshot()
        for table in ("recordings", "seconds", "keyframes", "incidents"):
            expected = arrow(table, [row for of_file in self.seen.values() for row in of_file[table]])
            assert comparable(snapshot.arrow(table)) == comparable(expected), table
        recordings = snapshot.arrow("recordings")
        gone = {row["path"] for row in recordings.to_pylist() if row["vanished_at"] is not None}
        assert gone == self.seen.keys() - self.there
        assert comparable(snapshot.arrow("sessions")) == comparable(sessions_table(recordings))


def comparable(rows: pa.Table) -> pa.Table:
    """What the rows say, in an order that is always the same."""
    bare = rows.drop_columns([name for name in _OF_RUNS if name in rows.column_names])
    order = [
        name
        for name in ("file_id", "app", "stream", "started_at", "wall", "kind")
        if name in bare.column_names
    ]
    return bare.sort_by([(name, "ascending") for name in order]).combine_chunks()


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_analytics.recordings.job.scan_here", stand_in_scan)
    monkeypatch.setattr("spark_analytics.cli.output.Progress.say", lambda *_: None)
    # Several publications in a run, however few files there are.
    monkeypatch.setattr(plan, "_BATCH_FILES", 2)


names = st.sampled_from("abcde")
contents = st.builds(
    Content,
    st.sampled_from("xy"),
    st.integers(0, 40).map(lambda number: number * 4),
    st.integers(1, 12),
    st.sampled_from(["ok", "ok", "growing", "truncated", "unreadable"]),
)
steps = st.one_of(
    st.tuples(st.just("write"), names, contents),
    st.tuples(st.just("write"), names, contents),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("move"), names, names),
    st.tuples(st.just("outdate"), st.sampled_from(["recordings", "seconds", "sessions"])),
    st.tuples(st.just("die"), st.integers(0, 2)),
    st.tuples(st.just("index")),
)


def run_increments(history: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as folder:
        world = World(Path(folder))
        for name, *arguments in history:
            getattr(world, name)(*arguments)
        world.index()
        world.check()


@settings(max_examples=12, deadline=None)
@given(st.lists(steps, max_size=8))
def test_any_order_of_changes_gives_what_one_run_gives(history: list[tuple[Any, ...]]) -> None:
    run_increments(history)


@pytest.mark.full
@settings(max_examples=400, deadline=None)
@given(st.lists(steps, max_size=14))
def test_any_long_order_of_changes_gives_what_one_run_gives(history: list[tuple[Any, ...]]) -> None:
    run_increments(history)


def size_of(folder: Path) -> dict[Path, int]:
    return {
        path: path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != "_lock"
    }


def written_in(world: World, before: dict[Path, int]) -> int:
    """The bytes that are new, those of the logs as well."""
    return sum(size for path, size in size_of(world.out).items() if before.get(path) != size)


def test_a_night_costs_what_is_new_whatever_is_there_and_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five nights of twelve recordings, one of which was being written each time, and is finished by the next night."""
    monkeypatch.setattr(plan, "_BATCH_FILES", 100)
    world = World(tmp_path)
    costs: list[int] = []
    for night in range(5):
        begin = night * 86_400
        for number in range(12):
            status = "growing" if number == 11 else "ok"
            world.write(f"n{night}_{number}", Content(f"s{number}", begin + number, 300, status))
        if night:
            world.write(f"n{night - 1}_11", Content("s11", begin - 86_400 + 11, 450, "ok"))
        before = size_of(world.out)
        world.index()
        costs.append(written_in(world, before))
    world.check()
    fresh = World(tmp_path / "fresh")
    # What the news of one night cost in a catalogue without anything else: twelve recordings, and one that has grown.
    for number in range(13):
        world_status = "growing" if number == 11 else "ok"
        fresh.write(f"n_{number}", Content(f"s{number}", number, 300, world_status))
    fresh.index()
    alone = written_in(fresh, {})
    assert max(costs[1:]) <= 1.5 * alone, (costs, alone)


def test_a_recording_that_goes_on_and_on_costs_what_is_new_of_it(tmp_path: Path) -> None:
    """An hour each time: what was written of the hours before stays, and so it does when the recording ends."""
    world = World(tmp_path)
    costs: list[int] = []
    for hour in range(1, 7):
        world.write("long", Content("s", 0, hour * 3600, "growing" if hour < 6 else "ok"))
        before = size_of(world.out)
        world.index()
        costs.append(written_in(world, before))
    world.check()
    assert max(costs[1:]) <= 1.5 * costs[0], costs


def test_marking_what_is_gone_writes_the_rows_of_its_day_alone(tmp_path: Path) -> None:
    world = World(tmp_path)
    for night in range(4):
        world.write(f"n{night}", Content("s", night * 86_400, 60, "ok"))
        world.index()
    before = set(size_of(world.out))
    world.delete("n0")
    world.index()
    new = {path.relative_to(world.out) for path in set(size_of(world.out)) - before}
    assert {str(path.parent) for path in new if path.suffix == ".parquet"} == {
        "_versions",
        "recordings/day=2026-01-01",
        "sessions/day=2026-01-01",
    }
    world.check()


def test_a_run_that_dies_late_has_lost_one_batch(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number, name in enumerate("abcdef"):
        world.write(name, Content(name, number, 5, "ok"))
    world.die(after=2)
    known = Catalogue(world.out).open().arrow("recordings", ["path"])["path"].to_pylist()
    assert sorted(known) == [str(world.path(name)) for name in "abcd"]
    world.index()
    world.check()
    assert RECORDINGS.version == Catalogue(world.out).open().schema_version("recordings")
