"""What a person waits for: `python -m tests.spark.benchmark_questions [--days 60] [--rounds 3]`.

Questions are commands of their own, from nothing, about a catalogue with ten million rows in `seconds` and in `viewers`;
so is the index of one recording with a few events, and one that finds nothing new. The last figure is how many bytes a
night writes, against a catalogue of that night alone.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs

from spark_analytics.catalogue import Catalogue
from tests.spark.benchmark_events import make_day, repeat_day
from tests.spark.benchmark_store import fill, recording_path, started
from tests.spark.event_world import story
from tests.spark.media import age, make_recording

#: Seconds that each command may take.
QUESTION, COLD, NOTHING_NEW = 1.0, 12.0, 0.7

#: How many times the bytes of its news a night may write.
WRITTEN = 1.5

#: Recordings of a minute that have ten million seconds.
_RECORDINGS = 167_000


@attrs.frozen(order=True)
class Cost:
    """What a command took: seconds on the clock, and of the processor, which do not grow with what else a machine does."""

    seconds: float
    of_processor: float


def run(*words: str) -> Cost:
    """The cost of a command, from nothing."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "spark_analytics", *words], capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def best_of(rounds: int, *words: str) -> Cost:
    return min(run(*words) for _ in range(rounds))


def judge(words: str, value: float, target: float, more: str = "") -> None:
    reached = "reached    " if value <= target else "NOT reached"
    sys.stdout.write(f"  {reached} {words}: {value:.2f} (target {target:g}{more})\n")
    sys.stdout.flush()


def judge_cost(words: str, cost: Cost, target: float) -> None:
    judge(f"{words}, seconds", cost.seconds, target, f"; {cost.of_processor:.2f} of the processor")


def questions(root: Path, rounds: int) -> None:
    """Each question that there is a command for."""
    # The rows of other days are those of the first one.
    at = started(7) + timedelta(seconds=30)
    stream = f"live/{recording_path(7).split('_')[1]}"
    day, next_day = (f"{at.date() + timedelta(days=number)}" for number in (0, 1))
    first, second = "2024-01-05", "2024-01-06"
    asked: dict[str, list[str]] = {
        "sql, a sum over all seconds": ["sql", "SELECT stream, sum(video_bytes) FROM seconds GROUP BY stream"],
        "find": ["find", stream, "--at", f"{at:%Y-%m-%dT%H:%M:%S}"],
        "streams": ["streams"],
        "incidents of a day": ["incidents", "--since", day, "--until", next_day],
        "viewers of all time": ["viewers"],
        "viewers of a day": ["viewers", "live/stream-07", "--since", first, "--until", second],
        "destinations": ["destinations"],
        "outages of a day": ["outages", "--since", first, "--until", second],
    }  # fmt: skip
    for name, words in asked.items():
        judge_cost(name, best_of(rounds, *words, "--catalogue", str(root)), QUESTION)
    page = str(root.parent / "report.html")
    judge_cost("report of a day", best_of(rounds, "report", str(root), "--since", first, "--until", second, "--html", page), QUESTION)  # fmt: skip


def first_index(folder: Path, rounds: int) -> None:
    """One recording and a few events."""
    recordings = folder / "recordings"
    recordings.mkdir()
    age(make_recording(recordings / "live_a_20260101_120000.flv", "h264_aac", 10))
    story().write(folder / "events")
    times = []
    for number in range(rounds):
        words = ["index", str(recordings), "--events", str(folder / "events"), "--out", str(folder / f"out-{number}")]  # fmt: skip
        times.append(run(*words))
    judge_cost("a first index of one recording and some events", min(times), COLD)
    judge_cost("an index that finds nothing new", best_of(rounds, *words), NOTHING_NEW)


def nights(folder: Path) -> None:
    """Nights of the same news, one recording of which is still growing each time."""
    clip = age(make_recording(folder / "clip.flv", "h264_aac", 20))
    recordings, out, alone = folder / "nightly", folder / "nightly-out", folder / "alone"
    written = [_night(clip, recordings, out, night) for night in range(6)]
    beside = folder / "alone-recordings"
    beside.mkdir()
    # The one that was still growing the night before is finished now, and read again.
    shutil.copy2(clip, beside / "live_growing_before_20260105_120000.flv")
    only = _night(clip, beside, alone, 5)
    judge("bytes that the last of six nights writes, against it alone", written[-1] / only, WRITTEN)


def _night(clip: Path, recordings: Path, out: Path, night: int) -> int:
    recordings.mkdir(exist_ok=True)
    for path in recordings.glob("*growing*"):
        age(path)
    date = f"{datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=night):%Y%m%d}"
    for number in range(12):
        shutil.copy2(clip, recordings / f"live_s{number}_{date}_120000.flv")
    growing = recordings / f"live_growing_{date}_120000.flv"
    growing.write_bytes(clip.read_bytes()[:-100_000])
    before = _sizes(out)
    run("index", str(recordings), "--out", str(out))
    return sum(size for path, size in _sizes(out).items() if before.get(path) != size)


def _sizes(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and say which targets are reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=60, help="with 167,000 plays each")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    root = Path(tempfile.mkdtemp(prefix="rtmprelay-questions-"))
    try:
        first_index(root, options.rounds)
        nights(root)
        fill(root / "catalogue", _RECORDINGS)
        make_day(root / "catalogue", root / "logs")
        repeat_day(root / "catalogue", options.days)
        snapshot = Catalogue(root / "catalogue").open()
        for table in ("seconds", "viewers"):
            rows = sum(file.rows for file in snapshot.files(table))
            sys.stdout.write(f"  {rows:,} rows in {table}\n")
        questions(root / "catalogue", options.rounds)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
