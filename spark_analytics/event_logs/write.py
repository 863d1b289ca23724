"""Writes the tables that follow from events: what is new of each, and what has not ended yet apart from it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.catalogue import Change, Snapshot, folder_of
from spark_analytics.event_logs.derive import DuckWorkbench, SparkWorkbench, answer
from spark_analytics.schemas import TABLES
from spark_analytics.table import DAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The rows of what has not ended yet: the next run writes them anew.
OPEN = "-open"

#: Rows of several runs before that were written together.
MERGED = "-merged"

#: When a table has so many runs, small ones are written together: as many as are so large in all.
MANY_RUNS = 16
SMALL_RUNS = 64 * 1024 * 1024

#: Later than anything ends.
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)

AnyWorkbench: TypeAlias = "DuckWorkbench | SparkWorkbench"


class TableWriter:
    """Writes frames of a workbench into the tables of a change.

    Args:
        base: What stays; an empty one if the batch has all events that there are.
    """

    def __init__(self, bench: AnyWorkbench, change: Change, base: Snapshot) -> None:
        self._bench = bench
        self._change = change
        self._base = base

    def write_all(self, since: date) -> None:
        """Write everything that follows from the batch.

        Args:
            since: The first day of which something may be new.
        """
        for table in ("viewers", "publishes", "audience", "deliveries"):
            answer(self._bench, table)
            self._write(table)
        self._add_table("all_publishes", "publishes", _Reach("ended_at", self._first_step() or _NEVER))
        answer(self._bench, "live_times")
        answer(self._bench, "destination_states")
        self._write("destination_states")
        answer(self._bench, "outages")
        changed = self._write("outages")
        self.write_destinations(min([since, *changed]))
        answer(self._bench, "open_events")
        self._change.write_arrow("open_events", self._bench.rows("open_events"))

    def _first_step(self) -> datetime | None:
        """When the first event of a destination was; None if there is none."""
        self._bench.make("first_step", "SELECT min(time) AS time FROM destination_steps", {})
        found: datetime | None = self._bench.rows("first_step")["time"][0].as_py()
        return found

    def _write(self, table: str) -> set[date]:
        """Add rows with `is_new`, and put those with `is_open` in the place of the open ones before.

        Returns the days of all of them.
        """
        keep = [run for run in self._base.runs(table) if not run.endswith(OPEN)]
        columns = TABLES[table].column_names
        if isinstance(self._bench, SparkWorkbench):
            frame = self._bench.frame(table)
            has_open = "is_open" in frame.columns
            new = frame.where("is_new") if has_open else frame
            append_frame(self._change, self._base, table, new, keep)
            still_open = frame.where("is_open AND NOT is_new").select(columns).toArrow() if has_open else None
        else:
            rows = self._bench.rows(table)
            has_open = "is_open" in rows.column_names
            new_rows = rows.filter(rows["is_new"]) if has_open else rows
            append_rows(self._change, self._base, table, new_rows, keep)
            is_rest = pc.and_(rows["is_open"], pc.invert(rows["is_new"])) if has_open else None
            still_open = None if is_rest is None else rows.filter(is_rest).select(columns)
        if still_open is not None and len(still_open):
            self._change.write_arrow(table, still_open, part=OPEN)
        return self._days_written(table)

    def _days_written(self, table: str) -> set[date]:
        """The days of rows that this run has written."""
        runs = (self._change.run, self._change.run + OPEN)
        folders = [folder_of(self._base.root, table, run) for run in runs]
        names = [path.name for folder in folders for path in folder.glob(f"{DAY}=*")]
        return {date.fromisoformat(name.removeprefix(f"{DAY}=")) for name in names}

    def _add_table(self, name: str, table: str, reach: _Reach) -> None:
        """Give a table, as it will be, a name on the workbench; or those of its rows that reach a time."""
        runs = self._change.runs(table)
        if isinstance(self._bench, SparkWorkbench):
            self._bench.add_frame(
                name, reach.of_frame(self._change.base.read(self._bench.spark, table, runs))
            )
            return
        days = None if reach.first is None else (reach.first, date.max)
        self._bench.add(name, self._change.base.arrow(table, None, reach.condition(), days, runs))

    def write_destinations(self, first: date) -> None:
        """Days that are over and in which nothing was open stay as they are, and what ended before them is not read."""
        midnight = datetime.combine(first, time.min, UTC)
        self._add_table("found_events", "events", _Reach(first=first, of=("event", "destination_dropped")))
        answer(self._bench, "once_events")
        answer(self._bench, "whole_events")
        self._bench.make("drops_once", "SELECT * FROM whole_events", {})
        self._add_table("all_destination_states", "destination_states", _Reach("ended", midnight))
        self._add_table("all_publishes", "publishes", _Reach("ended_at", midnight))
        answer(self._bench, "live_times")
        self._add_table("all_outages", "outages", _Reach(first=first))
        self._add_table("all_deliveries", "deliveries", _Reach(first=first, of=("role", "destination")))
        answer(self._bench, "destinations", first_day=first)
        schema = TABLES["destinations"].arrow_schema()
        new = self._bench.rows("destinations").select(schema.names).cast(schema)
        if self._base.has("destinations"):
            before = self._base.arrow("destinations", where=pc.field(DAY) < pa.scalar(first, pa.date32()))
            new = pa.concat_tables([before.cast(schema), new])
        self._change.write_arrow("destinations", new)


def append_rows(change: Change, base: Snapshot, table: str, rows: pa.Table, keep: Iterable[str]) -> None:
    """Add rows to a table; now and then its small runs are made one."""
    keep = list(keep)
    merged = _runs_to_merge(base, table, keep)
    change.write_arrow(table, rows, [run for run in keep if run not in merged])
    _merge(change, base, table, merged)


def append_frame(change: Change, base: Snapshot, table: str, rows: DataFrame, keep: Iterable[str]) -> None:
    """The same for rows that Spark has."""
    keep = list(keep)
    merged = _runs_to_merge(base, table, keep)
    change.write(table, rows, [run for run in keep if run not in merged])
    _merge(change, base, table, merged)


def _merge(change: Change, base: Snapshot, table: str, runs: list[str]) -> None:
    if runs:
        # Apart from what is new, so that this can still be told from it.
        change.write_arrow(table, base.arrow(table, runs=runs), part=MERGED)


def _runs_to_merge(base: Snapshot, table: str, runs: list[str]) -> list[str]:
    """Small runs, the smallest first, as many as are quickly read and written."""
    if len(runs) < MANY_RUNS:
        return []
    total = 0
    chosen: list[str] = []
    for size, run in sorted((_size(base.folders(table, [run])[0]), run) for run in runs):
        total += size
        if total > SMALL_RUNS:
            break
        chosen.append(run)
    return chosen if len(chosen) > 1 else []


@attrs.frozen
class _Reach:
    """Which rows of a table are read.

    Attributes:
        end, moment: Those that have not ended before a moment.
        first: Those of this day and later ones.
        of: Those with this value in a column.
    """

    end: str = ""
    moment: datetime | None = None
    first: date | None = None
    of: tuple[str, str] | None = None

    def condition(self) -> pc.Expression | None:
        """The same for Arrow, but for the day."""
        if self.of is not None:
            return pc.field(self.of[0]) == self.of[1]
        if self.moment is not None:
            moment = pa.scalar(self.moment, pa.timestamp("us", "UTC"))
            return pc.field(self.end).is_null() | (pc.field(self.end) >= moment)
        return None

    def of_frame(self, frame: DataFrame) -> DataFrame:
        """The same of a frame of Spark."""
        from pyspark.sql import functions as fn

        if self.first is not None:
            frame = frame.where(fn.col(DAY) >= fn.lit(self.first))
        if self.of is not None:
            frame = frame.where(fn.col(self.of[0]) == self.of[1])
        if self.moment is not None:
            frame = frame.where(fn.col(self.end).isNull() | (fn.col(self.end) >= fn.lit(self.moment)))
        return frame


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob(f"{DAY}=*/*.parquet"))
