"""Writes the tables that follow from events: what is new of each, and what has not ended yet apart from it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.catalogue import Change
from spark_analytics.event_logs.derive import DuckWorkbench, SparkWorkbench, answer
from spark_analytics.event_schemas import EVENT_TABLES
from spark_analytics.schemas import TABLES
from spark_analytics.table import DAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The tables that follow from events, but for that of the servers.
DERIVED = tuple(
    table.name for table in EVENT_TABLES if table.name not in ("event_files", "events", "servers")
)

#: Later than anything ends.
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)

AnyWorkbench: TypeAlias = "DuckWorkbench | SparkWorkbench"


class TableWriter:
    """Writes frames of a workbench into the tables of a change."""

    def __init__(self, bench: AnyWorkbench, change: Change) -> None:
        self._bench = bench
        self._change = change

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
        self._change.replace("open_events", self._bench.rows("open_events"))

    def _first_step(self) -> datetime | None:
        """When the first event of a destination was; None if there is none."""
        self._bench.make("first_step", "SELECT min(time) AS time FROM destination_steps", {})
        found: datetime | None = self._bench.rows("first_step")["time"][0].as_py()
        return found

    def _write(self, table: str) -> set[date]:
        """Add rows with `is_new`, and put those with `is_open` in the place of the open ones before.

        Returns the days of all of them.
        """
        change = self._change
        change.drop(table, [file for file in change.files(table) if file.is_open])
        columns = TABLES[table].column_names
        if isinstance(self._bench, SparkWorkbench):
            frame = self._bench.frame(table)
            has_open = "is_open" in frame.columns
            files = change.add(table, frame.where("is_new") if has_open else frame)
            still_open = frame.where("is_open AND NOT is_new").select(columns).toArrow() if has_open else None
        else:
            rows = self._bench.rows(table)
            has_open = "is_open" in rows.column_names
            files = change.add(table, rows.filter(rows["is_new"]) if has_open else rows)
            is_rest = pc.and_(rows["is_open"], pc.invert(rows["is_new"])) if has_open else None
            still_open = None if is_rest is None else rows.filter(is_rest).select(columns)
        if still_open is not None:
            files += change.add(table, still_open, is_open=True)
        return {file.day for file in files}

    def _add_table(self, name: str, table: str, reach: _Reach) -> None:
        """Give a table, as it will be, a name on the workbench; or those of its rows that reach a time."""
        if isinstance(self._bench, SparkWorkbench):
            self._bench.add_frame(name, reach.of_frame(self._change.read(self._bench.spark, table)))
            return
        files = self._change.files(table)
        if reach.first is not None:
            files = tuple(file for file in files if file.day >= reach.first)
        self._bench.add(name, self._change.arrow(table, files, reach.condition()))

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
        days = [file for file in self._change.files("destinations") if file.day >= first]
        self._change.drop("destinations", days)
        self._change.add("destinations", self._bench.rows("destinations"))


def leave_out(change: Change, table: str, servers: Collection[str]) -> None:
    """Drop all rows of some servers, where a table has rows by servers."""
    if "instance" not in TABLES[table].column_names:
        return
    names = pa.array(sorted(servers), pa.string())
    files = {file for name in servers for file in change.base.files(table, ranges={"instance": (name, name)})}

    def others(rows: pa.Table) -> pa.Table:
        is_one = pc.is_in(rows["instance"], value_set=names)
        return rows.filter(pc.invert(is_one)) if pc.any(is_one).as_py() else rows

    change.rewrite(table, files, others)


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
