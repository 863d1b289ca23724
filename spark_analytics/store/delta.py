"""One Delta table: opened at a version, and changed by commits that fail if anybody else has changed it meanwhile.

delta-rs (1.6.6) writes the log; what it leaves to its callers is done here:

- It accepts conflicting changes after a retry, so that a compaction beside another one doubles every row: no commit is
  ever retried, and nothing is committed on another version than the one that was opened before anything was read.
- It accepts a file that is not there, one that is removed twice, and columns that the table does not have: these are
  looked for before.
- It does not sync: a commit lasts only after its file was synced.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake import Field as DeltaField
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from spark_analytics.errors import CatalogueBusyError, CatalogueError
from spark_analytics.store.part_files import PartFile
from spark_analytics.store.place import Place, sync_file
from spark_analytics.store.schema import DAY

#: Protocol versions without deletion vectors, column mapping and the like: every reader of Delta knows them.
READER, WRITER = 1, 2

_LOG = "_delta_log"

_COMMIT = re.compile(r"(?P<number>\d{20})\.json", re.ASCII)

_CONFIGURATION = {
    # Logs are cleaned by `vacuum` alone, which knows the versions that are pinned.
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": "interval 30 days",
    # Whoever opens a table reads all commits since the last checkpoint: on S3, a request for each.
    "delta.checkpointInterval": "20",
}

_DELETION_VECTORS = "delta.enableDeletionVectors"


class DeltaFolder:
    """A table at one version."""

    def __init__(self, place: Place, table: DeltaTable) -> None:
        self.place = place
        self._table = table
        self._check_protocol()

    @classmethod
    def open(cls, place: Place, version: int | None = None) -> DeltaFolder | None:
        """A table as it is now, or was in a version; None if there is none.

        Raises:
            CatalogueError: It cannot be read.
        """
        if place.is_local and not (place.local / _LOG).is_dir():
            return None
        try:
            return cls(place, DeltaTable(place.address, version, storage_options=place.storage_options))
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise CatalogueError(f"{place} cannot be read: {_first_line(error)}") from error

    @classmethod
    def create(cls, place: Place, schema: pa.Schema, partition_by: Sequence[str]) -> DeltaFolder:
        """A new table, without rows.

        Raises:
            CatalogueBusyError: Somebody else has just made it.
        """
        place.make()
        try:
            table = DeltaTable.create(
                place.address,
                schema,
                partition_by=list(partition_by),
                configuration=_CONFIGURATION,
                storage_options=place.storage_options,
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except (DeltaError, OSError) as error:
            if cls.open(place) is None:
                raise CatalogueError(f"{place} cannot be written: {_first_line(error)}") from error
            raise _busy(place) from error
        made = cls(place, table)
        made._sync()
        return made

    def _check_protocol(self) -> None:
        protocol = self._table.protocol()
        configuration = self._table.metadata().configuration
        if configuration.get(_DELETION_VECTORS) == "true":
            raise CatalogueError(
                f"Somebody has enabled deletion vectors on {self.place}: rows that they delete would come back. Set "
                f"{_DELETION_VECTORS} to false, purge the table, or make a new catalogue."
            )
        if protocol.min_reader_version > READER or protocol.min_writer_version > WRITER:
            raise CatalogueError(
                f"{self.place} has protocol {protocol.min_reader_version}/{protocol.min_writer_version} of Delta, which "
                f"another program has set; this one reads and writes {READER}/{WRITER}."
            )

    @property
    def version(self) -> int:
        """The version of the table."""
        return self._table.version()

    def at(self, version: int) -> DeltaFolder:
        """The same table at another version."""
        if version == self.version:
            return self
        found = DeltaFolder.open(self.place, version)
        if found is None:
            raise CatalogueError(f"{self.place} is not there: the catalogue is not complete.")
        return found

    def actions(self) -> pa.Table:
        """All files with what is known of each, flat: `path`, `size_bytes`, `num_records`, `min.x`, `max.x` ..."""
        return pa.table(self._table.get_add_actions(flatten=True))

    def paths(self) -> set[str]:
        """Where all files are, below the folder."""
        return set(self.actions()["path"].to_pylist())

    def column_names(self) -> set[str]:
        """The columns that it has."""
        return {field.name for field in self._table.schema().fields}

    def history(self) -> list[dict[str, Any]]:
        """What the commits up to this version say of themselves, the last first, as far as the log has them.

        Not by delta-rs: in folders of some names, it finds none.
        """
        from pyarrow import fs

        log = self.place / _LOG
        names = {
            int(found["number"]): info.path
            for info in log.file_system.get_file_info(fs.FileSelector(log.path))
            if (found := _COMMIT.fullmatch(info.base_name))
        }
        entries = []
        for number in sorted((number for number in names if number <= self.version), reverse=True):
            with log.file_system.open_input_stream(names[number]) as file:
                lines = map(json.loads, file.read().splitlines())
            said: dict[str, Any] = next((line["commitInfo"] for line in lines if "commitInfo" in line), {})
            entries.append({**said, "version": number})
        return entries

    # -- changes ---------------------------------------------------------------------------------------------

    def restore(self, version: int) -> None:
        """Make it what it was in an earlier version: a run that died has committed, and not published."""
        wanted = self.at(version).paths()
        self._commit(
            lambda properties: self._table.restore(
                version, ignore_missing_files=True, commit_properties=properties
            )
        )
        if self.paths() != wanted:
            raise CatalogueError(f"{self.place} could not be set back to version {version}; run this again.")

    def add_columns(self, schema: pa.Schema) -> None:
        """Add those that it does not have yet; they are null in all rows so far."""
        have = self.column_names()
        new = [name for name in schema.names if name not in have]
        if new:
            wanted: Mapping[str, DeltaField] = {
                field.name: field for field in DeltaSchema.from_arrow(schema).fields
            }
            fields = [DeltaField(name, wanted[name].type, nullable=True) for name in new]
            self._commit(
                lambda properties: self._table.alter.add_columns(fields, commit_properties=properties)
            )

    def commit(
        self,
        schema: pa.Schema,
        added: Sequence[PartFile],
        removed: Collection[str] = (),
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        """Add and remove files in one step.

        Raises:
            CatalogueBusyError: Somebody else has changed the table since it was opened.
            CatalogueError: What is to be added or removed is not there.
        """
        partitions = self._table.metadata().partition_columns
        actions: list[AddAction | RemoveAction] = [self._add(file, bool(partitions)) for file in added]
        actions += self._removals(set(removed), bool(partitions))
        self._commit(
            lambda properties: self._table.create_write_transaction(
                actions, "append", schema, partitions, commit_properties=properties
            ),
            notes,
        )

    def _add(self, file: PartFile, is_partitioned: bool) -> AddAction:
        if self.place.is_local and self.place.size_of(file.path) != file.size:
            raise CatalogueError(
                f"{self.place / file.path} is not here as Spark wrote it: the catalogue must be in a folder that all "
                "workers share with this machine, under the same path."
            )
        partition = {DAY: file.day.isoformat()} if is_partitioned else {}
        return AddAction(file.path, file.size, partition, _now_ms(), True, file.stats)

    def _removals(self, paths: set[str], is_partitioned: bool) -> list[RemoveAction]:
        if not paths:
            return []
        actions = self.actions()
        columns = ["path", "size_bytes", *([f"partition.{DAY}"] if is_partitioned else [])]
        rows = [row for row in actions.select(columns).to_pylist() if row["path"] in paths]
        if len(rows) != len(paths):
            raise CatalogueError(f"{self.place} has lost files that were to be replaced; run this again.")
        return [
            RemoveAction(
                row["path"],
                True,
                _now_ms(),
                size=row["size_bytes"],
                partition_values={DAY: row[f"partition.{DAY}"].isoformat()} if is_partitioned else {},
            )
            for row in rows
        ]

    def _commit(self, change: Any, notes: Mapping[str, Any] | None = None) -> None:
        """Commit on the version that was opened; the table is at the next one then, and it lasts."""
        before = self.version
        properties = CommitProperties(max_commit_retries=0, custom_metadata=dict(notes) if notes else None)
        try:
            change(properties)
        except CommitFailedError as error:
            raise _busy(self.place) from error
        except (DeltaError, OSError) as error:
            raise CatalogueError(f"{self.place} cannot be written: {_first_line(error)}") from error
        # Not all commits leave the handle at the version that they have made. It is the next one, or they had failed.
        self._table.load_as_version(before + 1)
        self._sync()

    def _sync(self) -> None:
        """delta-rs leaves to the system when a commit lasts."""
        if self.place.is_local:
            sync_file(self.place.local / _LOG / f"{self.version:020d}.json")
            self.place.sync(_LOG)

    def clean_log(self) -> None:
        """Delete commits that nobody needs to open the versions of the last 30 days."""
        self._table.create_checkpoint()
        self._table.cleanup_metadata()


def _busy(place: Place) -> CatalogueBusyError:
    return CatalogueBusyError(
        f"Somebody else has changed {place} meanwhile: nothing was published; run this again."
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _now_ms() -> int:
    return int(time.time() * 1000)
