"""A catalogue: tables that are read at a version, and changed from one version to the next.

To read::

    snapshot = Catalogue(path).open()
    snapshot.read(spark, "seconds")             # a DataFrame
    snapshot.arrow("recordings", ["path"])      # without Spark

To write (only one at a time may; each table that is not written stays as it is)::

    with Catalogue(path).change() as change:
        change.replace("sessions", sessions)    # in the place of all rows that were there
        change.add("seconds", more)             # in addition to them
        change.publish()
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime

from spark_analytics.errors import CatalogueError
from spark_analytics.schemas import TABLES
from spark_analytics.store import first_form
from spark_analytics.store.change import Change
from spark_analytics.store.lock import locked
from spark_analytics.store.place import Place
from spark_analytics.store.snapshot import Snapshot
from spark_analytics.store.versions import PublishedVersion, Version, Versions

__all__ = ["Catalogue", "Change", "Snapshot"]


class Catalogue:
    """Where a catalogue is: a folder of this machine, on a file system with links such as that of a disk or NFS, or an
    address such as `s3://bucket/catalogue`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.root = Place.of(path)

    def snapshot(self) -> Snapshot:
        """What is there now; an empty one if there is nothing yet."""
        return self._checked(Versions.open(self.root).newest())

    def open(self, as_of: int | datetime | None = None) -> Snapshot:
        """What is there now, or was in an earlier version.

        Args:
            as_of: The number of a version, or a moment.

        Raises:
            CatalogueError: There is no catalogue, or a newer program wrote it, or there was no such version.
        """
        versions = Versions.open(self.root)
        newest = versions.newest()
        if not newest.number:
            if first_form.is_there(self.root):
                raise CatalogueError(
                    f"{self.root} is a catalogue of the first form, which this program does not read: run `index` again, "
                    "which makes it anew."
                )
            raise CatalogueError(
                f"There is no catalogue in {self.root}: make one with "
                "`python -m spark_analytics index RECORDINGS... --out CATALOGUE`."
            )
        return self._checked(newest if as_of is None else versions.at(as_of))

    def versions(self) -> list[PublishedVersion]:
        """All versions that can be read, the last first."""
        self.open()
        return Versions.open(self.root).list()

    def _checked(self, version: Version) -> Snapshot:
        for name, pin in version.pins.items():
            if name not in TABLES or pin.schema > TABLES[name].version:
                raise CatalogueError(
                    f"A newer version of this program wrote the table {name} in {self.root}: use that one."
                )
        return Snapshot(self.root, version)

    @contextmanager
    def change(self, wait: float = 0.0) -> Iterator[Change]:
        """Begin the next version. What is not published in the end never was.

        Args:
            wait: Seconds to wait for another run to end.

        Raises:
            CatalogueBusyError: Another run is at it.
        """
        self.root.make()
        with ExitStack() as stack:
            if self.root.is_local:
                stack.enter_context(locked(self.root.local, wait))
            change = Change(self.root)
            self._checked(change.base.current)
            try:
                yield change
            finally:
                change.discard()
