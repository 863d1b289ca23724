"""What a catalogue knows of recordings, as far as a plan needs it; without Spark."""

from __future__ import annotations

import os

from spark_analytics.catalogue import Snapshot
from spark_analytics.flv.sources import is_uri
from spark_analytics.indexing.plan import Row
from spark_analytics.parquet_files import files_of
from spark_analytics.schemas import INCIDENTS, KEYFRAMES, RECORDINGS, SECONDS, SESSIONS

RECORDING_TABLES = (RECORDINGS, KEYFRAMES, SECONDS, INCIDENTS, SESSIONS)

_COLUMNS = ["path", "size", "mtime_ns", "status", "indexer_version", "vanished_at", "run", "error"]


def outdated_tables(base: Snapshot) -> list[str]:
    """The tables that another version of this program wrote. If there are any, everything that is there is read anew."""
    tables = base.manifest.tables
    return [
        table.name
        for table in RECORDING_TABLES
        if table.name in tables and tables[table.name].version != table.version
    ]


def known_recordings(base: Snapshot) -> dict[str, Row]:
    """What the last run has seen, by path."""
    if not base.has(RECORDINGS.name):
        return {}
    rows = base.arrow(RECORDINGS.name, _COLUMNS).to_pylist()
    return {row["path"]: row for row in rows}


def paths_still_there(base: Snapshot) -> list[str]:
    """The recordings of a catalogue, of whatever version, that are still there."""
    import pyarrow.parquet as pq

    state = base.manifest.tables.get(RECORDINGS.name)
    if state is None:
        return []
    paths: set[str] = set()
    for file in files_of(base.folders(RECORDINGS.name, state.runs)):
        paths.update(pq.read_table(file, columns=["path"])["path"].to_pylist())
    return sorted(path for path in paths if is_uri(path) or os.path.exists(path))
