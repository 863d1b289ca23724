"""What several commands have in common."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from spark_analytics.errors import CatalogueError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_catalogue_argument(parser: argparse.ArgumentParser) -> None:
    """Which catalogue is asked."""
    parser.add_argument(
        "--catalogue", default="catalogue", metavar="DIR", help="the catalogue (default: %(default)s)"
    )


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    """Where Spark runs, and how."""
    parser.add_argument(
        "--master",
        metavar="URL",
        help="where Spark runs: local[4], spark://host:7077 ... (default: all cores here)",
    )
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="an option of Spark; may be repeated"
    )
    parser.add_argument("--verbose", action="store_true", help="let Spark say what it has to say")


@contextmanager
def open_session(options: argparse.Namespace) -> Iterator[SparkSession]:
    """A session as the options want it; it ends with the command, unless it was there before. Workers elsewhere get this
    package sent.
    """
    from spark_analytics.packaging import shipped_package
    from spark_analytics.session import build_session, is_running

    settings = {}
    for setting in options.conf:
        key, sign, value = setting.partition("=")
        if not sign or not key:
            raise CatalogueError(f"--conf {setting}: write KEY=VALUE, such as spark.driver.memory=4g.")
        settings[key.strip()] = value
    was_running = is_running()
    spark = build_session(options.master, settings, verbose=options.verbose)
    with shipped_package(spark):
        try:
            yield spark
        finally:
            if not was_running:
                spark.stop()


@contextmanager
def plain_errors() -> Iterator[None]:
    """What Spark complains about in hundreds of lines, in one."""
    try:
        yield
    except Exception as error:
        if not _is_of_spark(error):
            raise
        raise CatalogueError(_telling_line(str(error)) or type(error).__name__) from error


def _is_of_spark(error: Exception) -> bool:
    """Whether Spark raised it. Nothing is imported for that: what is not there has raised nothing."""
    names = {f"{kind.__module__}.{kind.__name__}" for kind in type(error).__mro__}
    return not names.isdisjoint(
        {"pyspark.errors.exceptions.base.PySparkException", "py4j.protocol.Py4JError"}
    )


def _telling_line(text: str) -> str:
    """The line that says most: that of the Python worker if it was one, and otherwise the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any("PythonException" in line or line.startswith("Traceback") for line in lines):
        named = [line for line in lines if re.match(r"[A-Za-z_.]*(Error|Exception)\b.*: ", line)]
        return named[-1] if named else lines[0]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        # The next one says which.
        return lines[1].removeprefix(": ")
    return lines[0] if lines else ""


def parse_time(text: str) -> datetime:
    """A moment: `2026-01-01T12:34:56`, `2026-01-01 12:34`, `2026-01-01`, with an offset or in UTC; or `2h` ago,
    or `today` or `yesterday`, where they begin in UTC.

    Raises:
        CatalogueError: It is none.
    """
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days_ago = {"today": 0, "yesterday": 1}
    if text in days_ago:
        return midnight - timedelta(days=days_ago[text])
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    if text[:-1].isdecimal() and text[-1] in units and len(text) < 8:
        return datetime.now(UTC) - timedelta(**{units[text[-1]]: int(text[:-1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CatalogueError(
            f"{text} is no time: write 2026-01-01T12:34:56 (UTC, unless it has an offset such as +01:00), or 2h for two hours ago."
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
