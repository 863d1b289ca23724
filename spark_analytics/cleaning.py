"""Deletes what no version of a catalogue needs any more."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from spark_analytics import manifest as manifests
from spark_analytics.manifest import DamagedVersionError, Manifest
from spark_analytics.schemas import TABLES

#: Seconds for which a version stays readable after the next one was published: the longest question.
GRACE = 3600.0


def clean_up(root: Path, now: float | None = None) -> list[Path]:
    """Delete versions that were superseded long ago, and folders that no version names; what was deleted.

    Whoever calls this must be the only one that writes.
    """
    now = time.time() if now is None else now
    known = _readable(root)
    deleted: list[Path] = []
    for version in manifests.versions(root):
        later = [one.created_at for number, one in known.items() if number > version]
        if later and min(later) < now - GRACE:
            path = manifests.path_of(root, version)
            path.unlink(missing_ok=True)
            deleted.append(path)
            known.pop(version, None)
    needed = _named(known.values())
    for table in TABLES:
        for folder in sorted((root / table).glob("run=*")):
            if (table, folder.name.removeprefix("run=")) not in needed and _is_old(folder, now):
                shutil.rmtree(folder, ignore_errors=True)
                deleted.append(folder)
    for leftover in (root / manifests.COMMITS).glob(".*"):
        with suppress(OSError):
            if leftover.stat().st_mtime < now - GRACE:
                leftover.unlink()
    return deleted


def discard(root: Path, run: str) -> None:
    """Delete what a run wrote that came to nothing: runs that find nothing new would fill the disk in the end."""
    needed = _named(_readable(root).values())
    for table in TABLES:
        # A run may have written a table in several parts.
        for folder in (root / table).glob(f"run={run}*"):
            if (table, folder.name.removeprefix("run=")) not in needed:
                shutil.rmtree(folder, ignore_errors=True)


def _readable(root: Path) -> dict[int, Manifest]:
    """All versions but damaged ones: nobody can read those, and nobody needs what they name."""
    found: dict[int, Manifest] = {}
    for version in manifests.versions(root):
        with suppress(DamagedVersionError):
            found[version] = manifests.read_version(root, version)
    return found


def _named(versions: Iterable[Manifest]) -> set[tuple[str, str]]:
    """The tables and runs of these versions."""
    return {
        (name, run) for version in versions for name, state in version.tables.items() for run in state.runs
    }


def _is_old(folder: Path, now: float) -> bool:
    """A folder that changed lately may belong to a run on a machine that does not see our lock."""
    try:
        return folder.stat().st_mtime < now - GRACE
    except OSError:
        return False
