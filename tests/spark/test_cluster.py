"""The same index on a real cluster, whose workers have nothing of this project but the package that is sent to them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.media import age, frames_file
from tests.spark.test_index import by_stream, rows_of, stream

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics import __main__ as program
from spark_analytics.catalogue import Catalogue
from spark_analytics.packaging import write_package
from tests.spark.cluster import HOME, PATIENCE, standalone_cluster
from tests.spark.world import index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bare_python(folder: Path) -> Path:
    """A Python that finds what is installed, but no project that is installed in place: that is what workers have."""
    site = Path(pytest.__file__).parent.parent
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{site}" exec {sys.executable} -S "$@"\n')
    path.chmod(0o700)
    return path


def test_spark_submit_on_a_standalone_cluster(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "rec"
    folder.mkdir()
    for number in range(6):
        path = folder / f"live_film{number}_20260101_120000.flv"
        path.write_bytes(frames_file(stream(2 + number)))
        age(path)
    package = tmp_path / "package.zip"
    write_package(package)
    environment = {"PYSPARK_PYTHON": str(bare_python(tmp_path)), "PYSPARK_DRIVER_PYTHON": sys.executable}
    with standalone_cluster(tmp_path, environment) as address:
        command = [HOME / "bin" / "spark-submit", "--master", address, "--py-files", package]
        command += ["--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1"]
        command += [program.__file__, "index", folder, "--out", tmp_path / "catalogue"]
        done = subprocess.run(
            list(map(str, command)),
            env={**os.environ, **environment, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "6 recordings read" in done.stdout
    there = Catalogue(tmp_path / "catalogue").open()
    here = index(folder, tmp_path / "local")
    assert {row["status"] for row in by_stream(there).values()} == {"ok"}
    for table, order in {"seconds": ("file_id", "second"), "keyframes": ("file_id", "byte_offset")}.items():
        assert rows_of(there, table, *order) == rows_of(here, table, *order)
