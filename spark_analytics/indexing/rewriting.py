"""Which runs of before are written anew together with what is new, and what becomes of the rows of `recordings`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.catalogue import Snapshot
from spark_analytics.indexing.plan import Plan
from spark_analytics.parquet_files import files_of
from spark_analytics.schemas import RECORDINGS

#: When there are more runs than this, the smaller half is written together, so that a question opens few files.
MANY_RUNS = 16


def runs_to_rewrite(base: Snapshot, tables: Iterable[str], changed: Collection[str]) -> set[str]:
    """Those that hold rows of files that were read again, and small ones if there are many.

    Args:
        tables: The tables that have the same runs.
        changed: The runs that hold rows of files that were read again.
    """
    sizes: dict[str, int] = {}
    for table in tables:
        for run in base.runs(table):
            files = files_of(base.folders(table, [run]))
            sizes[run] = sizes.get(run, 0) + sum(file.stat().st_size for file in files)
    rewritten = set(changed) & sizes.keys()
    left = sorted(sizes.keys() - rewritten, key=lambda run: sizes[run])
    if len(left) >= MANY_RUNS:
        rewritten.update(left[: len(left) // 2])
    return rewritten


def new_recordings(
    base: Snapshot, plan: Plan, new: pa.Table, rewritten: Collection[str], run: str, now: datetime
) -> pa.Table:
    """The table `recordings` of the next version.

    Args:
        new: Rows of the files that were read.
    """
    schema = RECORDINGS.arrow_schema()
    if not base.has("recordings"):
        return new
    old = base.arrow("recordings").cast(schema)
    old = old.filter(pc.invert(_is_one_of(old["path"], [file.path for file in plan.read])))
    vanished = _is_one_of(old["path"], [row["path"] for row in plan.vanished])
    returned = _is_one_of(old["path"], [row["path"] for row in plan.returned])
    then = pa.scalar(now, schema.field("vanished_at").type)
    never = pa.scalar(None, schema.field("vanished_at").type)
    since = pc.if_else(returned, never, old["vanished_at"])
    old = _with(old, "vanished_at", pc.if_else(vanished, then, since))
    old = _with(old, "run", pc.if_else(_is_one_of(old["run"], list(rewritten)), run, old["run"]))
    return pa.concat_tables([old, new])


def _is_one_of(column: pa.ChunkedArray, values: list[str]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array(values, pa.string()))


def _with(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    number = table.schema.get_field_index(name)
    return table.set_column(number, table.schema.field(number), column)
