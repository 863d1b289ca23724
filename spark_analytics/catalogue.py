"""A catalogue on disk: tables of Parquet, read at a version and changed from one version to the next.

To read::

    snapshot = Catalogue(path).open()
    snapshot.read(spark, "seconds")             # a DataFrame
    snapshot.arrow("recordings", ["path"])      # without Spark

To write (only one at a time may; each table that is not written stays as it is)::

    with Catalogue(path).change() as change:
        change.write("sessions", sessions_frame)                    # in place of all rows that were there
        change.write("seconds", new_frame, keep=change.base.runs("seconds"))    # in addition to them
        change.publish()
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import attrs

from spark_analytics import manifest as manifests
from spark_analytics.cleaning import clean_up, discard
from spark_analytics.errors import CatalogueBusyError, CatalogueError
from spark_analytics.manifest import Manifest, TableState, sync_folder
from spark_analytics.schemas import DAY, TABLES

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame, SparkSession

_LOCK = "_lock"

#: Whether Spark takes the names of folders for patterns. Signs of patterns can be escaped, but then no colon may be there.
_TAKE_FOR_PATTERNS = "__globPaths__"


@attrs.frozen
class Snapshot:
    """A catalogue as it is in one version. It stays readable for an hour after the next one was published."""

    root: Path
    manifest: Manifest

    def has(self, table: str) -> bool:
        """Whether there are rows of this table that this program can read."""
        return bool(self.runs(table))

    def runs(self, table: str) -> tuple[str, ...]:
        """The runs whose rows make up a table; none if another version of the schema wrote it."""
        state = self.manifest.tables.get(table)
        return state.runs if state is not None and state.version == TABLES[table].version else ()

    def folders(self, table: str, runs: Iterable[str] | None = None) -> list[Path]:
        """Where the rows of a table are, or those of some runs."""
        wanted = self.runs(table) if runs is None else runs
        return [folder_of(self.root, table, run) for run in wanted]

    def read(self, spark: SparkSession, table: str, runs: Iterable[str] | None = None) -> DataFrame:
        """A table, or what some runs wrote to it; an empty one if there is nothing."""
        schema = TABLES[table].spark_schema()
        folders = self.folders(table, runs)
        if not folders:
            return spark.createDataFrame([], schema)
        # With several folders Spark wants the one above them. It then takes their names for a column `run`, which would
        # hide the one of `recordings`: that table is always written as a whole, and has one folder.
        base = folders[0] if len(folders) == 1 else self.root / table
        reader = spark.read.schema(schema).option("basePath", _uri(base)).option(_TAKE_FOR_PATTERNS, "false")
        return reader.parquet(*map(_uri, folders)).select(TABLES[table].column_names)

    def count(self, table: str, runs: Iterable[str]) -> int:
        """How many rows some runs wrote to a table."""
        from spark_analytics.parquet_files import count_rows

        return count_rows(self.folders(table, runs))

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
        runs: Iterable[str] | None = None,
    ) -> pa.Table:
        """A table without Spark, or a part of it.

        Args:
            where: A condition on the columns.
            days: The first and the last day of interest; others are not read.
            runs: Those that wrote what is read; None is all of them.
        """
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        from spark_analytics.parquet_files import files_of

        definition = TABLES[table]
        schema = definition.arrow_schema()
        if days is not None:
            in_days = (pc.field(DAY) >= days[0]) & (pc.field(DAY) <= days[1])
            where = in_days if where is None else where & in_days
        files = files_of(self.folders(table, runs), days)
        parts = ds.partitioning(flavor="hive", schema=schema.empty_table().select([DAY]).schema)
        dataset = ds.dataset(
            [str(file) for file in files],
            schema=schema,
            format="parquet",
            partitioning=parts,
            partition_base_dir=str(self.root / table),
        )
        return dataset.to_table(columns=list(columns or definition.column_names), filter=where)


class Catalogue:
    """The folder of a catalogue. It must be on a file system that has links and locks: a disk, or NFS."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # Java writes here too, and its current folder is the one that it was started in.
        self.root = Path(path).absolute()

    def snapshot(self) -> Snapshot:
        """What is there now; an empty one if there is nothing yet."""
        return Snapshot(self.root, manifests.newest(self.root))

    def open(self) -> Snapshot:
        """What is there now.

        Raises:
            CatalogueError: There is no catalogue, or one of another time.
        """
        found = self.snapshot()
        if not found.manifest.version:
            raise CatalogueError(
                f"There is no catalogue in {self.root}: make one with "
                "`python -m spark_analytics index RECORDINGS... --out CATALOGUE`."
            )
        for name, state in found.manifest.tables.items():
            if name in TABLES and state.version != TABLES[name].version:
                raise CatalogueError(
                    f"The table {name} in {self.root} is of version {state.version}, and this program knows "
                    f"{TABLES[name].version}: run `index` again, which makes it anew."
                )
        return found

    @contextmanager
    def change(self, wait: float = 0.0) -> Iterator[Change]:
        """Begin the next version. What is not published in the end never was.

        Args:
            wait: Seconds to wait for another run to end.

        Raises:
            CatalogueBusyError: Another run is at it.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with _locked(self.root, wait):
            manifests.check_links(self.root)
            change = Change(self.snapshot(), _new_run())
            try:
                yield change
            finally:
                discard(self.root, change.run)


class Change:
    """The next version of a catalogue, while it is made.

    Attributes:
        base: The version before.
        run: The name of what is written now.
    """

    def __init__(self, base: Snapshot, run: str) -> None:
        self.base = base
        self.run = run
        self._tables: dict[str, TableState] = {}

    def write(
        self, table: str, rows: DataFrame, keep: Iterable[str] = (), sort: bool = True, part: str = ""
    ) -> None:
        """Write rows, partitioned by day; the table then has them and those of the runs to keep.

        Args:
            part: A name for these rows, if a table is written in several parts; the next run can tell them apart.

        Raises:
            CatalogueError: What the workers wrote is not here.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as fn

        from spark_analytics.parquet_files import ROWS_TOGETHER

        definition = TABLES[table]
        rows = rows.select(definition.column_names)
        if sort:
            # Few files for each day, however many tasks there were before.
            rows = rows.hint("rebalance", DAY).sortWithinPartitions(DAY, *definition.sorted_by)
        folder = folder_of(self.base.root, table, self.run + part)
        written = Observation()
        rows = rows.observe(written, fn.count(fn.lit(1)).alias("rows"))
        writer = rows.write.option("parquet.block.row.count.limit", ROWS_TOGETHER)
        writer.partitionBy(DAY).parquet(_uri(folder))
        _check_arrived(folder, int(written.get["rows"]))
        self.added(table, keep, part)

    def write_arrow(self, table: str, rows: pa.Table, keep: Iterable[str] = (), part: str = "") -> None:
        """The same for rows that are here, without Spark."""
        from spark_analytics.parquet_files import write_by_day

        definition = TABLES[table]
        order = [(DAY, "ascending"), *((name, "ascending") for name in definition.sorted_by)]
        rows = rows.select(definition.column_names).cast(definition.arrow_schema()).sort_by(order)
        write_by_day(rows, folder_of(self.base.root, table, self.run + part))
        self.added(table, keep, part)

    def added(self, table: str, keep: Iterable[str] = (), part: str = "") -> None:
        """The folder of this run, or of a part of it, has rows of this table now, if it is there at all."""
        run = self.run + part
        new = (run,) if any(folder_of(self.base.root, table, run).glob(f"{DAY}=*/*.parquet")) else ()
        before = self._tables[table].runs if part and table in self._tables else ()
        self._tables[table] = TableState(TABLES[table].version, (*before, *keep, *new))

    def forget(self, tables: Iterable[str]) -> None:
        """Go on as if these tables had never been written."""
        manifest = self.base.manifest
        forgotten = set(tables)
        kept = {name: state for name, state in manifest.tables.items() if name not in forgotten}
        self.base = attrs.evolve(self.base, manifest=attrs.evolve(manifest, tables=kept))

    def runs(self, table: str) -> tuple[str, ...]:
        """The runs that make up a table in the version that is being made."""
        return self._tables[table].runs if table in self._tables else self.base.runs(table)

    def publish(self, notes: Mapping[str, Any] | None = None) -> Snapshot:
        """Make it the catalogue, and clean up what no version needs any more.

        Raises:
            CatalogueBusyError: Another run was faster, although the file system was asked to keep it away.
        """
        root, before = self.base.root, self.base.manifest
        for table, state in self._tables.items():
            for run in state.runs:
                if run.startswith(self.run):
                    _sync_tree(folder_of(root, table, run))
                    sync_folder(root / table)
        for folder in (root, root.parent):
            sync_folder(folder)
        tables = {**before.tables, **self._tables}
        manifest = Manifest(before.version + 1, tables, notes={**before.notes, **(notes or {})})
        manifests.publish(root, manifest)
        clean_up(root)
        return Snapshot(root, manifest)


def folder_of(root: Path, table: str, run: str) -> Path:
    """Where the rows are that a run wrote to a table."""
    return root / table / f"run={run}"


def _uri(folder: Path) -> str:
    """How Spark is told of a folder: what has no scheme may mean HDFS to it, or whatever else is set up."""
    return f"file://{folder}"


def _check_arrived(folder: Path, written: int) -> None:
    """Workers that do not share this folder write to their own, and Spark finds nothing wrong with that."""
    from spark_analytics.parquet_files import count_rows

    arrived = count_rows([folder])
    if arrived != written:
        raise CatalogueError(
            f"Spark wrote {written} rows, of which {arrived} are in {folder}: the catalogue must be in a folder that "
            "all workers share with this machine, under the same path."
        )


def _new_run() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def _sync_tree(folder: Path) -> None:
    """Make all that is below a folder last, before a version names it."""
    for parent, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(Path(parent) / name, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(parent))


@contextmanager
def _locked(root: Path, wait: float) -> Iterator[None]:
    """Keep other runs away. The system lets go of the lock when this process ends, however it ends."""
    deadline = time.monotonic() + wait
    with (root / _LOCK).open("a+") as file:
        while not _try_lock(file):
            if time.monotonic() >= deadline:
                raise CatalogueBusyError(
                    f"Another run is writing to {root} ({_holder(file)}); try again later."
                )
            time.sleep(0.2)
        file.seek(0)
        file.truncate()
        file.write(json.dumps({"pid": os.getpid(), "host": platform.node(), "since": _now()}))
        file.flush()
        yield


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # A file system without locks: of two runs, one will find that it cannot publish.
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
    return True


def _holder(file: IO[str]) -> str:
    file.seek(0)
    try:
        values = json.loads(file.read())
        return f"process {values['pid']} on {values['host']}, since {values['since']}"
    except (ValueError, KeyError):
        return "it has just begun"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
