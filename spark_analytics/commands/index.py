"""`index`: reads new and changed recordings, and what is new in event logs, into a catalogue."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from spark_analytics.catalogue import Catalogue, Change
from spark_analytics.commands.common import add_spark_arguments, open_session, plain_errors
from spark_analytics.errors import CatalogueError
from spark_analytics.indexing.files import find_recordings
from spark_analytics.indexing.known import RECORDING_TABLES, is_outdated, known_recordings, paths_of_outdated
from spark_analytics.indexing.plan import Plan, Row, make_plan
from spark_analytics.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Bad files that are named at the end; `recordings` has them all.
_MOST_NAMED = 10

_FINE = ("ok", "growing")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    parser.add_argument(
        "recordings",
        nargs="*",
        metavar="RECORDINGS",
        help="folders, files or patterns; also s3://, hdfs://, gs:// ...",
    )
    parser.add_argument(
        "--out", required=True, metavar="CATALOGUE", help="the catalogue, made if it is not there"
    )
    parser.add_argument(
        "--events",
        "--event-log",
        dest="event_log",
        nargs="+",
        action="extend",
        default=[],
        metavar="DIR",
        help="event logs of the server: folders, files or patterns",
    )
    parser.add_argument(
        "--wait", type=float, default=0.0, metavar="SECONDS", help="wait so long for another run to end"
    )
    add_spark_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    if not options.recordings and not options.event_log:
        raise CatalogueError("Say what to index: folders with recordings, or --events DIR.")
    begin = time.monotonic()
    with (
        Progress(sys.stderr) as progress,
        ExitStack() as stack,
        Catalogue(options.out).change(options.wait) as change,
    ):
        report = _Index(options, progress, change, stack).run()
        progress.say("ending")
    seconds = time.monotonic() - begin
    for line in report:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"done in {seconds:.1f} s\n")
    return 0


class _Index:
    """One run."""

    def __init__(
        self, options: argparse.Namespace, progress: Progress, change: Change, stack: ExitStack
    ) -> None:
        self._options = options
        self._stack = stack
        self._progress = progress
        self._change = change
        self._session: SparkSession | None = None

    def run(self) -> list[str]:
        """Bring the catalogue up to date; what was done, line by line."""
        now = datetime.now(UTC)
        lines: list[str] = []
        changed = False
        if self._options.recordings:
            plan, known = self._plan(now)
            rows: list[Row] = []
            if not plan.is_empty:
                rows = self._index(plan, known, now)
                changed = True
            lines += describe(plan, rows)
        if self._options.event_log:
            from spark_analytics.event_logs.index import index_events

            with plain_errors():
                events = index_events(self._spark_for_events, self._change, self._options.event_log, now)
            lines.append(f"{events.read} of {events.files} event logs read, {events.events} events")
            if events.unreadable:
                lines.append(f"{events.unreadable} lines of event logs could not be understood")
            changed = changed or events.changed
        if changed:
            version = self._change.publish().manifest.version
            lines.append(f"{self._options.out} is version {version} now")
        else:
            lines.append(f"nothing is new: {self._options.out} stays as it is")
        return lines

    def _plan(self, now: datetime) -> tuple[Plan, dict[str, Row]]:
        self._progress.say("looking for recordings")
        base = self._change.base
        warnings: list[str] = []
        names = [*self._options.recordings, *paths_of_outdated(base)]
        if is_outdated(base):
            self._change.forget(table.name for table in RECORDING_TABLES)
            base = self._change.base
        listing = find_recordings(names, warnings.append)
        for warning in warnings:
            sys.stderr.write(f"{warning}\n")
        known = known_recordings(base)
        return make_plan(listing, known, now.timestamp()), known

    def _index(self, plan: Plan, known: dict[str, Row], now: datetime) -> list[Row]:
        from spark_analytics.indexing.job import index_recordings

        spark = self._spark()
        size = sum(file.size for file in plan.read)
        self._progress.say(f"reading {len(plan.read)} recordings, {size / 1e9:.2f} GB", spark)
        with plain_errors():
            return index_recordings(spark, self._change, plan, known, now)

    def _spark_for_events(self) -> SparkSession:
        spark = self._spark()
        self._progress.say("reading event logs", spark)
        return spark

    def _spark(self) -> SparkSession:
        if self._session is None:
            self._progress.say("starting Spark")
            self._session = self._stack.enter_context(open_session(self._options))
        return self._session


def describe(plan: Plan, rows: Sequence[Row]) -> list[str]:
    """What was done with recordings, line by line."""
    hours = sum(row["duration_ms"] for row in rows) / 3_600_000
    size = sum(row["size"] for row in rows) / 1e9
    lines = [
        f"{len(rows)} recordings read ({hours:.2f} h, {size:.2f} GB), {plan.kept} unchanged, {len(plan.vanished)} vanished"
    ]
    states = Counter(row["status"] for row in rows)
    if rows:
        damaged = len(rows) - sum(states[state] for state in _FINE)
        parts = ", ".join(f"{count} {state}" for state, count in states.most_common())
        lines.append(f"{parts} ({damaged} damaged)")
    bad = [row for row in rows if row["status"] not in _FINE]
    lines += [_describe_bad(row) for row in bad[:_MOST_NAMED]]
    if len(bad) > _MOST_NAMED:
        lines.append(
            f"  ... and {len(bad) - _MOST_NAMED} more: SELECT path, status FROM recordings WHERE status <> 'ok'"
        )
    return lines


def _describe_bad(row: dict[str, Any]) -> str:
    path = os.path.relpath(row["path"]) if row["path"].startswith(os.getcwd() + os.sep) else row["path"]
    why = row["error"] or f"{row['lost_bytes']} of {row['size']} bytes lost"
    return f"  {row['status']}: {path} ({why})"
