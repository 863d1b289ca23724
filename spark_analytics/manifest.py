"""The versions of a catalogue: which folders make up each table. A version is published in one atomic step.

    CATALOGUE/_commits/00000007.json      the newest one is the catalogue
    CATALOGUE/seconds/run=.../day=.../    never changed once a version names it

So a run that is killed leaves folders that no version names, and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from spark_analytics.errors import CatalogueBusyError, CatalogueError
from spark_analytics.whole_file import NO_LINKS

#: How folders and manifests are arranged.
FORMAT = 1

COMMITS = "_commits"

_NAME = re.compile(r"\d{8,}\.json", re.ASCII)


class DamagedVersionError(CatalogueError):
    """A version that cannot be understood."""


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
    return sorted(int(name[:-5]) for name in names if _NAME.fullmatch(name))


def read_version(root: Path, version: int) -> Manifest:
    """One of them.

    Raises:
        DamagedVersionError: It is not what was written.
        CatalogueError: A newer program wrote it.
    """
    path = path_of(root, version)
    try:
        return Manifest.from_json(path.read_text())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedVersionError(
            f"{path} is damaged ({error!r}). If it is deleted, the version before it is the catalogue again."
        ) from error


def newest(root: Path) -> Manifest:
    """What the catalogue is now."""
    known = versions(root)
    while known:
        try:
            return read_version(root, known[-1])
        except FileNotFoundError:
            # Superseded and cleaned away just now: there is a newer one.
            before, known = known, versions(root)
            if known == before:
                raise
    return Manifest()


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


def check_links(root: Path) -> None:
    """See whether a version could be published, before everything is read for it.

    Raises:
        CatalogueError: There are no links here.
    """
    name = root / f".{uuid.uuid4().hex}"
    link = name.with_suffix(".link")
    try:
        name.touch()
        os.link(name, link)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        raise CatalogueError(
            f"{root} is on a file system without hard links, by which a catalogue changes in one step: "
            "choose a folder on another disk."
        ) from None
    finally:
        for path in (name, link):
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
