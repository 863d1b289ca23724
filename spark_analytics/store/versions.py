"""Versions of a catalogue: which there are, and one of them as it is read.

The table `_versions` says which version of each table makes up the catalogue. A version of the catalogue is a version of
this table. It is published by one commit, which fails if somebody else has published since this table was opened: so
several tables change in one step, and readers never see half of a change.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_analytics.errors import CatalogueBusyError, CatalogueError
from spark_analytics.store.delta import DeltaFolder
from spark_analytics.store.part_files import PartFile, not_ended, overlapping, read_files
from spark_analytics.store.place import Place
from spark_analytics.store.schema import DAY, Table
from spark_analytics.store.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


NAME = "_versions"

_SCHEMA = pa.schema([("table", pa.string()), ("version", pa.int64()), ("schema", pa.int64())])

#: What the commit of a version says: what was done, and the first version that can still be read.
_WHAT, _OLDEST = "what", "oldest"


@attrs.frozen
class Pin:
    """Which version of a Delta table belongs to a version of the catalogue.

    Attributes:
        schema: By which version of its schema the program wrote it.
    """

    version: int
    schema: int


@attrs.frozen
class Version:
    """A version of the catalogue; number 0 has no tables."""

    number: int
    pins: Mapping[str, Pin] = attrs.field(factory=dict)


@attrs.frozen
class PublishedVersion:
    """A line of the list of versions."""

    version: int
    published_at: datetime
    what: str


class Versions:
    """All versions of a catalogue, as they were when this was opened."""

    def __init__(self, root: Place, folder: DeltaFolder | None) -> None:
        self.root = root
        self._folder = folder

    @classmethod
    def open(cls, root: Place, number: int | None = None) -> Versions:
        """What there is; an empty one if there is nothing yet.

        Raises:
            CatalogueError: A newer program wrote it.
        """
        folder = DeltaFolder.open(root / NAME, number)
        if folder is not None and not folder.column_names() <= set(_SCHEMA.names):
            raise CatalogueError(f"A newer version of this program wrote {root}: use that one.")
        return cls(root, folder)

    def newest(self) -> Version:
        """The version that this was opened at."""
        if self._folder is None or not self._folder.version:
            return Version(0)
        (path,) = self._folder.paths()
        place = self._folder.place
        with place.file_system.open_input_file(f"{place.path}/{path}") as file:
            rows = pq.read_table(file, schema=_SCHEMA).to_pylist()
        pins = {row["table"]: Pin(row["version"], row["schema"]) for row in rows}
        return Version(self._folder.version, pins)

    def paths(self) -> set[str]:
        """The files of this table."""
        return self._folder.paths() if self._folder is not None else set()

    def at(self, as_of: int | datetime) -> Version:
        """The version of this number, or the one that was the catalogue at a moment.

        Raises:
            CatalogueError: There was none, or it is not kept any more.
        """
        listed = self.list()
        if isinstance(as_of, datetime):
            known = [one.version for one in listed if one.published_at <= as_of]
            wanted, name = (max(known) if known else -1), f"version of {as_of.isoformat()}"
        else:
            wanted, name = as_of, f"version {as_of}"
        if wanted not in {one.version for one in listed}:
            kept = f"{listed[-1].version} to {listed[0].version}" if listed else "none"
            raise CatalogueError(f"There is no {name} of {self.root}; what is kept: {kept}.")
        return Versions.open(self.root, wanted).newest()

    def list(self) -> list[PublishedVersion]:
        """All that can be read, the last first."""
        if self._folder is None:
            return []
        history = [entry for entry in self._folder.history() if entry["version"] > 0]
        oldest = max((int(entry.get(_OLDEST) or 0) for entry in history), default=0)
        return [
            PublishedVersion(
                entry["version"],
                datetime.fromtimestamp(entry["timestamp"] / 1000, UTC),
                str(entry.get(_WHAT) or ""),
            )
            for entry in history
            if entry["version"] >= oldest
        ]

    def publish(self, pins: Mapping[str, Pin], what: str, oldest: int | None = None) -> Version:
        """Make this the catalogue, in one step.

        Raises:
            CatalogueBusyError: Somebody else has published since this was opened.
        """
        if self._folder is None:
            self._folder = DeltaFolder.create(self.root / NAME, _SCHEMA, ())
        rows: list[dict[str, Any]] = [
            {"table": name, "version": pin.version, "schema": pin.schema}
            for name, pin in sorted(pins.items())
        ]
        path = f"part-{secrets.token_hex(8)}.parquet"
        with self._folder.place.create(path) as file:
            pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), file, compression="zstd")
            size = file.tell()
        stats = f'{{"numRecords":{len(rows)}}}'
        new = PartFile(path, date.min, size, len(rows), stats)
        before = self._folder.paths()
        notes = {_WHAT: what} | ({} if oldest is None else {_OLDEST: str(oldest)})
        try:
            self._folder.commit(_SCHEMA, [new], before, notes)
        except CatalogueBusyError:
            self._folder.place.delete([path])
            raise
        return Version(self._folder.version, dict(pins))


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
        ends: tuple[str, datetime] | None = None,
    ) -> tuple[PartFile, ...]:
        """The files of a table, or those that may have certain rows.

        Args:
            days: The first and the last day of interest.
            ranges: The least and the largest value of other columns.
            ends: The column with the end of a row, and the moment before which it must not have ended.
        """
        if table not in self.pins:
            return ()
        actions = self.actions(table)
        if days is not None:
            actions = overlapping_days(actions, days)
        actions = overlapping(actions, ranges or {})
        if ends is not None:
            actions = not_ended(actions, *ends)
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
