"""Makes the tables that follow from events, from the SQL files of this folder.

DuckDB answers for a log of usual size, in this process and in a fraction of a second; Spark for millions of events. Both
run the same SQL, and a test compares their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from spark_analytics.engine.duck import connect, in_dialect, parameters_in
from spark_analytics.event_logs.servers import RUNNING, Server
from spark_analytics.event_schemas import OPEN_EVENTS

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
