"""What a catalogue costs as it grows: `python -m tests.spark.benchmark_store [RECORDINGS ...]`.

Recordings and their rows are made up, a thousand a day, so nothing is read but the catalogue. Each size is measured in a
process of its own: the time to open the catalogue, to plan a night of a thousand new recordings, to commit it with all
its rows, and to answer a question about one stream and day; and the memory of the process at its highest.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from spark_analytics.catalogue import Catalogue
from spark_analytics.engine.duck import DuckEngine
from spark_analytics.recordings.discover import FoundFile, Listing
from spark_analytics.recordings.job import Again, put_rows, update_recordings
from spark_analytics.recordings.plan import Known, Plan, make_plan
from spark_analytics.recordings.rules import INDEXER_VERSION
from spark_analytics.store.change import Change
from spark_analytics.store.part_files import path_of
from spark_analytics.store.tables import TABLES

SIZES = (10_000, 100_000, 1_000_000)

#: A day: recordings of a minute of fifty streams, one after the other.
A_DAY = 1000
_STREAMS = 50
_SECONDS = 60

_FIRST = datetime(2024, 1, 1, tzinfo=UTC)
_DETAILS = {"seconds": _SECONDS, "keyframes": _SECONDS // 2, "incidents": 1}


def recording_path(number: int) -> str:
    return f"/recordings/live_stream-{number % _STREAMS:02d}_{number:09d}.flv"


def started(number: int) -> datetime:
    day, of_day = divmod(number, A_DAY)
    return _FIRST + timedelta(days=day, seconds=of_day // _STREAMS * 3600)


def _table(name: str, columns: dict[str, object], count: int) -> pa.Table:
    schema = TABLES[name].arrow_schema()
    return pa.table(
        [
            pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in schema
        ],
        schema=schema,
    )


def recordings(numbers: range) -> pa.Table:
    """Their rows of `recordings`."""
    count = len(numbers)
    begins = [started(number) for number in numbers]
    columns: dict[str, object] = {
        "file_id": [f"{number:016x}" for number in numbers],
        "path": [recording_path(number) for number in numbers],
        "app": ["live"] * count,
        "stream": [f"stream-{number % _STREAMS:02d}" for number in numbers],
        "started_at": begins,
        "ended_at": [begin + timedelta(seconds=_SECONDS) for begin in begins],
        "duration_ms": [_SECONDS * 1000] * count,
        "size": [1_000_000] * count,
        "mtime_ns": [number + 1 for number in numbers],
        "status": ["ok"] * count,
        "lost_bytes": [0] * count,
        "video_frames": [_SECONDS * 25] * count,
        "keyframes": [_SECONDS // 2] * count,
        "first_timestamp_ms": [0] * count,
        "indexer_version": [INDEXER_VERSION] * count,
        "day": [begin.date() for begin in begins],
    }
    return _table("recordings", columns, count)


def details(name: str, numbers: range) -> pa.Table:
    """Their rows of another table."""
    each = _DETAILS[name]
    rows = recordings(numbers)
    where = pa.array(np.repeat(np.arange(len(numbers)), each))
    count = len(where)
    begin = rows["started_at"].cast(pa.int64()).to_numpy()
    wall = np.repeat(begin, each) + np.tile(np.arange(each), len(numbers)) * 1_000_000
    columns: dict[str, object] = {
        **{key: rows[key].combine_chunks().take(where) for key in ("file_id", "app", "stream", "day")},
        "wall": pa.array(wall).cast(pa.timestamp("us", tz="UTC")),
        "second": np.tile(np.arange(each), len(numbers)),
        "timestamp_ms": np.tile(np.arange(each), len(numbers)) * 1000,
        "time_ms": np.tile(np.arange(each), len(numbers)) * 1000,
        "byte_offset": np.tile(np.arange(each), len(numbers)) * 100_000,
        "video_bytes": np.random.default_rng(1).integers(10_000, 90_000, count),
        "path": rows["path"].combine_chunks().take(where),
    }
    return _table(name, columns, count)


def fill(root: Path, size: int) -> None:
    """Make a catalogue of so many recordings. Of other tables, all days have the files of one: only `recordings` is read whole."""
    with Catalogue(root).change() as change:
        for begin in range(0, size, 50 * A_DAY):
            numbers = range(begin, min(begin + 50 * A_DAY, size))
            change.add("recordings", recordings(numbers))
        for name in _DETAILS:
            (made,) = change.add(name, details(name, range(A_DAY)))
            source = root / name / made.path
            for day in range(1, size // A_DAY):
                date = (_FIRST + timedelta(days=day)).date()
                path = path_of(TABLES[name].version, date, change.run)
                (root / name / path).parent.mkdir()
                os.link(source, root / name / path)
                moved = made.stats.replace("2024-01-01", str(date))
                change.take(name, [type(made)(path, date, made.size, made.rows, moved)], TABLES[name].version)
        change.publish("made up")


@contextmanager
def timed(figures: dict[str, float], name: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    figures[name] = time.perf_counter() - begin


def highest_memory() -> float:
    """Megabytes of this process at most. What getrusage says counts those of its parent before it was started."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("the system does not say how much memory was used")


def measure(root: Path, size: int) -> dict[str, float]:
    """One night."""
    figures: dict[str, float] = {}
    night = range(size, size + A_DAY)
    with timed(figures, "open"):
        snapshot = Catalogue(root).open()
        files = sum(len(snapshot.files(name)) for name in snapshot.tables)
    figures["files"] = files
    day = started(size - 1).date()
    with timed(figures, "ask"):
        engine = DuckEngine(snapshot)
        engine.ask(f"SELECT sum(video_bytes) FROM seconds WHERE stream = 'stream-07' AND day = DATE '{day}'")
        engine.close()
    with Catalogue(root).change() as change:
        there = {
            recording_path(number): FoundFile(recording_path(number), 1_000_000, number + 1)
            for number in range(size + A_DAY)
        }
        with timed(figures, "plan"):
            known = Known.of(change.base)
            left, rows = known.changed(Listing(there, ()))
            plan = make_plan(left, rows, time.time())
        assert len(plan.read) == A_DAY
        with timed(figures, "commit"):
            commit_night(change, plan, night)
    figures["memory_mb"] = highest_memory()
    return figures


def commit_night(change: Change, plan: Plan, night: range) -> None:
    """Write the rows of new recordings, and publish them."""
    for name in _DETAILS:
        put_rows(change, TABLES[name], Again.of([]), details(name, night), {})
    update_recordings(change, plan, {}, recordings(night), datetime.now(UTC))
    change.publish("a night")


def main(sizes: list[int]) -> None:
    """Measure, and print a line for each size."""
    heads = ("files", "open s", "plan s", "commit s", "ask s", "memory MB")
    sys.stdout.write(f"{'recordings':>12}" + "".join(f"{head:>11}" for head in heads) + "\n")
    for size in sizes:
        root = Path(tempfile.mkdtemp(prefix="rtmprelay-store-"))
        try:
            fill(root / "catalogue", size)
            command = [
                sys.executable,
                "-m",
                "tests.spark.benchmark_store",
                "--measure",
                str(root / "catalogue"),
                str(size),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
        finally:
            shutil.rmtree(root)
        times = "".join(f"{found[name]:>11.2f}" for name in ("open", "plan", "commit", "ask"))
        sys.stdout.write(f"{size:>12,}{found['files']:>11,.0f}{times}{found['memory_mb']:>11,.0f}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        json.dump(measure(Path(sys.argv[2]), int(sys.argv[3])), sys.stdout)
    else:
        main([int(text) for text in sys.argv[1:]] or list(SIZES))
