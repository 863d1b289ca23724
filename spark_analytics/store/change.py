"""The next version of a catalogue, while it is made: files that are added and removed, of any number of tables.

Nothing that a run writes is read by anybody before it is published, and a version is published in one step: see
`spark_analytics.store.versions`. Whoever begins a change reads which versions make up the catalogue, and opens every
table, before anything else is read. So a table that somebody else changes after that cannot be committed, and two runs
that began with the same version cannot both be published.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_analytics.errors import CatalogueError
from spark_analytics.store.delta import DeltaFolder
from spark_analytics.store.part_files import (
    OPEN,
    SETTLED,
    PartFile,
    days_in_order,
    read_files,
    write_frame,
    write_rows,
)
from spark_analytics.store.place import Place
from spark_analytics.store.schema import DAY
from spark_analytics.store.tables import TABLES
from spark_analytics.store.versions import Pin, Snapshot, Versions, read_by_spark
from spark_analytics.whole_file import NO_LINKS

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame, SparkSession

#: How many tables are opened and committed at a time: where the catalogue is far away, each takes several requests.
_AT_ONCE = 8


class Change:
    """Some tables of the next version.

    Attributes:
        base: The version before; after `publish`, the one that was published.
        run: The name of this run, which is in the names of the files that it writes.
    """

    def __init__(self, root: Place) -> None:
        root.make()
        if root.is_local:
            _check_links(root.local)
            root.sync()
        self.run = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        self._root = root
        self._versions = Versions.open(root)
        current = self._versions.newest()
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            found = threads.map(lambda name: DeltaFolder.open(root / name), TABLES)
            self._folders = {name: folder for name, folder in zip(TABLES, found, strict=True) if folder}
        self._pins = dict(current.pins)
        self.base = Snapshot(root, current, dict(self._folders))
        self._added: dict[str, list[PartFile]] = defaultdict(list)
        self._removed: dict[str, set[PartFile]] = defaultdict(set)
        self._touched: set[str] = set()
        self._held: dict[str, int] = {}
        self._taken: dict[str, int] = {}

    # -- what it will be -------------------------------------------------------------------------------------

    def files(self, table: str) -> tuple[PartFile, ...]:
        """The files that will make up a table."""
        removed = self._removed[table]
        return (*(file for file in self.base.files(table) if file not in removed), *self._added[table])

    def read(self, spark: SparkSession, table: str, files: Iterable[PartFile] | None = None) -> DataFrame:
        """A table as it will be, or some of its files, by Spark."""
        return read_by_spark(spark, self._root, TABLES[table], self.files(table) if files is None else files)

    def arrow(
        self, table: str, files: Iterable[PartFile] | None = None, where: pc.Expression | None = None
    ) -> pa.Table:
        """The same without Spark; or the rows that a condition holds for."""
        return read_files(
            self._root / table, TABLES[table], self.files(table) if files is None else files, where=where
        )

    # -- changes ---------------------------------------------------------------------------------------------

    def add(
        self,
        table: str,
        rows: DataFrame | pa.Table,
        is_open: bool = False,
        open_ids: frozenset[str] = frozenset(),
    ) -> tuple[PartFile, ...]:
        """Write rows in addition to those that are there.

        Args:
            rows: A table of Arrow, or a frame, which the tasks of Spark write then.
            is_open: Whether the rows may change with the next run: it replaces the files that have them.
            open_ids: The recordings of a frame whose rows are open.

        Returns the new files.
        """
        definition = TABLES[table]
        folder, kind = self._root / table, OPEN if is_open else SETTLED
        if isinstance(rows, pa.Table):
            new = write_rows(folder, definition, rows, self.run, kind)
        else:
            new = write_frame(folder, definition, rows, self.run, kind, open_ids)
        self._added[table] += new
        self._touched.add(table)
        return tuple(new)

    def take(self, table: str, files: Iterable[PartFile], schema: int) -> None:
        """Take files that are in the folder of a table already, and were written by some version of its schema."""
        self._added[table] += files
        self._touched.add(table)
        self._taken[table] = schema

    def drop(self, table: str, files: Iterable[PartFile]) -> None:
        """Leave files out of the next version."""
        added = set(self._added[table])
        for file in files:
            if file in added:
                self._added[table].remove(file)
                (self._root / table).delete([file.path])
            else:
                self._removed[table].add(file)
                self._touched.add(table)

    def replace(self, table: str, rows: pa.Table) -> tuple[PartFile, ...]:
        """Write rows in the place of all that are there; the files of days on which nothing has changed stay."""
        definition = TABLES[table]
        before = self.files(table)
        old = dict(days_in_order(self.arrow(table, before), definition))
        new = dict(days_in_order(rows, definition))
        same = {day for day, of_day in new.items() if day in old and of_day.equals(old[day])}
        changed = [of_day for day, of_day in new.items() if day not in same]
        written = self.add(table, pa.concat_tables(changed)) if changed else ()
        self.drop(table, [file for file in before if file.day not in same])
        self._touched.add(table)
        return written

    def rewrite(self, table: str, files: Iterable[PartFile], change: Callable[[pa.Table], pa.Table]) -> None:
        """Write the rows of files anew, each file for itself, as a function changes them."""
        for file in files:
            before = self.arrow(table, [file])
            after = change(before)
            if after is not before:
                self.drop(table, [file])
                self.add(table, after, file.is_open)

    def forget(self, tables: Iterable[str]) -> None:
        """Go on as if these tables had never been written."""
        names = set(tables)
        for name in names:
            self.drop(name, self.base.files(name))
            self._touched.add(name)
        self.base = self.base.without(names)

    def hold(self, tables: Iterable[str]) -> None:
        """Let tables count as those of an older program until `upgrade`, although they are written to: a run that dies
        before has not read everything anew.
        """
        self._held |= {name: self._pins[name].schema for name in tables if name in self._pins}

    def upgrade(self, tables: Iterable[str]) -> None:
        """Let tables count as those of this program. Columns that are new are null in all rows of before."""
        for name in tables:
            if name in self._pins:
                self._touched.add(name)
                self._held.pop(name, None)

    # -- the end ---------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether nothing was changed."""
        return not self._touched

    def publish(self, what: str = "", oldest: int | None = None) -> Snapshot:
        """Make it the catalogue. The change can go on then, from the version that was published.

        Args:
            what: What was done, for the list of versions.
            oldest: The first version that can be read from now on, if those before go.

        Raises:
            CatalogueBusyError: Somebody else has changed the catalogue since this was begun.
        """
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            self._pins |= dict(threads.map(self._commit, sorted(self._touched)))
        current = self._versions.publish(self._pins, what, oldest)
        self._added.clear()
        self._removed.clear()
        self._touched.clear()
        self._taken.clear()
        self.base = Snapshot(self._root, current, dict(self._folders))
        return self.base

    def _commit(self, name: str) -> tuple[str, Pin]:
        """Commit one table; what is to be pinned then."""
        definition, pin = TABLES[name], self._pins.get(name)
        schema = definition.arrow_schema()
        folder = self._folders.get(name)
        if folder is None:
            if pin is not None:
                raise CatalogueError(f"{self._root / name} is not there: the catalogue is not complete.")
            folder = self._folders[name] = DeltaFolder.create(self._root / name, schema, [DAY])
        # What a run has committed that could not publish, or somebody else who does not know how to, never was.
        wanted = 0 if pin is None else pin.version
        if folder.version != wanted:
            folder.restore(wanted)
        folder.add_columns(schema)
        added, removed = self._added[name], {file.path for file in self._removed[name]}
        if added or removed:
            folder.commit(schema, added, removed, {"run": self.run})
            # From now on the table names them, whether it is published or set back.
            self._added[name], self._removed[name] = [], set()
        written_by = self._taken | self._held
        return name, Pin(folder.version, written_by.get(name, definition.version))

    def discard(self) -> None:
        """Delete what was written and not published: runs that come to nothing would fill the disk in the end."""
        for name, files in self._added.items():
            (self._root / name).delete(file.path for file in files)
        self._added.clear()


def _check_links(root: Path) -> None:
    """See whether a version could be published, before everything is read for it.

    Raises:
        CatalogueError: There are no links here.
    """
    name = root / f".{secrets.token_hex(8)}"
    link = name.with_suffix(".link")
    try:
        name.touch()
        os.link(name, link)
    except OSError as error:
        if error.errno not in (*NO_LINKS, errno.EMLINK):
            raise
        raise CatalogueError(
            f"{root} is on a file system without hard links, by which a catalogue changes in one step: "
            "choose a folder on another disk."
        ) from None
    finally:
        for path in (name, link):
            path.unlink(missing_ok=True)
