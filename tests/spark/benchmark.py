"""How fast recordings are indexed, beside ffprobe and beside reading the bare bytes, all in one run on the same files.

    python -m tests.spark.benchmark [--quick] [--make] [--dir DIR] [--rounds 5]

Figures of one machine say little: the ratios do, and what the machine itself gains from a second process is printed
beside what the index gains. Files (5 GB) are made by the first run, or by `--make` alone, and stay for the next one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from spark_analytics.flv.scan import RangeScanner
from spark_analytics.flv.sources import open_source
from spark_analytics.recordings.discover import FoundFile, find_recordings
from spark_analytics.recordings.plan import Split, make_plan, make_tasks
from spark_analytics.recordings.results import Reading
from spark_analytics.recordings.tasks import run_task
from tests.spark.media import age, ffmpeg

_SOUND = ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=44100"]
_CALM = ["-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=30", *_SOUND]
_BUSY = ["-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=30,noise=alls=60:allf=t", *_SOUND]

Files = tuple[FoundFile, ...]

#: How often ffprobe takes its turn.
_FFPROBE_ROUNDS = {"low": 3, "high": 5, "small": 1}

#: What is to be reached: where, what it is compared with, by whom, and how much of it at least.
_TARGETS = (
    ("low", "ffprobe -show_packets", "scan of tags, 1 process", 10.0),
    ("high", "ffprobe -show_packets", "scan of tags, 1 process", 8.0),
    ("low", "ffprobe -show_packets", "Spark, 2 cores, warm", 10.0),
    ("small", "ffprobe -show_packets", "Spark, 2 cores, warm", 40.0),
    ("high", "raw bytes", "index, 2 processes", 0.7),
    ("low", "raw bytes", "index, 2 processes", 0.18),
)

#: By how much a second process or core must help, of what it helps pure computing.
_GAINS = (
    ("index", "index, 1 process", "index, 2 processes", 0.85),
    ("Spark", "Spark, 1 core, warm", "Spark, 2 cores, warm", 0.7),
)

#: Seconds that a command may take from nothing.
_COLD = {"index command, cold": 26.0, "index command, cold, class archive": 16.0}


# -- files ---------------------------------------------------------------------------------------------------


def _encode(out: Path, source: list[str], seconds: int, kilobits: int) -> None:
    rate = f"{kilobits}k"
    video = f"-c:v libx264 -preset ultrafast -b:v {rate} -maxrate {rate} -bufsize {rate} -g 60"
    sound = "-c:a aac -b:a 96k -f flv"
    command = [ffmpeg(), "-v", "error", "-y", *source, "-t", str(seconds), *video.split(), *sound.split()]
    subprocess.run([*command, str(out)], check=True)


def _repeat(out: Path, clip: Path, times: int) -> None:
    command = [ffmpeg(), "-v", "error", "-y", "-stream_loop", str(times - 1), "-i", str(clip)]
    subprocess.run([*command, "-c", "copy", "-f", "flv", str(out)], check=True)


def make_files(folder: Path, quick: bool) -> dict[str, Path]:
    """A long file of low bitrate, a large one of 4 Mbit/s, and many small ones."""
    folder.mkdir(parents=True, exist_ok=True)
    scale = 10 if quick else 1
    low, high, small = folder / "low", folder / "high", folder / "small"
    if not (folder / f"ready-{scale}").exists():
        for other in folder.glob("ready-*"):
            other.unlink()
        for place in (low, high, small):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        for name, source, seconds, kilobits in (
            ("low", _CALM, 120, 500),
            ("high", _BUSY, 60, 4000),
            ("small", _CALM, 20, 500),
        ):
            _encode(folder / f"{name}.clip", source, seconds, kilobits)
        _repeat(low / "live_low_20260101_000000.flv", folder / "low.clip", 300 // scale)
        _repeat(high / "live_high_20260101_000000.flv", folder / "high.clip", 100 // scale)
        for number in range(1000 // scale):
            shutil.copy(folder / "small.clip", small / f"live_s{number}_20260101_000000.flv")
        for path in folder.rglob("*.flv"):
            # What was written just now may still grow.
            age(path)
        (folder / f"ready-{scale}").touch()
    return {"low": low, "high": high, "small": small}


def files_in(folder: Path) -> Files:
    """As they are listed."""
    return tuple(find_recordings([str(folder)]).files.values())


# -- contenders ----------------------------------------------------------------------------------------------


def read_raw(files: Files) -> None:
    """Every byte, and nothing else: what `cat` does."""
    buffer = bytearray(1 << 20)
    for file in files:
        with open(file.path, "rb", buffering=0) as raw:
            while raw.readinto(buffer):
                pass


def scan_tags(files: Files) -> None:
    """Every tag, in this process."""
    for file in files:
        source = open_source(file.path, file.size)
        for _ in RangeScanner(source, 13, file.size):
            pass
        source.close()


def _run(splits: Sequence[Split]) -> int:
    return sum(lot.rows for lot in run_task(splits, Reading("run", datetime.now(UTC))))


class Processes:
    """The index without Spark, in some processes that are there already."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = multiprocessing.get_context("spawn").Pool(count)
        self._pool.map(_spin, [1000] * count)

    def index(self, files: Files) -> None:
        """All rows that the tables are made of."""
        self._pool.map(_run, make_tasks(files, self._count), chunksize=1)

    def spin(self, processes: int) -> None:
        """Pure computing, by one of them or shared by two. The same processes: they are not all of the same speed."""
        self._pool.map(_spin, [10_000_000] * 2, chunksize=2 // processes)

    def close(self) -> None:
        """End them."""
        self._pool.terminate()
        self._pool.join()


def _spin(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total += number & 3
    return total


def ffprobe(files: Files) -> None:
    """Every packet as text, two files at a time."""
    command = ["ffprobe", "-v", "error", "-show_packets", "-of", "csv"]
    running: list[subprocess.Popen[bytes]] = []
    for file in files:
        running.append(subprocess.Popen([*command, file.path], stdout=subprocess.DEVNULL))
        if len(running) >= 2:
            running.pop(0).wait()
    for process in running:
        process.wait()


def timed(action: Callable[[], object]) -> float:
    """Seconds."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


# -- Spark, in a process of its own for each number of cores -------------------------------------------------


def spark_child(cores: int, folders: Sequence[str], rounds: int) -> None:
    """Index each folder so often, and print the seconds of each time as JSON."""
    from spark_analytics.catalogue import Catalogue
    from spark_analytics.engine.spark import build_session
    from spark_analytics.recordings.job import index_recordings

    spark = build_session(f"local[{cores}]")
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(rounds + 2):
            for folder in folders:
                out = Path(scratch) / f"{number}-{Path(folder).name}"

                def index(folder: str = folder, out: Path = out) -> None:
                    with Catalogue(out).change() as change:
                        plan = make_plan(find_recordings([folder]), {}, time.time())
                        index_recordings(lambda: spark, change, plan, {}, datetime.now(UTC))
                        change.publish()

                found.setdefault(folder, []).append(timed(index))
    spark.stop()
    sys.stdout.write(json.dumps({folder: times[2:] for folder, times in found.items()}))


def run_spark(cores: int, folders: Sequence[Path], rounds: int) -> dict[str, float]:
    """The best time for each folder, with a warm session."""
    command = [sys.executable, "-m", "tests.spark.benchmark", "--child", str(cores), "--rounds", str(rounds)]
    done = subprocess.run([*command, *map(str, folders)], capture_output=True, text=True, check=True)
    times: dict[str, list[float]] = json.loads(done.stdout)
    return {Path(folder).name: min(seconds) for folder, seconds in times.items()}


def run_cold(folder: Path, java_options: str = "") -> float:
    """The whole command, from nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "spark_analytics", "index", str(folder), "--out", f"{scratch}/out"]
        if java_options:
            command += [
                "--conf",
                f"spark.driver.extraJavaOptions={java_options} -Xlog:cds=off -Xlog:cds+dynamic=off",
            ]
        return timed(lambda: subprocess.run(command, capture_output=True, check=True))


def run_cold_with_archive(folder: Path) -> float | None:
    """The same with an archive of classes that an earlier run has left; None if this Java makes none."""
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "spark.jsa"
        run_cold(folder, f"-XX:ArchiveClassesAtExit={archive}")
        # Java writes it when the command has ended already.
        deadline = time.monotonic() + 60
        while not _is_complete(archive):
            if time.monotonic() > deadline:
                return None
            time.sleep(0.5)
        return run_cold(folder, f"-XX:SharedArchiveFile={archive}")


def _is_complete(archive: Path) -> bool:
    """Java takes the right to write from a file that it has written."""
    return archive.exists() and not archive.stat().st_mode & 0o200


# -- all of it -----------------------------------------------------------------------------------------------


def measure(places: dict[str, Path], rounds: int) -> dict[str, dict[str, float]]:
    """The best time of each contender on each set of files; all of them take turns."""
    one, two = Processes(1), Processes(2)
    has_ffprobe = shutil.which("ffprobe") is not None
    if not has_ffprobe:
        say("ffprobe is not installed (Debian: apt-get install ffmpeg): there is nothing to compare with")
    best: dict[str, dict[str, float]] = {"machine": {}}

    def note(where: str, what: str, action: Callable[[], object]) -> None:
        times = best.setdefault(where, {})
        seconds = timed(action)
        tell(f"{where}: {what}: {seconds:.2f} s")
        times[what] = min(times.get(what, 1e9), seconds)

    for number in range(rounds):
        note("machine", "computing, 1 process", partial(two.spin, 1))
        note("machine", "computing, 2 processes", partial(two.spin, 2))
        for name, folder in places.items():
            files = files_in(folder)
            note(name, "raw bytes", partial(read_raw, files))
            note(name, "scan of tags, 1 process", partial(scan_tags, files))
            note(name, "index, 1 process", partial(one.index, files))
            note(name, "index, 2 processes", partial(two.index, files))
            # Its times are long and hardly differ.
            if has_ffprobe and number < _FFPROBE_ROUNDS[name]:
                note(name, "ffprobe -show_packets", partial(ffprobe, files))
    one.close()
    two.close()
    for cores in (1, 2):
        tell(f"Spark with {cores} of the cores")
        for name, seconds in run_spark(cores, list(places.values()), rounds).items():
            best[name][f"Spark, {cores} core{'s' * (cores > 1)}, warm"] = seconds
    tell("the command, from nothing")
    best["small"]["index command, cold"] = run_cold(places["small"])
    with_archive = run_cold_with_archive(places["small"])
    if with_archive is not None:
        best["small"]["index command, cold, class archive"] = with_archive
    return best


def say(line: str) -> None:
    """For people."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def tell(line: str) -> None:
    """For people who wait."""
    sys.stderr.write(f"{line}\n")


def show(best: dict[str, dict[str, float]], places: dict[str, Path]) -> None:
    """A table for each set of files, with the ratios that matter."""
    machine = best["machine"]
    # More than twice as much cannot be: it is noise.
    gain = min(2.0, machine["computing, 1 process"] / machine["computing, 2 processes"])
    say(f"2 processes against 1, computing only: {gain:.2f}x")
    for name, folder in places.items():
        times, files = best[name], files_in(folder)
        say(f"\n{name}: {len(files)} files, {sum(file.size for file in files) / 1e9:.2f} GB")
        reference = times.get("ffprobe -show_packets")
        for what, seconds in times.items():
            against = f"{reference / seconds:8.1f}x ffprobe" if reference else ""
            say(f"  {what:36} {seconds:8.3f} s {against} {times['raw bytes'] / seconds:6.2f} of raw")
        for what, first, second, _ in _GAINS:
            ratio = times[first] / times[second]
            say(f"  {what}, 2 against 1: {ratio:.2f}x, {ratio / gain:.2f} of what the machine can")
    show_targets(best, gain)


def show_targets(best: dict[str, dict[str, float]], gain: float) -> None:
    """Which of them are reached."""
    say("\ntargets")

    def judge(words: str, value: float, target: float, reached: bool) -> None:
        say(f"  {'reached    ' if reached else 'NOT reached'} {words}: {value:.2f} (target {target:g})")

    for name, reference, what, target in _TARGETS:
        if reference in best[name]:
            ratio = best[name][reference] / best[name][what]
            judge(f"{name}: {what}, against {reference}", ratio, target, ratio >= target)
    for name in ("low", "high"):
        for what, first, second, target in _GAINS:
            part = best[name][first] / best[name][second] / gain
            judge(f"{name}: {what}, 2 against 1, of what the machine can", part, target, part >= target)
    for what, target in _COLD.items():
        if what in best["small"]:
            judge(f"{what}, seconds", best["small"][what], target, best["small"][what] <= target)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--dir", default=os.path.join(tempfile.gettempdir(), "rtmprelay-benchmark"))
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--make", action="store_true", help="make the files, and measure nothing")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", type=int)
    options: Any = parser.parse_args(arguments)
    if options.child:
        spark_child(options.child, options.folders, options.rounds)
        return
    places = make_files(Path(options.dir), options.quick)
    if options.make:
        return
    show(measure(places, options.rounds), places)


if __name__ == "__main__":
    main()
