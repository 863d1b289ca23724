"""An index that is killed, wherever it is, has changed nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import wait_for
from tests.spark.media import age, frames_file
from tests.spark.test_index import rows_of, stream

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.catalogue import Catalogue
from tests.spark.cluster import PATIENCE, QUICK_JAVA
from tests.spark.world import index

#: How often; each time takes as long as Spark needs to start.
KILLS = int(os.environ.get("SPARK_TEST_INDEX_KILLS", "1"))


#: Options of the command that let Spark read, which takes its time to start.
BY_SPARK = ("--conf", f"spark.driver.extraJavaOptions={QUICK_JAVA}")

ENGINES = pytest.mark.parametrize(
    "options", [(), pytest.param(BY_SPARK, marks=pytest.mark.full)], ids=["here", "spark"]
)


def start(folder: Path, out: Path, options: tuple[str, ...], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "spark_analytics", "index", str(folder), "--out", str(out), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment},
    )


def wait_for_line(process: subprocess.Popen[str], beginning: str) -> None:
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith(beginning):
            return
    raise AssertionError(said)


def kill_while_it_reads(process: subprocess.Popen[str], after: float) -> None:
    assert process.stderr is not None
    try:
        wait_for_line(process, "reading")
        time.sleep(after)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()


class World:
    """A catalogue of one recording, and a second one that it does not know yet."""

    def __init__(self, root: Path) -> None:
        self.folder, self.out = root / "rec", root / "catalogue"
        self.folder.mkdir()
        self._add("first", 3)
        self._version = index(self.folder, self.out).version
        self._before = self._rows()
        self._add("second", 4)

    def _add(self, name: str, seconds: int) -> None:
        path = self.folder / f"live_{name}_20260101_120000.flv"
        path.write_bytes(frames_file(stream(seconds)))
        age(path)

    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        now = Catalogue(self.out).open()
        return {table: rows_of(now, table) for table in ("recordings", "seconds", "keyframes", "sessions")}

    @property
    def is_indexed(self) -> bool:
        """Whether the second one is known."""
        return Catalogue(self.out).open().version > self._version

    def check_unchanged(self) -> None:
        """Nothing has changed."""
        assert not self.is_indexed
        assert self._rows() == self._before

    def check_next_run(self) -> None:
        """The lock of the dead is no obstacle, and nothing is there twice."""
        rows = rows_of(index(self.folder, self.out), "seconds", "stream", "second")
        assert [(row["stream"], row["second"]) for row in rows] == [
            *(("first", second) for second in range(3)),
            *(("second", second) for second in range(4)),
        ]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@ENGINES
def test_an_index_killed_at_any_moment_leaves_the_catalogue_whole(
    world: World, options: tuple[str, ...]
) -> None:
    rng = random.Random(os.environ.get("SPARK_TEST_SEED", "1"))
    for _ in range(KILLS):
        after = rng.random() * (4 if options else 0.2)
        kill_while_it_reads(start(world.folder, world.out, options), after)
        if world.is_indexed:
            break
        world.check_unchanged()
    world.check_next_run()


#: Runs a command, and dies where it was told to.
_SUICIDE = """
import os, signal, sys
from spark_analytics import __main__
from spark_analytics.store.change import Change
from spark_analytics.store.versions import Versions

def die(*arguments, **more):
    os.killpg(0, signal.SIGKILL)

def die_at(name):
    add = Change.add
    Change.add = lambda self, table, *more, **named: (die if table == name else add)(self, table, *more, **named)

match sys.argv.pop(1):
    case "details are written":
        die_at("recordings")
    case "recordings are written":
        die_at("sessions")
    case "all tables are committed":
        Versions.publish = die
__main__.main()
"""


@ENGINES
@pytest.mark.parametrize(
    "moment", ["details are written", "recordings are written", "all tables are committed"]
)
def test_an_index_killed_at_the_worst_moments_changes_nothing(
    world: World, moment: str, options: tuple[str, ...]
) -> None:
    command = [sys.executable, "-c", _SUICIDE, moment, "index", str(world.folder), "--out", str(world.out)]
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL, said.decode()
    world.check_unchanged()
    world.check_next_run()


@pytest.mark.full
@pytest.mark.parametrize("moment", ["starting Spark", "reading"])
def test_one_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path, moment: str) -> None:
    """No file, and no Java that waits for ever."""
    folder, temporary = tmp_path / "rec", tmp_path / "tmp"
    folder.mkdir()
    temporary.mkdir()
    path = folder / "live_a_20260101_120000.flv"
    path.write_bytes(frames_file(stream(2)))
    process = start(folder, tmp_path / "catalogue", BY_SPARK, TMPDIR=str(temporary))
    try:
        wait_for_line(process, moment)
        # Behind this, Java is on its way, and has not yet said where it can be reached.
        wait_for(lambda: any(map(is_spark, members_of(process.pid))), "the start of Java")
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
        assert (process.returncode, error.splitlines()[-1]) == (1, "stopped")
        wait_for(lambda: not members_of(process.pid), "the end of Java")
        assert list(temporary.iterdir()) == []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def is_spark(process: str) -> bool:
    """Whether this is the Java of Spark, and not one that was asked for its version."""
    with suppress(OSError):
        return b"SparkSubmit" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


def members_of(session: int) -> list[str]:
    """The processes of a session that still run."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, group = status.read_text().rpartition(")")[2].split()[:3]
            if int(group) == session and state != "Z":
                found.append(status.parent.name)
    return found
