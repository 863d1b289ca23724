"""Catalogues of the first form: Parquet in folders `run=...`, and versions in a folder `_commits`.

They are not read as such. The next `index` takes over their files as they are, so that what is known of recordings and
event logs that are gone stays known, and reads again everything that is still there.
"""

from __future__ import annotations

import json
import os
import shutil
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq

from spark_analytics.errors import CatalogueError
from spark_analytics.schemas import DAY, TABLES
from spark_analytics.store.change import Change
from spark_analytics.store.part_files import PartFile, path_of, stats_of
from spark_analytics.store.place import Place

_COMMITS = "_commits"

_RECORDING_TABLES = ("recordings", "keyframes", "seconds", "incidents", "sessions")


def is_there(root: Place) -> bool:
    """Whether a folder has such a catalogue."""
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
