"""What several commands have in common."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from spark_analytics.cli.output import told_if_long, write_rows
from spark_analytics.errors import CatalogueError
from spark_analytics.questions.ask import ALWAYS, Scope, TimeWindow, midnight_of
from spark_analytics.store.versions import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_analytics.questions.ask import Engine
    from spark_analytics.store.versions import Snapshot


#: What Spark calls any error of a worker that writes.
_COULD_NOT_WRITE = "[TASK_WRITE_FAILED]"


def add_catalogue_argument(parser: argparse.ArgumentParser) -> None:
    """Which catalogue is asked."""
    parser.add_argument(
        "--catalogue", default="catalogue", metavar="DIR", help="the catalogue (default: %(default)s)"
    )
    add_as_of_argument(parser)


def add_as_of_argument(parser: argparse.ArgumentParser) -> None:
    """Which version of it."""
    parser.add_argument(
        "--as-of",
        metavar="VERSION",
        help="ask an earlier version: its number, or a time at which it was the newest (see `versions`)",
    )


def open_snapshot(options: argparse.Namespace) -> Snapshot:
    """The version of the catalogue that the options name."""
    from spark_analytics.catalogue import Catalogue

    text = options.as_of
    if text is None:
        return Catalogue(options.catalogue).open()
    return Catalogue(options.catalogue).open(int(text) if text.isdecimal() else parse_time(text))


def add_writer_arguments(parser: argparse.ArgumentParser) -> None:
    """What commands have that change a catalogue which is there."""
    parser.add_argument(
        "--catalogue", default="catalogue", metavar="DIR", help="the catalogue (default: %(default)s)"
    )
    parser.add_argument(
        "--wait", type=float, default=0.0, metavar="SECONDS", help="wait so long for another run to end"
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


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Who answers a question."""
    parser.add_argument(
        "--master",
        metavar="URL",
        help="let Spark answer: local[4], spark://host:7077 ... (default: DuckDB answers, without Java)",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of Spark, which answers then; may be repeated",
    )
    parser.add_argument("--verbose", action="store_true", help="let Spark say what it has to say")


def settings_of(options: argparse.Namespace) -> dict[str, str]:
    """The options of Spark that were given.

    Raises:
        CatalogueError: One of them is none.
    """
    settings = {}
    for setting in options.conf:
        key, sign, value = setting.partition("=")
        if not sign or not key:
            raise CatalogueError(f"--conf {setting}: write KEY=VALUE, such as spark.driver.memory=4g.")
        settings[key.strip()] = value
    return settings


def chooses_spark(options: argparse.Namespace) -> bool:
    """Whether somebody has said where Spark runs, or how: then it is to do the work, however little there is."""
    return options.master is not None or bool(options.conf) or "PYSPARK_GATEWAY_PORT" in os.environ


@contextmanager
def open_engine(options: argparse.Namespace) -> Iterator[Engine]:
    """What answers questions about the catalogue: DuckDB here, or Spark if the options say where it runs."""
    from spark_analytics.engine.duck import DuckEngine

    snapshot = open_snapshot(options)
    if options.master is None and not options.conf:
        with closing(DuckEngine(snapshot, told_if_long)) as engine:
            yield engine
        return
    from spark_analytics.engine.spark import SparkEngine

    with ExitStack() as stack:
        with told_if_long("starting Spark"):
            spark = stack.enter_context(open_session(options))
        stack.enter_context(plain_errors())
        yield SparkEngine(spark, snapshot, told_if_long)


@contextmanager
def open_session(options: argparse.Namespace) -> Iterator[SparkSession]:
    """A session as the options want it; it ends with the command, unless it was there before. Workers elsewhere get this
    package sent.
    """
    from spark_analytics.engine.spark import session_for_a_while, shipped_package

    with (
        session_for_a_while(options.master, settings_of(options), options.verbose) as spark,
        shipped_package(spark),
    ):
        yield spark


@contextmanager
def plain_errors() -> Iterator[None]:
    """What Spark complains about in hundreds of lines, in one."""
    try:
        yield
    except Exception as error:
        if not _is_of_spark(error):
            raise
        said = _telling_line(str(error)) or type(error).__name__
        if _COULD_NOT_WRITE in said:
            # Why, is a few causes below: a full disk, most of the time.
            said = f"Spark could not write the catalogue: {_first_cause(error) or said}"
        raise CatalogueError(said) from error


def _first_cause(error: Exception) -> str:
    """What Java says of where it all began."""
    cause: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    message = str(cause.getMessage() or "") if cause is not None else ""
    return message.strip().partition("\n")[0]


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


def add_time_arguments(parser: argparse.ArgumentParser) -> None:
    """From when to when."""
    help_text = "2026-01-01T12:34:56 (UTC), today, yesterday, or 1d for a day ago"
    parser.add_argument("--since", metavar="TIME", help=help_text)
    parser.add_argument("--until", metavar="TIME", help="the same; what is at that time is not counted")


def window_of(options: argparse.Namespace) -> TimeWindow:
    """From when to when.

    Raises:
        CatalogueError: That is no time, or the end is before the beginning.
    """
    since = parse_time(options.since) if options.since else None
    until = parse_time(options.until) if options.until else None
    if since is not None and until is not None and since > until:
        raise CatalogueError(f"--since {options.since} is later than --until {options.until}.")
    return TimeWindow(since, until)


def parse_time(text: str) -> datetime:
    """A moment: `2026-01-01T12:34:56`, `2026-01-01 12:34`, `2026-01-01`, with an offset or in UTC; or `2h` ago,
    or `today` or `yesterday`, where they begin in UTC.

    Raises:
        CatalogueError: It is none.
    """
    try:
        return _moment_of(text)
    except OverflowError:
        raise CatalogueError(f"{text} is beyond the years 1 to 9999.") from None
    except ValueError:
        raise CatalogueError(
            f"{text} is no time: write 2026-01-01T12:34:56 (UTC, unless it has an offset such as +01:00), today, yesterday, or 2h for two hours ago."
        ) from None


def _moment_of(text: str) -> datetime:
    midnight = midnight_of(datetime.now(UTC))
    days_ago = {"today": 0, "yesterday": 1}
    if text in days_ago:
        return midnight - timedelta(days=days_ago[text])
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    if text[:-1].isdecimal() and text[-1] in units and len(text) < 8:
        return datetime.now(UTC) - timedelta(**{units[text[-1]]: int(text[:-1])})
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def scope_of(options: argparse.Namespace, key: str | None = None) -> Scope:
    """Which rows the options ask for."""
    return Scope(window_of(options), key)


def in_time(scope: Scope, sentence: str) -> str:
    """A sentence about what there is not; with a time, only that is meant."""
    return sentence if scope.window == ALWAYS else f"{sentence} in this time"


def write_dicts(rows: Sequence[dict[str, Any]], form: str, snapshot: Snapshot, nothing: str) -> int:
    """Write an answer; if there is none, say what that means. The exit status."""
    if rows:
        columns = list(rows[0])
        write_rows(sys.stdout, columns, [[row[name] for name in columns] for row in rows], form)
    elif not snapshot.has("event_files"):
        sys.stderr.write(
            f"{snapshot.root} has no event logs: start the server with --event-log DIR, and index with --events DIR\n"
        )
    else:
        sys.stderr.write(f"{nothing}\n")
    return 0
