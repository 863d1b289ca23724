"""Rows of the tables that follow from event logs, as the questions about viewers and destinations read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.catalogue import Snapshot

#: A stream: its application and its name.
Key = tuple[str, str]

_NAMES = ("app", "stream", "destination", "who", "connection")


def event_rows(
    snapshot: Snapshot,
    table: str,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    days: tuple[date, date] | None = None,
) -> pa.Table:
    """A table, or a part of it, see `Snapshot.arrow`. Names are texts in any case: catalogues may have rows of events that
    lacked one, and names are compared and sorted.
    """
    rows = snapshot.arrow(table, columns, where, days)
    for name in _NAMES:
        if name in rows.column_names:
            column = rows.column_names.index(name)
            rows = rows.set_column(column, name, pc.fill_null(rows[name], ""))
    return rows


def streams_of(rows: pa.Table) -> Iterator[tuple[Key, pa.Table]]:
    """The rows of each stream, by its name."""
    return groups_of(rows, ["app", "stream"])


def groups_of(rows: pa.Table, columns: list[str]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The rows that have the same in some columns, in the order of that."""
    rows = rows.sort_by([(name, "ascending") for name in columns])
    # Without threads, groups are in the order of the rows.
    counts = rows.group_by(columns, use_threads=False).aggregate([([], "count_all")])
    first = 0
    for row in counts.to_pylist():
        yield tuple(row[name] for name in columns), rows.slice(first, row["count_all"])
        first += row["count_all"]
