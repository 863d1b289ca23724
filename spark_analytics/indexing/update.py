"""Puts what was read of some recordings into the tables, and leaves all files alone that have no rows of these.

A night costs what is new: rows of recordings that still grow are in files of their own, which are replaced when these
were read again. No other file is written anew, unless one of its recordings has changed or vanished.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.indexing.plan import GROWING, UNREADABLE, Plan, Row
from spark_analytics.indexing.sessions import update_sessions
from spark_analytics.schemas import RECORDINGS
from spark_analytics.store.change import Change
from spark_analytics.store.part_files import PartFile, dataset_of
from spark_analytics.table import Table

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
