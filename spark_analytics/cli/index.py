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
from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs

from spark_analytics.catalogue import Catalogue, has_first_form, take_over
from spark_analytics.cli.common import (
    add_spark_arguments,
    chooses_spark,
    open_session,
    plain_errors,
    settings_of,
)
from spark_analytics.cli.output import Progress, printable
from spark_analytics.errors import CatalogueError, NothingThereError
from spark_analytics.event_logs.logs import check_place
from spark_analytics.recordings.discover import Listing, check_places, find_again, find_recordings, place_of
from spark_analytics.recordings.plan import (
    Known,
    Plan,
    Row,
    make_plan,
    outdated_tables,
    paths_still_there,
    tells_news,
)
from spark_analytics.store.change import Change

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Bad files that are named at the end; `recordings` has them all.
_MOST_NAMED = 10

_FINE = ("ok", "growing")

#: Characters of what the list of versions says of one.
_LONGEST_NOTE = 500

#: What is said of files that were read.
_DESCRIBED = ["path", "duration_ms", "size", "mtime_ns", "status", "error", "lost_bytes"]


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
        "--gone",
        action="append",
        default=[],
        metavar="PLACE",
        help="a place that was moved or deleted as a whole: its recordings are marked as vanished; may be repeated",
    )
    parser.add_argument(
        "--wait", type=float, default=0.0, metavar="SECONDS", help="wait so long for another run to end"
    )
    add_spark_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    if not options.recordings and not options.event_log and not options.gone:
        raise CatalogueError("Say what to index: folders with recordings, or --events DIR.")
    _check(options)
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


def _check(options: argparse.Namespace) -> None:
    """Find mistakes before anything is begun."""
    settings_of(options)
    for place in options.event_log:
        check_place(place)
    try:
        check_places(options.recordings)
    except NothingThereError as error:
        raise NothingThereError(
            f"{error} If it was moved or deleted for good, name it behind --gone instead."
        ) from None


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
        self._outdated: list[str] = []
        self._published = False

    def run(self) -> list[str]:
        """Bring the catalogue up to date; what was done, line by line."""
        now = datetime.now(UTC)
        lines: list[str] = []
        changed = False
        if has_first_form(self._change.base.root):
            take_over(self._change)
            lines.append(
                f"{self._options.out} was a catalogue of the first form: what is there was indexed anew, what is gone was kept"
            )
        if self._options.recordings or self._options.gone:
            plan, known = self._plan(now)
            rows: Sequence[Row] = ()
            if not plan.is_empty:
                rows, changed = self._index(plan, known, now)
            if self._outdated:
                self._change.upgrade(self._outdated)
                changed = True
            lines += describe(plan, rows)
        if self._options.event_log:
            from spark_analytics.event_logs.update import index_events
            from spark_analytics.recordings.sessions import join_moved

            with plain_errors():
                events = index_events(self._spark_for_events, self._change, self._options.event_log, now)
                join_moved(self._change)
            if events.files:
                lines.append(f"{events.read} of {events.files} event logs read, {events.events} events")
            else:
                lines.append(
                    "no event logs were found; in a folder they are called events_*.jsonl or events_*.jsonl.gz"
                )
            if events.unreadable:
                lines.append(f"{events.unreadable} lines of event logs could not be understood")
            if events.refused:
                lines.append(
                    f"{events.refused} event logs could not be read; the next run tries again: "
                    "SELECT path, error FROM event_files WHERE status = 'unreadable'"
                )
            changed = changed or events.changed
        if changed:
            version = self._change.publish(f"index: {'; '.join(lines)}"[:_LONGEST_NOTE]).version
            lines.append(f"{self._options.out} is version {version} now")
        elif self._published:
            lines.append(f"{self._options.out} is version {self._change.base.version} now")
        elif self._change.base.version:
            lines.append(f"nothing is new: {self._options.out} stays as it is")
        else:
            lines.append("nothing was found: there is no catalogue yet")
        return lines

    def _plan(self, now: datetime) -> tuple[Plan, dict[str, Row]]:
        self._progress.say("looking for recordings")
        base = self._change.base
        warnings: list[str] = []
        self._outdated = outdated_tables(base)
        # Those of other places are looked at again, too.
        others = paths_still_there(base) if self._outdated else []
        self._change.hold(self._outdated)
        listing = find_recordings(self._options.recordings, warnings.append)
        listing.files.update(find_again(others, warnings.append))
        for warning in warnings:
            sys.stderr.write(f"{printable(warning)}\n")
        known = Known.of(base)
        _refuse_futile(listing, known)
        gone = tuple(place_of(name) for name in self._options.gone)
        listing = attrs.evolve(listing, places=(*listing.places, *gone))
        anew = bool(self._outdated)
        left, rows = known.changed(listing, anew)
        unchanged = len(listing.files) - len(left.files)
        return make_plan(left, rows, now.timestamp(), anew, unchanged), rows

    def _index(self, plan: Plan, known: dict[str, Row], now: datetime) -> tuple[Sequence[Row], bool]:
        """Read what is new, batch by batch; what is told of it, and whether there is anything left to publish."""
        from spark_analytics.recordings.job import MOST_BYTES_HERE, index_recordings

        told: list[Row] = []
        changed = False
        batches = plan.batches()
        size = sum(file.size for file in plan.read)
        here = not chooses_spark(self._options) and size <= MOST_BYTES_HERE
        for number, batch in enumerate(batches, 1):
            if changed:
                self._change.publish(f"index: {len(told)} of {len(plan.read)} recordings read")
                self._published = True
            size = sum(file.size for file in batch.read)
            part = f" (part {number} of {len(batches)})" if len(batches) > 1 else ""
            reading = f"reading {len(batch.read)} recordings, {size / 1e9:.2f} GB{part}"
            if here:
                self._progress.say(reading)

            def open_spark(reading: str = reading) -> SparkSession:
                spark = self._spark()
                self._progress.say(reading, spark)
                return spark

            with plain_errors():
                found = index_recordings(open_spark, self._change, batch, known, now, here)
            rows: list[Row] = found.select(_DESCRIBED).to_pylist()
            changed = tells_news(batch, rows, known)
            told += rows
        return told, changed

    def _spark_for_events(self) -> SparkSession:
        spark = self._spark()
        self._progress.say("reading event logs", spark)
        return spark

    def _spark(self) -> SparkSession:
        if self._session is None:
            self._progress.say("starting Spark")
            self._session = self._stack.enter_context(open_session(self._options))
        return self._session


def _refuse_futile(listing: Listing, known: Known) -> None:
    """A pattern that means nothing, and never did, is a slip of the pen."""
    for place in listing.places:
        if place.pattern is not None and not any(map(place.covers, chain(listing.files, known.paths()))):
            raise CatalogueError(f"Nothing matches {place.pattern}.")


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
        lines.append(f"{parts} ({damaged} with something wrong)" if damaged else parts)
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
    return printable(f"  {row['status']}: {path} ({why})")
