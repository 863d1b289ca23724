"""Decides from what a catalogue knows, without Spark, which files must be read, and who reads which part of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.flv.sources import is_uri
from spark_analytics.paths import is_gone
from spark_analytics.recordings.discover import FoundFile, Listing
from spark_analytics.recordings.rules import CLOCKS_DIFFER_BY, INDEXER_VERSION, SETTLED_AFTER
from spark_analytics.store.schema import RECORDING_TABLES, RECORDINGS

if TYPE_CHECKING:
    # Workers read what is planned, and have no deltalake.
    from spark_analytics.store.versions import Snapshot

#: A row of `recordings`.
Row = dict[str, Any]

#: The status of a file that the system does not give: it is tried again each time.
UNREADABLE = "unreadable"

#: The status of a file that was being written: it is read again when it has changed, or is settled.
GROWING = "growing"

MIB = 1024 * 1024

#: How large the parts are that a file is cut into. Smaller ones would spend their time on finding the first tag.
_SMALLEST_PART = 64 * MIB
_LARGEST_PART = 1024 * MIB

#: What one task reads at most, so that there is progress to see, and little to do again if a machine fails.
_TASK_BYTES = 1024 * MIB
_TASK_FILES = 2000

#: What opening a file costs, in bytes that could be read in that time.
_FILE_COST = 1 * MIB

#: Tasks for each core: some take longer than others.
_TASKS_PER_CORE = 3


@attrs.frozen
class Split:
    """A part of a file that one task reads: all tags that begin from `lo` on and before `hi`.

    Attributes:
        file_number: Which one it is of the files that are read.
        number: Which part of the file this is.
    """

    file: FoundFile
    file_number: int
    number: int
    lo: int
    hi: int

    @property
    def is_whole_file(self) -> bool:
        """Whether there is no other part."""
        return self.hi - self.lo == self.file.size


#: What is published together: a run that dies loses one batch. Each batch has a few files in each table and day, so batches
#: are in the order of time, and not small.
_BATCH_FILES = 4000
_BATCH_BYTES = 64 * 1024 * MIB


@attrs.frozen
class Plan:
    """What a run does.

    Attributes:
        read: Files to read: new ones, changed ones, and those that could not be read before.
        vanished: Rows of files that are not there any more, and were at the last run.
        returned: Rows of files that had vanished and are there again, unchanged.
        kept: How many files need not be read again.
    """

    read: tuple[FoundFile, ...]
    vanished: tuple[Row, ...]
    returned: tuple[Row, ...]
    kept: int

    def batches(self) -> list[Plan]:
        """The same in parts that are done one after the other; the last one has all that needs no reading."""
        lots: list[list[FoundFile]] = [[]]
        size = 0
        for file in sorted(self.read, key=lambda file: (file.mtime_ns, file.path)):
            if lots[-1] and (len(lots[-1]) >= _BATCH_FILES or size + file.size > _BATCH_BYTES):
                lots.append([])
                size = 0
            lots[-1].append(file)
            size += file.size
        first = [attrs.evolve(self, read=tuple(lot), vanished=(), returned=()) for lot in lots[:-1]]
        return [*first, attrs.evolve(self, read=tuple(lots[-1]))]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.read or self.vanished or self.returned)


def make_plan(
    listing: Listing, known: Mapping[str, Row], now: float, anew: bool = False, unchanged: int = 0
) -> Plan:
    """Compare what was found with what is known.

    Args:
        known: Rows of `recordings` by their paths.
        now: Seconds since 1970.
        anew: Whether all that was found is read, known or not.
        unchanged: How many files are as they were, besides those of the listing.
    """
    read, returned = [], []
    for path, file in listing.files.items():
        row = known.get(path)
        if anew or row is None or _must_be_read(file, row, now):
            read.append(file)
        elif row["vanished_at"] is not None:
            returned.append(row)
    vanished = [
        row
        for path, row in known.items()
        if row["vanished_at"] is None and path not in listing.files and listing.covers(path) and is_gone(path)
    ]
    kept = unchanged + len(listing.files) - len(read)
    return Plan(tuple(read), tuple(vanished), tuple(returned), kept)


def tells_news(plan: Plan, rows: Sequence[Row], known: Mapping[str, Row]) -> bool:
    """Whether a run has found out anything: files that still cannot be read are no news.

    Args:
        rows: Rows of `recordings` of what was read.
    """
    if plan.vanished or plan.returned:
        return True
    same = ("size", "mtime_ns", "status", "error")
    return any(
        row["status"] != UNREADABLE
        or (before := known.get(row["path"])) is None
        or any(row[name] != before[name] for name in same)
        for row in rows
    )


def _must_be_read(file: FoundFile, row: Row, now: float) -> bool:
    if (file.size, file.mtime_ns) != (row["size"], row["mtime_ns"]):
        return True
    if row["indexer_version"] != INDEXER_VERSION or row["status"] == UNREADABLE:
        return True
    # It was being written at the last run, and nobody has since: it is what a crash left of it.
    return row["status"] == GROWING and is_settled(file, now)


def is_settled(file: FoundFile, now: float) -> bool:
    """Whether nobody has written to a file for a while, as far as its time can be believed."""
    return not -CLOCKS_DIFFER_BY < now - file.mtime_ns / 1e9 < SETTLED_AFTER


def make_tasks(files: tuple[FoundFile, ...], parallelism: int) -> list[list[Split]]:
    """Cut large files into parts, and share all parts out evenly."""
    size = part_size(files, parallelism)
    splits = [split for number, file in enumerate(files) for split in cut(file, number, size)]
    total = sum(file.size for file in files)
    wanted = max(parallelism * _TASKS_PER_CORE, total // _TASK_BYTES, len(files) // _TASK_FILES)
    tasks: list[list[Split]] = [[] for _ in range(min(len(splits), wanted))]
    if not tasks:
        return []
    # The largest first, each to the task that has least.
    loads = [(0, number) for number in range(len(tasks))]
    heapify(loads)
    for split in sorted(splits, key=lambda one: one.lo - one.hi):
        load, number = loads[0]
        tasks[number].append(split)
        heapreplace(loads, (load + split.hi - split.lo + _FILE_COST, number))
    return tasks


def part_size(files: tuple[FoundFile, ...], parallelism: int) -> int:
    """How large parts must be so that all cores have something to do."""
    fair = sum(file.size for file in files) // (2 * parallelism)
    return min(max(fair, _SMALLEST_PART), _LARGEST_PART)


def cut(file: FoundFile, file_number: int, size: int) -> list[Split]:
    """The parts of a file, all of about this size."""
    count = max(1, round(file.size / size))
    edges = [file.size * number // count for number in range(count + 1)]
    return [Split(file, file_number, number, edges[number], edges[number + 1]) for number in range(count)]


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
