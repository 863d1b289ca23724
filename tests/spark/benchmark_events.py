"""What event logs cost as a catalogue grows: `python -m tests.spark.benchmark_events [EVENTS ...]`.

A day of a million events of twenty servers is indexed once. Its files, with another date each, are the days of a
catalogue of any size, so that a thousand million events take no more room than one day and are read like any other. Each
size is measured in a process of its own: a night in which one more server has left a log, and questions.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

from spark_analytics.__main__ import main as command
from spark_analytics.catalogue import Catalogue
from spark_analytics.event_logs import lines
from spark_analytics.event_logs.update import index_events
from spark_analytics.store.part_files import PartFile, path_of
from spark_analytics.store.tables import EVENT_TABLES
from tests.spark.benchmark_store import highest_memory, timed

SIZES = (10_000_000, 100_000_000, 1_000_000_000)

#: Servers of a day, and how many plays each of them tells of; a play is six events.
_SERVERS = 20
_PLAYS = 8_333
A_DAY = _SERVERS * _PLAYS * 6

_STREAMS = 50
_FIRST = datetime(2024, 1, 1, tzinfo=UTC)

#: Tables of which a night reads all rows: each day has its own.
_ONE_BY_ONE = ("servers", "event_files")


def log_of(instance: str, begin: datetime, plays: int) -> Iterator[str]:
    """The log of a server that runs for a day."""
    number = 0

    def line(event: str, at: float, connection: str | None, stream: str | None, **fields: Any) -> str:
        nonlocal number
        number += 1
        values = {
            "time": f"{begin + timedelta(seconds=at):%Y-%m-%dT%H:%M:%S.%f}Z",
            "event": event,
            "connection": connection,
            "stream": stream,
            "instance": instance,
            "number": number,
            **fields,
        }
        return json.dumps(values) + "\n"

    def destination(what: str, at: float, stream: str, **fields: Any) -> str:
        return line(f"destination_{what}", at, None, stream, destination="YouTube", **fields)

    yield line("server_started", 0, None, None, version="1.0", host="relay")
    for number_of in range(_STREAMS):
        stream = f"live/stream-{number_of:02d}"
        yield line("publish_started", 1, f"p{number_of}", stream)
        yield destination("connecting", 1, stream, address="rtmp://a/in")
        yield destination("connected", 2, stream, address="rtmp://a/in")
    step = 80_000 / plays
    for play in range(plays):
        at, connection, stream = play * step, f"c{play}", f"live/stream-{play % _STREAMS:02d}"
        peer = f"10.{play % 200}.{play % 250}.1:999"
        yield line("connection_opened", at, connection, None, peer=peer)
        yield line("connect", at, connection, None, app="live", client="ffplay", peer=None)
        yield line("play_started", at, connection, stream)
        counts = {"messages": 3000, "bytes": 9_000_000, "dropped": 0, "stalls": 0}
        yield line(
            "media_statistics", at + 30, connection, stream, role="player", seconds=30.0, kbps=1.0, queued=0,
            **counts,
        )  # fmt: skip
        yield line(
            "play_stopped", at + 60, connection, stream, duration=60.0, dropped_by_reason={},
            reason="the peer closed it", stalled_seconds=0.0, **counts,
        )  # fmt: skip
        yield line(
            "connection_closed", at + 60, connection, None, peer=peer, reason="x", limit=None, duration=60.0
        )
    for number_of in range(_STREAMS):
        stream = f"live/stream-{number_of:02d}"
        yield destination("failed", 81_000, stream, error_class="network", reason="the connection was lost")
        yield destination("reconnecting", 81_000, stream, attempt=2, delay=1.0, address="rtmp://a/in")
        yield destination("connected", 81_010, stream, address="rtmp://a/in")
        yield destination("dropped", 81_011, stream, reason="not_connected", count=300)
        end = {"messages": 3_000_000, "bytes": 9_000_000_000}
        yield line(
            "publish_stopped",
            82_000,
            f"p{number_of}",
            stream,
            reason="the publisher ended it",
            clean=True,
            duration=81_999.0,
            **end,
        )
        yield destination("closed", 82_000, stream, reason="the publisher ended it", dropped=300, **end)
    yield line("server_stopped", 86_000, None, None, duration=86_000.0)


def write_log(folder: Path, instance: str, begin: datetime, plays: int) -> None:
    """A log with the name that the server would have given it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events_{begin:%Y%m%d_%H%M%S}-{int(instance[-2:]) + 1}.jsonl"
    path.write_text("".join(log_of(instance, begin, plays)))
    then = (begin + timedelta(days=1)).timestamp()
    os.utime(path, (then, then))


def make_day(root: Path, logs: Path) -> None:
    """Index the first day."""
    for server in range(_SERVERS):
        write_log(logs, f"{_FIRST:%Y%m%d}-{server:02d}", _FIRST, _PLAYS)
    night(root, logs, _FIRST + timedelta(days=1))


def night(root: Path, logs: Path, now: datetime) -> dict[str, float]:
    """One run of the index; everything is done in this process."""
    figures: dict[str, float] = {}

    def refuse() -> Any:
        raise AssertionError("a night needs no Spark")

    with timed(figures, "night"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "MOST_TEXT_HERE", 1 << 40)
        patch.setattr(lines, "MOST_EVENTS_HERE", 1 << 40)
        with Catalogue(root).change() as change:
            summary = index_events(refuse, change, [str(logs)], now)
            assert summary.changed
            with timed(figures, "commit"):
                change.publish("a night")
    return figures


def repeat_day(root: Path, days: int) -> None:
    """Let the first day have happened on as many days."""
    with Catalogue(root).change() as change:
        for table in EVENT_TABLES:
            first = change.files(table.name)
            if table.name in _ONE_BY_ONE:
                change.add(table.name, _moved_rows(change.arrow(table.name, first), days))
                continue
            moved = [
                _moved_file(root / table.name, table.version, file, day, change.run)
                for day in range(1, days)
                for file in _with_stats(root, table.name, first)
            ]
            if moved:
                change.take(table.name, moved, table.version)
        change.publish("made up")


def _with_stats(root: Path, table: str, files: Sequence[PartFile]) -> list[PartFile]:
    """Files with what their commit says of them."""
    commits = (path.read_text() for path in (root / table / "_delta_log").glob("*.json"))
    actions = (json.loads(line).get("add") for commit in commits for line in commit.splitlines())
    added = {action["path"]: action["stats"] for action in actions if action is not None}
    return [attrs.evolve(file, stats=added[file.path]) for file in files]


def _moved_file(folder: Path, schema: int, file: PartFile, day: int, run: str) -> PartFile:
    to = _later(file.day, day)
    path = path_of(schema, to, run)
    (folder / path).parent.mkdir(exist_ok=True)
    os.link(folder / file.path, folder / path)
    stats = file.stats
    for offset in (1, 0):
        before, after = _later(_FIRST.date(), offset), _later(_FIRST.date(), day + offset)
        stats = stats.replace(f"{before}T", f"{after}T").replace(f'"{before:%Y%m%d}-', f'"{after:%Y%m%d}-')
    return PartFile(path, to, file.size, file.rows, stats)


def _later(day: date, days: int) -> date:
    return day + timedelta(days=days)


def _moved_rows(rows: pa.Table, days: int) -> pa.Table:
    """The same rows for all other days, with names and times of these."""
    values = rows.to_pylist()
    first = f"{_FIRST:%Y%m%d}"
    moved = []
    for number in range(1, days):
        name = f"{_later(_FIRST.date(), number):%Y%m%d}"
        by = timedelta(days=number)
        for value in values:
            moved.append(
                {
                    key: one.replace(first, name)
                    if isinstance(one, str) and key != "file_id"
                    else one + by
                    if isinstance(one, datetime | date)
                    else f"{number}-{one}"
                    if key == "file_id"
                    else one
                    for key, one in value.items()
                }
            )
    return pa.Table.from_pylist(moved, schema=rows.schema)


def measure(root: Path, logs: Path, days: int) -> dict[str, float]:
    """A night after so many days, and three questions."""
    figures: dict[str, float] = {}
    begin = _FIRST + timedelta(days=days)
    write_log(logs, f"{begin:%Y%m%d}-00", begin, _PLAYS)
    figures |= night(root, logs, begin + timedelta(days=1, hours=1))
    figures["memory_mb"] = highest_memory()
    snapshot = Catalogue(root).open()
    figures["rows"] = sum(file.rows for file in snapshot.files("events"))
    figures["files"] = sum(len(snapshot.files(table)) for table in snapshot.tables)
    day = begin.date()
    for name, question in {
        "day": ["viewers", "live/stream-07", "--since", f"{day}", "--until", f"{_later(day, 1)}"],
        "month": ["viewers", "--since", f"{_later(day, -30)}", "--until", f"{day}"],
        "count": ["sql", f"SELECT count(*) FROM viewers WHERE day > DATE '{_later(day, -60)}'"],
    }.items():
        with timed(figures, name), redirect_stdout(StringIO()):
            assert command([*question, "--catalogue", str(root)]) == 0
    return figures


def main(sizes: Sequence[int]) -> None:
    """Measure, and print a line for each size."""
    heads = ("files", "night s", "commit s", "memory MB", "day s", "month s", "count s")
    sys.stdout.write(f"{'events':>14}" + "".join(f"{head:>11}" for head in heads) + "\n")
    root = Path(tempfile.mkdtemp(prefix="rtmprelay-events-"))
    try:
        begin = time.perf_counter()
        make_day(root / "day", root / "logs")
        sys.stderr.write(f"a day of {A_DAY:,} events is indexed in {time.perf_counter() - begin:.0f} s\n")
        shutil.rmtree(root / "logs")
        for size in sizes:
            place = root / str(size)
            shutil.copytree(root / "day", place, copy_function=os.link)
            _separate_logs(place)
            repeat_day(place, max(1, round(size / A_DAY)))
            words = ["--measure", str(place), str(root / "night"), str(max(1, round(size / A_DAY)))]
            done = subprocess.run(
                [sys.executable, "-m", "tests.spark.benchmark_events", *words],
                capture_output=True,
                text=True,
                check=True,
            )
            found = json.loads(done.stdout)
            times = "".join(
                f"{found[name]:>11,.2f}" for name in ("night", "commit", "memory_mb", "day", "month", "count")
            )
            sys.stdout.write(f"{found['rows']:>14,.0f}{found['files']:>11,.0f}{times}\n")
            sys.stdout.flush()
            shutil.rmtree(root / "night")
            shutil.rmtree(place)
    finally:
        shutil.rmtree(root)


def _separate_logs(place: Path) -> None:
    """A log must not be changed through another catalogue's link to it."""
    for path in place.rglob("_delta_log/*"):
        if path.is_file():
            data = path.read_bytes()
            path.unlink()
            path.write_bytes(data)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        json.dump(measure(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])), sys.stdout)
    else:
        main([int(text) for text in sys.argv[1:]] or list(SIZES))
