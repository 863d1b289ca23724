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

import errno
import fcntl
import json
import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import IO

import pyarrow.parquet as pq

from spark_analytics.errors import CatalogueBusyError, CatalogueError
from spark_analytics.store.change import Change
from spark_analytics.store.part_files import PartFile, path_of, stats_of
from spark_analytics.store.place import Place
from spark_analytics.store.schema import DAY, RECORDING_TABLES
from spark_analytics.store.tables import TABLES
from spark_analytics.store.versions import PublishedVersion, Snapshot, Version, Versions

_LOCK = "_lock"


@contextmanager
def locked(root: Path, wait: float) -> Iterator[None]:
    """Hold the lock of a catalogue. The system lets go of it when this process ends, however it ends.

    It only spares work: of two runs that do not see each other's lock, the second one cannot publish.

    Raises:
        CatalogueBusyError: Another run holds it, and has not ended after so many seconds.
    """
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
        since = datetime.now(UTC).isoformat(timespec="seconds")
        file.write(json.dumps({"pid": os.getpid(), "host": platform.node(), "since": since}))
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


#: Of catalogues of the first form: Parquet in folders `run=...`, and versions in this folder. They are not read as such.
#: The next `index` takes over their files as they are, so that what is known of recordings and event logs that are gone
#: stays known, and reads again everything that is still there.
_COMMITS = "_commits"

_RECORDING_TABLES = [table.name for table in RECORDING_TABLES]


def has_first_form(root: Place) -> bool:
    """Whether a folder has a catalogue of the first form."""
    return root.is_local and any((root.local / _COMMITS).glob("*.json"))


def take_over(change: Change) -> None:
    """Publish the tables of the last version as the first one of the store, and delete the old form.

    Raises:
        CatalogueError: They are damaged.
    """
    root = change.base.root.local
    if change.base.version:
        # A run that died has done it already.
        _delete(root)
        return
    newest = max((root / _COMMITS).glob("*.json"))
    try:
        tables = json.loads(newest.read_text())["tables"]
        written = {name: (int(state["version"]), list(state["runs"])) for name, state in tables.items()}
    except (ValueError, KeyError, TypeError) as error:
        raise CatalogueError(
            f"{newest} of the first form cannot be taken over ({error!r}): make a new catalogue."
        ) from error
    for name, (schema, runs) in written.items():
        if name in TABLES:
            files = [_linked(root, change.run, name, schema, file) for file in _files_of(root / name, runs)]
            # Of recordings, as if another program had written them: so they are read anew.
            change.take(name, files, 0 if name in _RECORDING_TABLES else schema)
    change.publish("taken over from a catalogue of the first form")
    change.hold(_RECORDING_TABLES)
    _delete(root)


def _files_of(folder: Path, runs: list[str]) -> list[Path]:
    return [
        file
        for run in runs
        for file in sorted((folder / f"run={run}").glob(f"{DAY}=*/*.parquet"))
        if file.name[0] not in "._"
    ]


def _linked(root: Path, run: str, name: str, schema: int, file: Path) -> PartFile:
    """The same file, where the store has it."""
    day = date.fromisoformat(file.parent.name.removeprefix(f"{DAY}="))
    path = path_of(schema, day, run)
    target = root / name / path
    target.parent.mkdir(parents=True, exist_ok=True)
    os.link(file, target)
    (Place(str(root)) / name).sync(path)
    metadata = pq.read_metadata(file)
    return PartFile(path, day, file.stat().st_size, metadata.num_rows, stats_of(metadata, TABLES[name]))


def _delete(root: Path) -> None:
    """The versions last: until they are gone, the folder is known for what it was."""
    for table in TABLES:
        for folder in (root / table).glob("run=*"):
            shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(root / _COMMITS, ignore_errors=True)


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
            if has_first_form(self.root):
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
