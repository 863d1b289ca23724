"""The same index on a real cluster, whose workers have nothing of this project but the package that is sent to them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.spark.media import age, frames_file
from tests.spark.test_index import by_stream, rows_of, stream

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics import __main__ as program
from spark_analytics.catalogue import Catalogue
from spark_analytics.engine.spark import write_package
from tests.spark.cluster import HOME, PATIENCE, QUICK_JAVA, standalone_cluster
from tests.spark.world import index


def bare_python(folder: Path) -> Path:
    """A Python that finds what is installed, but no project that is installed in place: that is what workers have."""
    site = Path(pytest.__file__).parent.parent
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{site}" exec {sys.executable} -S "$@"\n')
    path.chmod(0o700)
    return path


class Driver:
    """Commands as somebody gives them who has a cluster."""

    def __init__(self, address: str, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = {**os.environ, **environment, "SPARK_LOCAL_IP": "127.0.0.1"}
        settings = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": QUICK_JAVA,
            "spark.executor.extraJavaOptions": QUICK_JAVA,
        }
        self._options = ["--master", address]
        for key, value in settings.items():
            self._options += ["--conf", f"{key}={value}"]

    def submit(self, package: Path, *arguments: object) -> str:
        """By `spark-submit`; what it says."""
        command = [HOME / "bin" / "spark-submit", *self._options, "--py-files", package, program.__file__]
        return self._run([*command, *arguments])

    def run(self, *arguments: object) -> str:
        """By the command itself; what it says."""
        return self._run([sys.executable, "-m", "spark_analytics", *arguments, *self._options])

    def _run(self, command: Sequence[object]) -> str:
        done = subprocess.run(
            list(map(str, command)),
            env=self._environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.mark.full
def test_an_index_on_a_standalone_cluster(tmp_path: Path) -> None:
    """By `spark-submit` with the package, and then by `--master` alone, which sends it."""
    folder, late, out = tmp_path / "rec", tmp_path / "late", tmp_path / "catalogue"
    for number in range(6):
        path = (folder if number else late) / f"live_film{number}_20260101_120000.flv"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(frames_file(stream(2 + number)))
        age(path)
    package = tmp_path / "package.zip"
    write_package(package)
    environment = {"PYSPARK_PYTHON": str(bare_python(tmp_path)), "PYSPARK_DRIVER_PYTHON": sys.executable}
    with standalone_cluster(tmp_path, environment) as address:
        driver = Driver(address, tmp_path, environment)
        assert "5 recordings read" in driver.submit(package, "index", folder, "--out", out)
        assert "1 recordings read" in driver.run("index", late, "--out", out)
    there = Catalogue(out).open()
    index(folder, tmp_path / "local")
    here = index(late, tmp_path / "local")
    assert {row["status"] for row in by_stream(there).values()} == {"ok"}
    for table, order in {"seconds": ("file_id", "second"), "keyframes": ("file_id", "byte_offset")}.items():
        assert rows_of(there, table, *order) == rows_of(here, table, *order)
    assert len(rows_of(there, "seconds")) == sum(range(2, 8))
