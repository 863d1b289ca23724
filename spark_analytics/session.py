"""A Spark session that needs no preparation, opens no port to the world, and says nothing unasked."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_analytics.errors import CatalogueError
from spark_analytics.java import find_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What holds wherever it runs. Parquet times are written so that Arrow reads them as they are.
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

#: These write every error that they raise to the terminal as well.
_PYTHON_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

#: What holds on this machine only.
_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_running() -> bool:
    """Whether this process has a session already."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def build_session(
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    name: str = "rtmprelay catalogue",
    verbose: bool = False,
) -> SparkSession:
    """A session; the one that `spark-submit` or a notebook has begun, if there is one.

    Args:
        master: Where to run, as Spark writes it; None is all cores of this machine, or what `spark-submit` says.
        settings: Options of Spark that go before ours.
        verbose: Let Java say what it has to say.

    Raises:
        CatalogueError: Spark is not installed, or does not start.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise CatalogueError(
            f"This needs Spark ({error.name} is not installed): pip install 'rtmprelay[spark]'"
        ) from None
    # The workers must have the Python of this process, and not the first one on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    running = is_running()
    if not submitted and not running:
        os.environ["JAVA_HOME"] = find_java_home()
    builder = SparkSession.builder.appName(name)
    if not submitted:
        builder = builder.master(master or f"local[{cores()}]")
    for key, value in _all_settings(master, submitted, settings or {}).items():
        builder = builder.config(key, value)
    with _java_output(hidden=not verbose and not submitted and not running) as said:
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            raise CatalogueError(f"Spark does not start: {_reason(error, said)}") from error
        if not verbose:
            spark.sparkContext.setLogLevel("OFF")
            for logger in _PYTHON_LOGGERS:
                logging.getLogger(logger).disabled = True
    return spark


def _all_settings(master: str | None, submitted: bool, settings: Mapping[str, str]) -> dict[str, str]:
    local = not submitted and (master is None or master.startswith("local"))
    # One file for each core would be many for few rows.
    shuffles = {"spark.sql.shuffle.partitions": str(cores())} if local else {}
    return {**_SETTINGS, **(_LOCAL_SETTINGS if local else {}), **shuffles, **settings}


@contextmanager
def _java_output(hidden: bool) -> Iterator[str | None]:
    """Where Java says what it says while it starts, and ever after; None is the terminal.

    The process inherits the standard error of this one: there is no other way to give it another.
    """
    if not hidden:
        yield None
        return
    descriptor, path = tempfile.mkstemp(prefix="rtmprelay-spark-", suffix=".log")
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(descriptor, 2)
        yield path
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(descriptor)
        os.unlink(path)


def _reason(error: Exception, said: str | None) -> str:
    """The line of Java's that says most, or what Python says."""
    lines: list[str] = []
    if said is not None:
        with open(said, errors="replace") as file:
            lines = [line.strip() for line in file]
    telling = [line for line in lines if "Exception" in line or "Error" in line or "error" in line.lower()]
    first = str(error).strip().splitlines()
    return (telling or lines or first or [type(error).__name__])[-1 if not telling else 0][:500]
