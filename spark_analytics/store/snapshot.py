"""One version of a catalogue, as it is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.errors import CatalogueError
from spark_analytics.schemas import DAY, TABLES, Table
from spark_analytics.store.delta import DeltaFolder
from spark_analytics.store.part_files import PartFile, overlapping, read_files
from spark_analytics.store.place import Place
from spark_analytics.store.versions import Pin, Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Whether Spark takes the names of folders for patterns. Signs of patterns can be escaped, but then no colon may be there.
_TAKE_FOR_PATTERNS = "__globPaths__"

#: With more files than this, Spark would start a job that looks for their folders; it is told where they are.
_LOOK_FOR_FOLDERS = "spark.sql.sources.parallelPartitionDiscovery.threshold"


@attrs.define(eq=False)
class Snapshot:
    """A catalogue as it is in one version. It stays readable until a `vacuum` that keeps less."""

    root: Place
    current: Version
    _folders: dict[str, DeltaFolder] = attrs.field(factory=dict)
    _actions: dict[str, pa.Table] = attrs.field(factory=dict)

    @property
    def version(self) -> int:
        """Its number; 0 if nothing was ever published."""
        return self.current.number

    @property
    def pins(self) -> Mapping[str, Pin]:
        """Which version of each table belongs to it."""
        return self.current.pins

    @property
    def tables(self) -> list[str]:
        """The names of all tables that were written."""
        return sorted(self.pins)

    def schema_version(self, table: str) -> int | None:
        """By which version of its schema a table was written; None if it never was."""
        pin = self.pins.get(table)
        return None if pin is None else pin.schema

    def has(self, table: str) -> bool:
        """Whether there are rows of this table."""
        return table in self.pins and self.actions(table).num_rows > 0

    def folder(self, table: str) -> Place:
        """Where the files of a table are."""
        return self.root / table

    def actions(self, table: str) -> pa.Table:
        """All files of a table with what the log knows of each.

        Raises:
            CatalogueError: The table is not there.
        """
        if table not in self._actions:
            folder = self._folders.get(table) or DeltaFolder.open(
                self.folder(table), self.pins[table].version
            )
            if folder is None:
                raise CatalogueError(f"{self.folder(table)} is not there: the catalogue is not complete.")
            self._actions[table] = folder.at(self.pins[table].version).actions()
        return self._actions[table]

    def files(
        self,
        table: str,
        days: tuple[date, date] | None = None,
        ranges: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> tuple[PartFile, ...]:
        """The files of a table, or those that may have certain rows.

        Args:
            days: The first and the last day of interest.
            ranges: The least and the largest value of other columns.
        """
        if table not in self.pins:
            return ()
        actions = self.actions(table)
        if days is not None:
            actions = overlapping_days(actions, days)
        actions = overlapping(actions, ranges or {})
        columns = [
            actions[name].to_pylist() for name in ("path", f"partition.{DAY}", "size_bytes", "num_records")
        ]
        return tuple(map(PartFile, *columns))

    def read(self, spark: SparkSession, table: str, files: Iterable[PartFile] | None = None) -> DataFrame:
        """A table, or some files of it, by Spark."""
        return read_by_spark(spark, self.root, TABLES[table], self.files(table) if files is None else files)

    def register(self, spark: SparkSession) -> None:
        """Make every table a view, for SQL."""
        for table in TABLES:
            self.read(spark, table).createOrReplaceTempView(table)

    def arrow(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        days: tuple[date, date] | None = None,
        files: Iterable[PartFile] | None = None,
    ) -> pa.Table:
        """A table without Spark, or a part of it.

        Args:
            where: A condition on the columns.
            days: The first and the last day of interest; others are not read.
            files: Those that are read; None is all of them.
        """
        wanted = self.files(table, days) if files is None else files
        return read_files(self.folder(table), TABLES[table], wanted, columns, where)

    def without(self, tables: Collection[str]) -> Snapshot:
        """The same, as if these tables had never been written."""
        pins = {name: pin for name, pin in self.pins.items() if name not in tables}
        return Snapshot(self.root, Version(self.version, pins), self._folders, self._actions)


def overlapping_days(actions: pa.Table, days: tuple[date, date]) -> pa.Table:
    """The files of some days."""
    day = actions[f"partition.{DAY}"]
    first, last = (pa.scalar(one, pa.date32()) for one in days)
    return actions.filter(pc.and_(pc.greater_equal(day, first), pc.less_equal(day, last)))


def read_by_spark(spark: SparkSession, root: Place, table: Table, files: Iterable[PartFile]) -> DataFrame:
    """The rows of files as a frame. A column that a file does not have yet is null there."""
    schema = table.spark_schema()
    files = list(files)
    if not files:
        return spark.createDataFrame([], schema)
    folder = root / table.name
    if not folder.is_local:
        # Spark alone has no file system for these; its Python workers have.
        lots = spark.createDataFrame(
            [(file.path, file.day, file.size, file.rows) for file in files],
            "path string, day date, size bigint, rows bigint",
        ).repartition(min(len(files), 200), "path")
        return lots.mapInArrow(partial(_read_task, folder.address, table), schema)
    spark.conf.set(_LOOK_FOR_FOLDERS, "1000000")
    # A path without a scheme may mean HDFS to Spark, or whatever else is set up.
    base = f"file://{folder}"
    reader = spark.read.schema(schema).option("basePath", base).option(_TAKE_FOR_PATTERNS, "false")
    return reader.parquet(*(f"{base}/{file.path}" for file in files)).select(table.column_names)


def _read_task(address: str, table: Table, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task does: reads the files that it is given."""
    for batch in batches:
        for row in batch.to_pylist():
            yield from read_files(Place(address), table, [PartFile(**row)]).to_batches()
