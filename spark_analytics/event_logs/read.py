"""Reads what is new in event logs into the table `events`: here, or with Spark if that would take too long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import date
from typing import TYPE_CHECKING, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.catalogue import Change
from spark_analytics.event_logs.copies import Row
from spark_analytics.event_logs.derive import (
    DuckWorkbench,
    SparkWorkbench,
    count_events,
    duck_workbench,
    spark_workbench,
)
from spark_analytics.event_logs.lines import CANNOT_READ, LogSplit, read_in_workers, read_split
from spark_analytics.event_logs.parse import UNREADABLE
from spark_analytics.event_schemas import EVENTS
from spark_analytics.store.part_files import PartFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Starts Spark, or gives the session that there is.
OpenSpark: TypeAlias = "Callable[[], SparkSession]"

#: Up to so much text is read in this process, which takes a few seconds; to start Spark would take longer.
MOST_TEXT_HERE = 64 * 1024 * 1024

#: Up to so many events are worked on in this process.
MOST_EVENTS_HERE = 300_000

#: Lines that are no event are in the folder of this day.
_NO_DAY = date(1970, 1, 1)


@attrs.frozen
class NewEvents:
    """What was added to `events`.

    Attributes:
        files: Where it is; none if nothing was.
        counted: A row for each file and server.
        refused: Why files could not be read to their end, by `file_id`.
    """

    files: tuple[PartFile, ...] = ()
    counted: list[Row] = attrs.field(factory=list)
    refused: dict[str, str] = attrs.field(factory=dict)

    @property
    def count(self) -> int:
        """How many events there are."""
        return sum(row["events"] for row in self.counted)


def read_new_events(open_spark: OpenSpark, change: Change, splits: list[LogSplit]) -> NewEvents:
    """Add what is new to `events`: of each file all up to the first place that could not be read."""
    if not splits:
        return NewEvents()
    rows = _rows_here(splits)
    if rows is None:
        return _read_with_spark(open_spark(), change, splits)
    refusals = _first_refusals(rows.filter(_is_refusal(rows)).to_pylist())
    for refusal in refusals:
        of_file = pc.equal(rows["file_id"], refusal["file_id"])
        rows = rows.filter(pc.invert(pc.and_(of_file, pc.greater(rows["line_end"], refusal["line_end"]))))
    rows = rows.filter(pc.invert(_is_refusal(rows)))
    refused = {row["file_id"]: row["reason"] for row in refusals}
    if not len(rows):
        return NewEvents(refused=refused)
    files = change.add(EVENTS.name, rows)
    with duck_workbench() as bench:
        bench.add("counted_events", rows)
        return NewEvents(files, count_events(bench), refused)


def _rows_here(splits: Sequence[LogSplit]) -> pa.Table | None:
    """The rows of all splits; None if they are too many."""
    if sum(split.finish - split.begin for split in splits if split.finish is not None) > MOST_TEXT_HERE:
        return None
    batches: list[pa.RecordBatch] = []
    text = 0
    for split in splits:
        for batch in read_split(split):
            batches.append(batch)
            # What a compressed file says of its size is not to be trusted.
            text += batch.nbytes
            if text > 2 * MOST_TEXT_HERE:
                return None
    return pa.Table.from_batches(batches, EVENTS.arrow_schema())


def _is_refusal(rows: pa.Table) -> pa.ChunkedArray:
    """Of each row, whether it tells that the system did not give the rest of its file."""
    is_refused = pc.and_(
        pc.equal(rows["event"], UNREADABLE), pc.starts_with(pc.fill_null(rows["reason"], ""), CANNOT_READ)
    )
    return pc.fill_null(is_refused, False)


def _first_refusals(rows: Iterable[Row]) -> list[Row]:
    """Of each file the first."""
    first: dict[str, Row] = {}
    for row in rows:
        known = first.get(row["file_id"])
        if known is None or row["line_end"] < known["line_end"]:
            first[row["file_id"]] = row
    return list(first.values())


def _read_with_spark(spark: SparkSession, change: Change, splits: list[LogSplit]) -> NewEvents:
    files = change.add(EVENTS.name, read_in_workers(spark, splits))
    refused = (pc.field("event") == UNREADABLE) & pc.starts_with(pc.field("reason"), CANNOT_READ)
    of_no_day = [file for file in files if file.day == _NO_DAY]
    rows = change.arrow(EVENTS.name, of_no_day, refused).select(["file_id", "line_end", "reason"])
    refusals = _first_refusals(rows.to_pylist())
    if refusals:
        files = _leave_out(spark, change, files, refusals)
    counted: list[Row] = []
    if files:
        with spark_workbench(spark) as bench:
            bench.add_frame("counted_events", change.read(spark, EVENTS.name, files))
            counted = count_events(bench)
    return NewEvents(files, counted, {row["file_id"]: row["reason"] for row in refusals})


def _leave_out(
    spark: SparkSession, change: Change, files: tuple[PartFile, ...], refusals: list[Row]
) -> tuple[PartFile, ...]:
    """Write the new events anew, without what comes after a refusal: the next run reads that again, and in one piece.

    Returns where they are.
    """
    from pyspark.sql import functions as fn

    gaps = spark.createDataFrame(
        [(row["file_id"], row["line_end"]) for row in refusals], "id string, gap bigint"
    )
    written = change.read(spark, EVENTS.name, files)
    is_refusal = f"event = '{UNREADABLE}' AND startswith(reason, '{CANNOT_READ}')"
    read = written.join(fn.broadcast(gaps), fn.expr("file_id = id"), "left").where(
        f"(gap IS NULL OR line_end <= gap) AND NOT ({is_refusal})"
    )
    left = change.add(EVENTS.name, read)
    change.drop(EVENTS.name, files)
    return left


def workbench_for(
    events: int, open_spark: OpenSpark
) -> AbstractContextManager[DuckWorkbench] | AbstractContextManager[SparkWorkbench]:
    """Where so many events are worked on."""
    return duck_workbench() if events <= MOST_EVENTS_HERE else spark_workbench(open_spark())


def add_events(
    bench: DuckWorkbench | SparkWorkbench, name: str, change: Change, table: str, files: Iterable[PartFile]
) -> None:
    """Give the rows of some files of a table a name on a workbench."""
    if isinstance(bench, SparkWorkbench):
        bench.add_frame(name, change.read(bench.spark, table, files))
    else:
        bench.add(name, change.arrow(table, files))


def count_table(open_spark: OpenSpark, change: Change) -> Iterator[Row]:
    """What events that are there tell of files and servers."""
    files = change.base.files(EVENTS.name)
    with workbench_for(sum(file.rows for file in files), open_spark) as bench:
        add_events(bench, "counted_events", change, EVENTS.name, files)
        yield from count_events(bench)
