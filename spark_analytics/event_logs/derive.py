"""Makes the tables that follow from events, from the SQL files of this folder, and writes what is new of each.

DuckDB answers for a log of usual size, in this process and in a fraction of a second; Spark for millions of events. Both
run the same SQL, and a test compares their rows. What has not ended yet is written apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.engine.duck import connect, in_dialect, parameters_in
from spark_analytics.event_logs.servers import RUNNING, Server
from spark_analytics.store.change import Change
from spark_analytics.store.part_files import PartFile
from spark_analytics.store.schema import DAY
from spark_analytics.store.tables import EVENT_TABLES, OPEN_EVENTS, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: An outage that has ended is left open for so long: what was lost in it is told right after its end.
SETTLING_US = 60_000_000

#: A play has minutes for its last so many days, and the one in which it began. Longer ones come from clocks that were
#: set, and each would be millions of rows.
MOST_DAYS = 60

#: What is known of servers. `gone_at`: the time of its last event, if it runs no more. `settled`: nothing more will come
#: from it. `known_...`: up to where its events were known before.
_SERVER_SCHEMA = pa.schema(
    [
        ("instance", pa.string()),
        ("server_how", pa.string()),
        ("last_seen", pa.timestamp("us", "UTC")),
        ("gone_at", pa.timestamp("us", "UTC")),
        ("settled", pa.bool_()),
        ("known_number", pa.int64()),
        ("known_until", pa.timestamp("us", "UTC")),
    ]
)


@cache
def statement(name: str) -> str:
    """The SQL of a file in this folder, without its comments: they may name parameters too."""
    text = (files("spark_analytics.event_logs") / f"{name}.sql").read_text(encoding="utf-8")
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("--"))


class Workbench(Protocol):
    """Where frames have names, and SQL makes new ones of them."""

    def add(self, name: str, rows: pa.Table) -> None:
        """Give rows a name."""

    def make(self, name: str, sql: str, parameters: Mapping[str, Any], keep: bool = False) -> None:
        """Give the answer to a question a name.

        Args:
            keep: It is used several times.
        """

    def rows(self, name: str) -> pa.Table:
        """The rows of that name."""


class DuckWorkbench:
    """In this process."""

    def __init__(self) -> None:
        self._connection = connect()
        # All that is summed here are whole numbers; a sum that is too large is null, as in Spark.
        self._connection.execute("CREATE OR REPLACE MACRO try_sum(x) AS TRY_CAST(sum(x) AS BIGINT)")
        self._tables: dict[str, pa.Table] = {}

    def add(self, name: str, rows: pa.Table) -> None:
        """Give rows a name."""
        self._tables[name] = rows
        self._connection.register(name, rows)

    def make(self, name: str, sql: str, parameters: Mapping[str, Any], keep: bool = False) -> None:
        """Give the answer to a question a name. It is always kept: nothing is computed twice."""
        named = {one: parameters[one] for one in parameters_in(sql)}
        relation = self._connection.sql(in_dialect(sql), params=named or None)
        self.add(name, relation.to_arrow_table())

    def rows(self, name: str) -> pa.Table:
        """The rows of that name."""
        return self._tables[name]

    def close(self) -> None:
        """Let go of all of them."""
        self._connection.close()


class SparkWorkbench:
    """In a session of Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._kept: list[DataFrame] = []

    def add(self, name: str, rows: pa.Table) -> None:
        """Give rows a name."""
        self.add_frame(name, self.spark.createDataFrame(rows))

    def add_frame(self, name: str, frame: DataFrame) -> None:
        """Give a frame a name."""
        frame.createOrReplaceTempView(name)

    def make(self, name: str, sql: str, parameters: Mapping[str, Any], keep: bool = False) -> None:
        """Give the answer to a question a name."""
        named = {one: parameters[one] for one in parameters_in(sql)}
        frame = self.spark.sql(sql, args=named or None)
        if keep:
            self._kept.append(frame.persist())
        self.add_frame(name, frame)

    def frame(self, name: str) -> DataFrame:
        """The frame of that name."""
        return self.spark.table(name)

    def rows(self, name: str) -> pa.Table:
        """The rows of that name."""
        return self.frame(name).toArrow()

    def close(self) -> None:
        """Forget what was kept."""
        for frame in self._kept:
            frame.unpersist()


@contextmanager
def duck_workbench() -> Iterator[DuckWorkbench]:
    """A workbench in this process."""
    bench = DuckWorkbench()
    try:
        yield bench
    finally:
        bench.close()


@contextmanager
def spark_workbench(spark: SparkSession) -> Iterator[SparkWorkbench]:
    """A workbench in Spark."""
    bench = SparkWorkbench(spark)
    try:
        yield bench
    finally:
        bench.close()


def servers_table(servers: Iterable[Server], now: datetime) -> pa.Table:
    """What the questions want to know of servers."""
    rows = [
        {
            "instance": server.instance,
            "server_how": server.ended_how(now),
            "last_seen": server.last_seen,
            "gone_at": None if server.ended_how(now) == RUNNING else server.last_seen,
            "settled": server.is_settled(now),
            "known_number": server.known_number,
            "known_until": server.known_until,
        }
        for server in servers
    ]
    return pa.Table.from_pylist(rows, schema=_SERVER_SCHEMA)


def make_batch(bench: Workbench, servers: Iterable[Server], now: datetime) -> None:
    """Make what all tables are made of, from `once_events` (those that are new) and `open_before` (those that were left
    open by the run before), which together tell what has ended meanwhile.

    Every table is made by the same questions, whether from all events at once or from one batch after the other: a row
    that has ended is written once, in the batch that has its end; a row that has not is written as it is so far, and anew
    by the next run.
    """
    bench.add("batch_servers", servers_table(servers, now))
    answer(bench, "whole_events")
    # Some of the columns have names that SQL knows too, but not after a dot.
    columns = ", ".join(f"e.{name}" for name in OPEN_EVENTS.column_names)
    union = f"SELECT {columns} FROM whole_events e UNION ALL SELECT {columns} FROM open_before e"
    bench.make("batch_events", union, {})
    answer(bench, "connection_events")
    answer(bench, "plays_and_publishes", keep=True)
    answer(bench, "destination_steps", keep=True)


def count_events(bench: Workbench) -> list[dict[str, Any]]:
    """What `counted_events` tell: a row for each file and server."""
    answer(bench, "file_counts")
    return list(bench.rows("file_counts").to_pylist())


def answer(bench: Workbench, name: str, keep: bool = False, **parameters: Any) -> None:
    """Make the frame of this name by the file of this name."""
    values = {"settling_us": SETTLING_US, "most_days": MOST_DAYS, **parameters}
    bench.make(name, statement(name), values, keep)


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
        files = self._files(table, reach)
        if isinstance(self._bench, SparkWorkbench):
            self._bench.add_frame(name, reach.of_frame(self._change.read(self._bench.spark, table, files)))
        else:
            self._bench.add(name, self._change.arrow(table, files, reach.condition()))

    def _files(self, table: str, reach: _Reach) -> list[PartFile]:
        """Those that may have such rows: what ended years ago is not opened to see that."""
        files = self._change.files(table)
        if reach.first is not None:
            return [file for file in files if file.day >= reach.first]
        if reach.moment is None:
            return list(files)
        base = self._change.base
        over = set(base.files(table)) - set(base.files(table, ends=(reach.end, reach.moment)))
        return [file for file in files if file not in over]

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
