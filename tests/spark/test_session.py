"""A session opens nothing to others."""

from __future__ import annotations

import argparse
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.cli.common import open_session
from spark_analytics.engine import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_nobody_else_can_talk_to_the_workers(spark: SparkSession) -> None:
    """The sockets between Java and Python are in a folder of ours."""
    assert spark.range(4).rdd.map(lambda row: row.id).sum() == 6
    assert spark.conf.get("spark.python.unix.domain.socket.enabled") == "true"
    folder = Path(str(spark.conf.get("spark.python.unix.domain.socket.dir")))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert any(stat.S_ISSOCK(path.stat().st_mode) for path in folder.iterdir())


def test_sockets_whose_paths_would_be_too_long_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 60)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    (setting,) = spark._private_folder()
    assert setting == "spark.sql.warehouse.dir"


def test_page_and_log_of_spark_are_off_on_this_machine_only() -> None:
    assert spark._all_settings(True, {})["spark.ui.enabled"] == "false"
    assert "spark.ui.enabled" not in spark._all_settings(False, {})
    assert (spark._log_level(True), spark._log_level(False)) == ("OFF", "WARN")


def log_level(spark: SparkSession) -> str:
    java = spark.sparkContext._jvm
    assert java is not None
    return str(java.org.apache.logging.log4j.LogManager.getRootLogger().getLevel())


def test_a_session_that_is_there_stays_as_it_is(spark: SparkSession) -> None:
    """Somebody's notebook, with a time zone and a log level of its own."""
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    theirs.conf.set("spark.sql.shuffle.partitions", "7")
    before = log_level(spark)
    spark.sparkContext.setLogLevel("ERROR")
    options = argparse.Namespace(master=None, conf=["spark.sql.shuffle.partitions=3"], verbose=False)
    spoiled: list[BaseException] = []

    def ask() -> None:
        try:
            with open_session(options) as ours:
                assert ours.conf.get("spark.sql.session.timeZone") == "UTC"
                assert ours.conf.get("spark.sql.shuffle.partitions") == "3"
                assert ours.range(3).count() == 3
        except BaseException as error:
            spoiled.append(error)

    try:
        ask()
        # Which session is there is known to the thread that began it; the others must not end it.
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        assert not spoiled
        assert theirs.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
        assert theirs.conf.get("spark.sql.shuffle.partitions") == "7"
        assert log_level(spark) == "ERROR"
        assert theirs.range(2).count() == 2
    finally:
        spark.sparkContext.setLogLevel(before)
