"""What a catalogue knows of recordings, as far as a plan needs it; without Spark."""

from __future__ import annotations

import os

from spark_analytics.catalogue import Snapshot
from spark_analytics.indexing.plan import Row
from spark_analytics.parquet_files import files_of
from spark_analytics.scanning.sources import is_uri
from spark_analytics.schemas import INCIDENTS, KEYFRAMES, RECORDINGS, SECONDS, SESSIONS

RECORDING_TABLES = (RECORDINGS, KEYFRAMES, SECONDS, INCIDENTS, SESSIONS)

_COLUMNS = ["path", "size", "mtime_ns", "status", "indexer_version", "vanished_at", "run"]


def is_outdated(base: Snapshot) -> bool:
    """Whether there are tables that another version of this program wrote: then everything is read anew."""
    tables = base.manifest.tables
    return any(
        table.name in tables and tables[table.name].version != table.version for table in RECORDING_TABLES
    )


def known_recordings(base: Snapshot) -> dict[str, Row]:
    """What the last run has seen, by path."""
    if is_outdated(base) or not base.has(RECORDINGS.name):
        return {}
    rows = base.arrow(RECORDINGS.name, _COLUMNS).to_pylist()
    return {row["path"]: row for row in rows}


def paths_of_outdated(base: Snapshot) -> list[str]:
    """The recordings of a catalogue that is read anew, and that are still there: they are looked at again, too."""
    import pyarrow.parquet as pq

    state = base.manifest.tables.get(RECORDINGS.name)
    if state is None or not is_outdated(base):
        return []
    paths: set[str] = set()
    for file in files_of(base.folders(RECORDINGS.name, state.runs)):
        paths.update(pq.read_table(file, columns=["path"])["path"].to_pylist())
    return sorted(path for path in paths if is_uri(path) or os.path.exists(path))
