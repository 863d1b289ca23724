"""Brings the tables of recordings up to date: reads what is new, and leaves all files alone that have no rows of that.

Some hundred megabytes are read in this process, before Spark would have started. A night costs what is new: rows of
recordings that still grow are in files of their own, which are replaced when these were read again. No other file is
written anew, unless one of its recordings has changed or vanished.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.recordings.plan import GROWING, UNREADABLE, Plan, Row, make_tasks, tells_news
from spark_analytics.recordings.results import Reading
from spark_analytics.recordings.rows import DETAIL_ROWS
from spark_analytics.recordings.sessions import update_sessions
from spark_analytics.recordings.tasks import Scan, scan, scan_here
from spark_analytics.store.change import Change
from spark_analytics.store.part_files import PartFile, dataset_of
from spark_analytics.store.schema import RECORDINGS, Table
from spark_analytics.store.tables import TABLES

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


#: A row may be some hours before the start of its recording or after its end: timestamps are what they are.
_AROUND = timedelta(days=1)

#: A recording that seems to last longer than this may have rows on any day.
_MOST_DAYS = 60


@attrs.frozen
class Again:
    """Recordings that have rows already: their rows are in files of these days.

    Attributes:
        days: None stands for any.
    """

    ids: frozenset[str]
    days: frozenset[date] | None

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Again:
        """From rows of `recordings`."""
        rows = list(rows)
        days: set[date] = set()
        for row in rows:
            if row["started_at"] is None or row["ended_at"] is None:
                return cls(frozenset(row["file_id"] for row in rows), None)
            first, last = row["started_at"] - _AROUND, row["ended_at"] + _AROUND
            if last - first > timedelta(days=_MOST_DAYS):
                return cls(frozenset(row["file_id"] for row in rows), None)
            days.update((first + timedelta(days=n)).date() for n in range((last - first).days + 2))
        return cls(frozenset(row["file_id"] for row in rows), frozenset(days))

    def files(self, change: Change, table: Table) -> list[PartFile]:
        """The files that have rows of them."""
        if not self.ids:
            return []
        possible = [
            file for file in change.base.files(table.name) if self.days is None or file.day in self.days
        ]
        folder = change.base.folder(table.name)
        return [
            file
            for file in possible
            if dataset_of(folder, table, [file]).head(1, columns=["file_id"], filter=self.rows).num_rows
        ]

    @property
    def rows(self) -> pc.Expression:
        """Whether a row is of them."""
        return pc.field("file_id").isin(pa.array(sorted(self.ids), pa.string()))


#: The last rows of a recording that still grows change with its next frames. They are in a file apart, so that the file of
#: all those before can stay.
_LAST_ROWS = timedelta(seconds=15)


def put_rows(
    change: Change, table: Table, again: Again, rows: pa.Table, growing: Mapping[str, datetime]
) -> None:
    """Put new rows into a table, in the place of those of the recordings that were read again. What was open and is the
    same as before is not written again.

    Args:
        growing: The recordings whose rows are open, by their `file_id`, with their ends.
    """
    files = again.files(change, table)
    same, rows = _same_as_before(change, table, files, rows)
    is_open, is_last = _open_rows(rows, growing)
    kept = keep_others(change, table, again, [file for file in files if file not in same])
    for kind, tables in (
        (False, [rows.filter(pc.invert(is_open)), *kept[False]]),
        (True, [rows.filter(pc.and_not(is_open, is_last)), *kept[True]]),
        (True, [rows.filter(is_last)]),
    ):
        together = pa.concat_tables(tables)
        if together.num_rows:
            change.add(table.name, together, kind)


def _open_rows(rows: pa.Table, growing: Mapping[str, datetime]) -> tuple[pa.Array, pa.Array]:
    """Which rows are open, and which of these are the last of their recording."""
    ids = pa.array(list(growing), pa.string())
    ends = pa.array([end - _LAST_ROWS for end in growing.values()], rows.schema.field("wall").type)
    where = pc.index_in(rows["file_id"].combine_chunks(), value_set=ids)
    is_last = pc.greater_equal(rows["wall"].combine_chunks(), ends.take(where))
    return pc.is_valid(where), pc.fill_null(is_last, False)


def _same_as_before(
    change: Change, table: Table, files: Iterable[PartFile], rows: pa.Table
) -> tuple[set[PartFile], pa.Table]:
    """The open files whose rows are all among the new ones, and the new ones without these."""
    opened = [file for file in files if file.is_open]
    keys = _keys(rows, table) if opened else None
    if keys is None or pc.count_distinct(keys).as_py() < len(keys):
        return set(), rows
    same: set[PartFile] = set()
    for file in opened:
        before = _keys(change.base.arrow(table.name, files=[file]), table)
        if pc.all(pc.is_in(before, value_set=keys)).as_py() and pc.count_distinct(before).as_py() == len(
            before
        ):
            same.add(file)
            is_new = pc.invert(pc.is_in(keys, value_set=before))
            rows, keys = rows.filter(is_new), keys.filter(is_new)
    return same, rows


def _keys(rows: pa.Table, table: Table) -> pa.Array:
    """All that is in each row, as one text."""
    texts = [pc.fill_null(rows[name].combine_chunks().cast(pa.string()), "\0") for name in table.column_names]
    return pc.binary_join_element_wise(*texts, "\x1f")


def keep_others(
    change: Change, table: Table, again: Again, files: Iterable[PartFile]
) -> dict[bool, list[pa.Table]]:
    """Drop files; what they have of other recordings, of the open files and of the others."""
    files = list(files)
    kept: dict[bool, list[pa.Table]] = {True: [], False: []}
    for file in files:
        rows = change.base.arrow(table.name, where=~again.rows, files=[file])
        if rows.num_rows:
            kept[file.is_open].append(rows)
    change.drop(table.name, files)
    return kept


def update_recordings(
    change: Change, plan: Plan, known: Mapping[str, Row], rows: pa.Table, now: datetime
) -> None:
    """Bring `recordings` and `sessions` up to date.

    Args:
        known: Rows of before, by path.
        rows: Rows of the files that were read.
    """
    read = [known[path] for path in rows["path"].to_pylist() if path in known]
    marked = {row["file_id"]: now for row in plan.vanished} | {row["file_id"]: None for row in plan.returned}
    touched = [*read, *plan.vanished, *plan.returned]
    again = Again.of({**row, "ended_at": row["started_at"]} for row in touched)
    lots: dict[bool, list[pa.Table]] = {True: [], False: []}
    is_open = pc.equal(rows["status"], GROWING)
    lots[True].append(rows.filter(is_open))
    lots[False].append(rows.filter(pc.invert(is_open)))
    files = again.files(change, RECORDINGS)
    read_ids = pa.array([row["file_id"] for row in read], pa.string())
    for file in files:
        before = change.base.arrow(RECORDINGS.name, files=[file])
        kept = before.filter(pc.invert(pc.is_in(before["file_id"], value_set=read_ids)))
        lots[file.is_open].append(_marked(kept, marked))
    change.drop(RECORDINGS.name, files)
    for kind, tables in lots.items():
        together = pa.concat_tables(tables)
        if together.num_rows:
            change.add(RECORDINGS.name, together, kind)
    update_sessions(change, [*touched, *rows.select(["app", "stream", "started_at", "ended_at"]).to_pylist()])


def _marked(rows: pa.Table, since: Mapping[str, datetime | None]) -> pa.Table:
    """Rows with when they vanished, or that they are there again."""
    ids = pa.array(list(since), pa.string())
    number = rows.schema.get_field_index("vanished_at")
    times = pa.array(list(since.values()), rows.schema.field(number).type)
    where = pc.index_in(rows["file_id"], value_set=ids)
    new = pc.if_else(pc.is_valid(where), times.take(where.combine_chunks()), rows["vanished_at"])
    return rows.set_column(number, rows.schema.field(number), new)


def has_details(row: Row | None) -> bool:
    """Whether a file may have rows in the tables of seconds, keyframes and incidents."""
    return row is not None and row["status"] != UNREADABLE


#: How often, and after how many seconds each, it is looked whether more machines have come.
_MOST_LOOKS = 10
_LOOK_EVERY = 0.5

#: Up to so many rows are written from here: that is faster than a job of Spark. More are written by the workers.
_FEW_ROWS = 500_000

#: Up to so many bytes are read in this process. That takes a second or two, and to start Spark takes ten.
MOST_BYTES_HERE = 512 * 1024 * 1024

#: By which columns of `recordings` it is told whether anything is new.
_TELLING = ["path", "size", "mtime_ns", "status", "error"]


def index_recordings(
    open_spark: Callable[[], SparkSession],
    change: Change,
    plan: Plan,
    known: Mapping[str, Row],
    now: datetime,
    here: bool = True,
) -> pa.Table:
    """Put what a plan says into the tables of a change, which the caller publishes.

    Args:
        open_spark: Called if there is much to read.
        known: Rows of `recordings` of before by their paths.
        here: Whether a little may be read in this process.

    Returns the rows of `recordings` of the files that were read. If they tell nothing new, nothing is written.
    """
    rows = RECORDINGS.arrow_schema().empty_table()
    if not plan.read:
        update_recordings(change, plan, known, rows, now)
        return rows
    reading = Reading(change.run, now)
    scanned = _scan_here(plan, reading) if here else None
    spark = open_spark() if scanned is None else None
    with _scanned(spark, plan, reading) if scanned is None else nullcontext(scanned) as found:
        rows = found.recordings.select(RECORDINGS.column_names)
        if not tells_news(plan, rows.select(_TELLING).to_pylist(), known):
            return rows
        again = Again.of(known[file.path] for file in plan.read if has_details(known.get(file.path)))
        is_open = rows.filter(pc.equal(rows["status"], GROWING)).select(["file_id", "ended_at"]).to_pylist()
        growing = {row["file_id"]: row["ended_at"] for row in is_open}
        # All at once: each of them alone would leave cores idle.
        with ThreadPoolExecutor(len(DETAIL_ROWS)) as threads:
            for done in [
                threads.submit(_write_table, spark, change, again, growing, found, TABLES[table])
                for table in DETAIL_ROWS
            ]:
                done.result()
        update_recordings(change, plan, known, rows, now)
    return rows


def _write_table(
    spark: SparkSession | None,
    change: Change,
    again: Again,
    growing: Mapping[str, datetime],
    found: Scan,
    table: Table,
) -> None:
    if found.is_here:
        put_rows(change, table, again, found.rows(table.name), growing)
        return
    assert spark is not None
    put_rows(change, table, again, table.arrow_schema().empty_table(), growing)
    change.add(table.name, found.frame(spark, table.name), open_ids=frozenset(growing))


def _scan_here(plan: Plan, reading: Reading) -> Scan | None:
    """What was read in this process; None if that is too much."""
    if sum(file.size for file in plan.read) > MOST_BYTES_HERE:
        return None
    return scan_here(plan.read, make_tasks(plan.read, 1), reading, _FEW_ROWS)


def _scanned(spark: SparkSession | None, plan: Plan, reading: Reading) -> AbstractContextManager[Scan]:
    assert spark is not None
    tasks = make_tasks(plan.read, cores_at_hand(spark.sparkContext))
    return scan(spark, plan.read, tasks, reading, _FEW_ROWS)


def cores_at_hand(context: SparkContext, pause: Callable[[float], None] = time.sleep) -> int:
    """How many tasks can run at once. The machines of a cluster come one by one, and before the first of them Spark says two."""
    if (context.master or "").startswith("local"):
        return context.defaultParallelism
    # This waits for the first one.
    context.parallelize([0], 1).count()
    cores = context.defaultParallelism
    for _ in range(_MOST_LOOKS):
        pause(_LOOK_EVERY)
        before, cores = cores, context.defaultParallelism
        if cores == before:
            break
    return cores
