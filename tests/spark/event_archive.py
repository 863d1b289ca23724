"""A catalogue of event logs that tests write, and what is in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_analytics.catalogue import Catalogue
from spark_analytics.event_logs import lines
from spark_analytics.event_logs.update import EventSummary, index_events
from spark_analytics.store.versions import Snapshot
from tests.spark.event_world import moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATER = moment(700)

#: What follows from events, whatever the order in which they were read.
DERIVED = (
    "servers",
    "viewers",
    "publishes",
    "audience",
    "deliveries",
    "destination_states",
    "outages",
    "destinations",
)


#: Options of Spark for few rows: to compile each question, and divide it, would take many times longer than to answer it.
FOR_FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}


@contextmanager
def planned_for_few_rows(spark: SparkSession) -> Iterator[None]:
    """FOR_FEW_ROWS, for a while."""
    before = {key: spark.conf.get(key) or "" for key in FOR_FEW_ROWS}
    for key, value in FOR_FEW_ROWS.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


class Archive:
    """A catalogue, and the logs that it is made of.

    Args:
        spark: The session that does all the work; None if it is to be done here.
    """

    def __init__(self, folder: Path, spark: SparkSession | None = None) -> None:
        self._spark = spark
        self.logs = folder / "logs"
        self.root = folder / "catalogue"
        self.logs.mkdir(parents=True)

    def index(self, now: datetime = LATER) -> EventSummary:
        """Read what is new."""
        with (
            pytest.MonkeyPatch.context() as patch,
            Catalogue(self.root).change() as change,
            ExitStack() as stack,
        ):
            if self._spark is not None:
                stack.enter_context(planned_for_few_rows(self._spark))
                patch.setattr(lines, "MOST_TEXT_HERE", -1)
                patch.setattr(lines, "MOST_EVENTS_HERE", -1)
            summary = index_events(self._open_spark, change, [str(self.logs)], now)
            if summary.changed:
                change.publish()
        return summary

    def _open_spark(self) -> SparkSession:
        assert self._spark is not None, "a few events need no Spark"
        return self._spark

    def outdate(self, table: str) -> None:
        """Let a table be written by another version of this program."""
        with Catalogue(self.root).change() as change:
            change.take(table, [], 0)
            change.publish()

    @property
    def snapshot(self) -> Snapshot:
        return Catalogue(self.root).open()

    def rows(self, table: str, *columns: str, **where: object) -> list[dict[str, Any]]:
        """Rows of a table, in some order that is always the same."""
        snapshot = self.snapshot
        if not snapshot.has(table):
            return []
        found = [
            {**row, "dropped_by_reason": dict(row.get("dropped_by_reason") or ())}
            for row in snapshot.arrow(table).to_pylist()
        ]
        found = [row for row in found if all(row[name] == value for name, value in where.items())]
        found.sort(key=lambda row: json.dumps(row, default=str))
        return [{name: row[name] for name in columns} for row in found] if columns else found

    def values(self, table: str, *columns: str, **where: object) -> list[tuple[Any, ...]]:
        """The same as tuples, sorted by the columns."""
        found = [tuple(row.values()) for row in self.rows(table, *columns, **where)]
        return sorted(found, key=lambda values: [(value is None, str(value)) for value in values])

    def assert_same(self, other: Archive, tables: Iterable[str] = DERIVED) -> None:
        for table in tables:
            assert self.rows(table) == other.rows(table), table


#: Makes one that is empty.
Make = Callable[[], Archive]

#: What does the work. That each file of SQL gives the same rows in both is a test of its own; with Spark all of this
#: takes a quarter of an hour.
ENGINES = ["duckdb", pytest.param("spark", marks=[pytest.mark.full, pytest.mark.every_engine])]


def archives(request: pytest.FixtureRequest, name: str = "events") -> Make:
    """Makes archives whose work is done by the engine that is the parameter of a fixture."""
    spark = request.getfixturevalue("spark") if request.param == "spark" else None
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    return lambda: Archive(factory.mktemp(name), spark)
