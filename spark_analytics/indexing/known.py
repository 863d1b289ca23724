"""What a catalogue knows of recordings, as far as a plan needs it; without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.catalogue import Snapshot
from spark_analytics.flv.sources import is_uri
from spark_analytics.indexing.files import Listing
from spark_analytics.indexing.plan import UNREADABLE, Row
from spark_analytics.recordings.rules import INDEXER_VERSION
from spark_analytics.schemas import INCIDENTS, KEYFRAMES, RECORDINGS, SECONDS, SESSIONS

RECORDING_TABLES = (RECORDINGS, KEYFRAMES, SECONDS, INCIDENTS, SESSIONS)

_COMPARED = ["path", "size", "mtime_ns", "status", "indexer_version", "vanished_at"]

#: What the rows are found by in all tables, and what else is told of them.
_OTHERS = ["file_id", "app", "stream", "started_at", "ended_at", "day", "error"]


def outdated_tables(base: Snapshot) -> list[str]:
    """The tables that another version of this program wrote. If there are any, everything that is there is read anew."""
    written = {table.name: base.schema_version(table.name) for table in RECORDING_TABLES}
    return [table.name for table in RECORDING_TABLES if written[table.name] not in (None, table.version)]


@attrs.frozen(eq=False)
class Known:
    """The table `recordings`, in columns: as objects, a million rows would fill the memory.

    Attributes:
        rows: _COMPARED and _OTHERS.
    """

    rows: pa.Table

    @classmethod
    def of(cls, base: Snapshot) -> Known:
        """What the last run has seen."""
        return cls(base.arrow(RECORDINGS.name, [*_COMPARED, *_OTHERS]))

    def paths(self) -> Iterator[str]:
        """Of all recordings."""
        for chunk in self.rows["path"].chunks:
            yield from (path.as_py() for path in chunk)

    def changed(self, listing: Listing, anew: bool = False) -> tuple[Listing, dict[str, Row]]:
        """What is left if all files are taken away that are as they were: of the listing, and of the rows, by path.

        Args:
            anew: Whether no file counts as what it was.
        """
        files = list(listing.files.values())
        listed = pa.array([file.path for file in files], pa.string())
        where = pc.index_in(self.rows["path"], value_set=listed)
        is_listed = _numpy(pc.is_valid(where))
        number = _numpy(where.fill_null(0))
        sizes = np.fromiter((file.size for file in files), np.int64, len(files))
        times = np.fromiter((file.mtime_ns for file in files), np.int64, len(files))
        same = is_listed & _numpy(pc.is_null(self.rows["vanished_at"]))
        if len(files):
            same &= _numpy(self.rows["size"]) == sizes[number]
            same &= _numpy(self.rows["mtime_ns"]) == times[number]
        same &= _numpy(pc.equal(self.rows["indexer_version"], INDEXER_VERSION).fill_null(False))
        unsure = pa.array([UNREADABLE, "growing"])
        same &= ~_numpy(pc.is_in(self.rows["status"], value_set=unsure))
        same &= not anew
        done = np.zeros(len(files), bool)
        done[number[same]] = True
        left = {file.path: file for file, is_done in zip(files, done.tolist(), strict=True) if not is_done}
        # What was not there before and is not there now is nobody's business.
        relevant = ~same & (is_listed | _numpy(pc.is_null(self.rows["vanished_at"])))
        rows = self.rows.filter(pa.array(relevant)).to_pylist()
        return attrs.evolve(listing, files=left), {row["path"]: row for row in rows}


def _numpy(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = column.to_numpy()
    return array


def paths_still_there(base: Snapshot) -> list[str]:
    """The recordings of a catalogue that are still there."""
    paths = base.arrow(RECORDINGS.name, ["path"])["path"].to_pylist()
    return sorted(path for path in set(paths) if is_uri(path) or os.path.exists(path))
