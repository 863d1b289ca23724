"""The versions of a catalogue: which folders make up each table. A version is published in one atomic step.

    CATALOGUE/_commits/00000007.json      the newest one is the catalogue
    CATALOGUE/seconds/run=.../day=.../    never changed once a version names it

So a run that is killed leaves folders that no version names, and nothing else.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from spark_analytics.errors import CatalogueBusyError, CatalogueError

#: How folders and manifests are arranged.
FORMAT = 1

COMMITS = "_commits"


@attrs.frozen
class TableState:
    """A table in one version: by which schema it was written, and in which runs."""

    version: int
    runs: tuple[str, ...]


@attrs.frozen
class Manifest:
    """One version of the catalogue.

    Attributes:
        version: 0 is that of a catalogue that nothing was written to.
        notes: What the run that made it wants to remember.
    """

    version: int = 0
    tables: Mapping[str, TableState] = attrs.field(factory=dict)
    created_at: float = 0.0
    notes: Mapping[str, Any] = attrs.field(factory=dict)

    def to_json(self) -> str:
        """As it is written."""
        tables = {
            name: {"version": state.version, "runs": list(state.runs)} for name, state in self.tables.items()
        }
        values = {
            "format": FORMAT,
            "version": self.version,
            "created_at": self.created_at,
            "tables": tables,
            "notes": dict(self.notes),
        }
        return json.dumps(values, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """As it was written.

        Raises:
            CatalogueError: A newer program wrote it.
        """
        values = json.loads(text)
        if values["format"] != FORMAT:
            raise CatalogueError(
                f"The catalogue has format {values['format']}, and this program knows {FORMAT}: use a newer one."
            )
        tables = {
            name: TableState(int(state["version"]), tuple(state["runs"]))
            for name, state in values["tables"].items()
        }
        return cls(int(values["version"]), tables, float(values["created_at"]), values["notes"])


def versions(root: Path) -> list[int]:
    """All versions that are kept, in order."""
    try:
        names = os.listdir(root / COMMITS)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdecimal())


def read_version(root: Path, version: int) -> Manifest:
    """One of them."""
    return Manifest.from_json(path_of(root, version).read_text())


def newest(root: Path) -> Manifest:
    """What the catalogue is now."""
    while True:
        known = versions(root)
        if not known:
            return Manifest()
        try:
            return read_version(root, known[-1])
        except FileNotFoundError:
            # Superseded and cleaned away just now: there is a newer one.
            continue


def path_of(root: Path, version: int) -> Path:
    """The file of a version."""
    return root / COMMITS / f"{version:08d}.json"


def publish(root: Path, manifest: Manifest) -> None:
    """Make this version the catalogue; it is there wholly or not at all, even if the power goes.

    Raises:
        CatalogueBusyError: Another run has published a version of this number.
    """
    folder = root / COMMITS
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(root)
    temporary = folder / f".{uuid.uuid4().hex}"
    try:
        with temporary.open("w") as file:
            file.write(attrs.evolve(manifest, created_at=time.time()).to_json())
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path_of(root, manifest.version))
        except FileExistsError:
            raise CatalogueBusyError(
                f"Another run has changed {root} meanwhile (version {manifest.version}); run this again."
            ) from None
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
