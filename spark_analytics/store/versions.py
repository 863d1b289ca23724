"""`_versions`: the table that says which version of each table makes up the catalogue.

A version of the catalogue is a version of this table. It is published by one commit, which fails if somebody else has
published since this table was opened: so several tables change in one step, and readers never see half of a change.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from spark_analytics.errors import CatalogueBusyError, CatalogueError
from spark_analytics.store.delta import DeltaFolder
from spark_analytics.store.part_files import PartFile
from spark_analytics.store.place import Place

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
