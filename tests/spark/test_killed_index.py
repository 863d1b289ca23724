"""An index that is killed, wherever it is, has changed nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.media import age, frames_file
from tests.spark.test_index import rows_of, stream

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.catalogue import Catalogue
from tests.spark.cluster import QUICK_JAVA
from tests.spark.world import index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How often; each time takes as long as Spark needs to start.
KILLS = int(os.environ.get("SPARK_TEST_INDEX_KILLS", "1"))


def start(folder: Path, out: Path) -> subprocess.Popen[str]:
    quick = ["--conf", f"spark.driver.extraJavaOptions={QUICK_JAVA}"]
    return subprocess.Popen(
        [sys.executable, "-m", "spark_analytics", "index", str(folder), "--out", str(out), *quick],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill_while_it_reads(process: subprocess.Popen[str], after: float) -> None:
    assert process.stderr is not None
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("reading"):
                break
        assert said[-1].startswith("reading"), said
        time.sleep(after)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()


def test_a_killed_index_leaves_the_catalogue_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    folder, out = tmp_path / "rec", tmp_path / "catalogue"
    folder.mkdir()

    def add(name: str, seconds: int) -> None:
        path = folder / f"live_{name}_20260101_120000.flv"
        path.write_bytes(frames_file(stream(seconds)))
        age(path)

    add("first", 3)
    before = index(folder, out)
    rows = {table: rows_of(before, table) for table in ("recordings", "seconds", "keyframes", "sessions")}
    add("second", 4)
    rng = random.Random(os.environ.get("SPARK_TEST_SEED", "1"))
    for _ in range(KILLS):
        kill_while_it_reads(start(folder, out), rng.random() * 4)
        now = Catalogue(out).open()
        if now.manifest.version > before.manifest.version:
            break
        assert {table: rows_of(now, table) for table in rows} == rows
    # The lock of the dead is no obstacle, and nothing is there twice.
    after = index(folder, out)
    assert [(row["stream"], row["second"]) for row in rows_of(after, "seconds", "stream", "second")] == [
        *(("first", second) for second in range(3)),
        *(("second", second) for second in range(4)),
    ]
