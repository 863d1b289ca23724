"""Part files: the Parquet files that a table is made of, one or a few for each day. They never change once written."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, date, datetime
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_analytics.store.place import Place
from spark_analytics.store.schema import DAY, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Rows of a day that are read together: each group says of which streams it is, and a question about one skips the others.
ROWS_TOGETHER = 1 << 16

#: A task of Spark begins another file when one has grown so large.
LARGEST_FILE = 512 * 1024 * 1024

#: What the names of files begin with: rows that may change with the next run are in files of their own, so that these
#: are replaced and no others.
SETTLED, OPEN = "part", "open"

#: Columns of which a commit says the least and the largest value in each file, besides those that a table is sorted by.
_ALSO_COUNTED = ("file_id", "instance", "ended_at", "ended")

#: A longer text does not help to choose files, and each commit would carry it.
_LONGEST_TEXT = 64


@attrs.frozen
class PartFile:
    """One file of a table.

    Attributes:
        path: Below the folder of the table, see `path_of`.
        stats: As a commit has it; empty if the file was committed before.
    """

    path: str
    day: date
    size: int
    rows: int
    stats: str = attrs.field(default="", eq=False, repr=False)

    @property
    def is_open(self) -> bool:
        """Whether its rows may change with the next run."""
        return self.path.rpartition("/")[2].startswith(OPEN)

    @property
    def schema(self) -> str:
        """By which version of its schema the table was written."""
        return self.path.rpartition("/")[2].split("-")[1]


def path_of(schema: int, day: date, run: str, kind: str = SETTLED) -> str:
    """The path of a new file: its day, kind, version of the schema, run, and something that no other has."""
    return f"{DAY}={day.isoformat()}/{kind}-{schema}-{run}-{secrets.token_hex(6)}.parquet"


def counted_columns(table: Table) -> list[str]:
    """The columns of which a commit says what is in each file."""
    return [
        column.name
        for column in table.columns
        if column.name in (*table.sorted_by, *_ALSO_COUNTED) and column.name != DAY
    ]


class PartWriter:
    """Writes one part file."""

    def __init__(self, folder: Place, table: Table, day: date, run: str, kind: str = SETTLED) -> None:
        self._table = table
        self._day = day
        self._schema = table.arrow_schema().remove(len(table.columns) - 1)
        self._path = path_of(table.version, day, run, kind)
        self._stack = ExitStack()
        self._metadata: list[pq.FileMetaData] = []
        self._file: IO[bytes] = self._stack.enter_context(folder.create(self._path))
        self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd")

    @property
    def size(self) -> int:
        """Bytes so far, but for the rows that are still in memory."""
        return self._file.tell()

    def write(self, rows: pa.Table) -> None:
        """Add rows of the day, in the order of the table."""
        rows = rows.select(self._schema.names).cast(self._schema)
        self._writer.write_table(rows, row_group_size=ROWS_TOGETHER)

    def finish(self) -> PartFile:
        """Close it; it lasts then."""
        with self._stack:
            self._writer.close()
            size = self._file.tell()
        metadata = self._writer.writer.metadata
        return PartFile(self._path, self._day, size, metadata.num_rows, stats_of(metadata, self._table))

    def fail(self, error: BaseException) -> None:
        """Leave nothing behind."""
        # It would try to end the file when it is collected, and complain that nothing can be written.
        self._writer.is_open = False
        self._stack.__exit__(type(error), error, error.__traceback__)


def stats_of(metadata: pq.FileMetaData, table: Table) -> str:
    """What a file says of its rows, as Delta notes it."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    numbers = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    for name in counted_columns(table):
        found = [
            metadata.row_group(group).column(numbers[name]).statistics
            for group in range(metadata.num_row_groups)
            if name in numbers
        ]
        if not found or any(one is None or not one.has_null_count for one in found):
            continue
        nulls[name] = sum(one.null_count for one in found)
        known = [one for one in found if one.has_min_max]
        if len(known) < sum(one.num_values > 0 for one in found) or not known:
            continue
        least, most = _plain(min(one.min for one in known)), _plain(max(one.max for one in known))
        if least is not None and most is not None:
            low[name], high[name] = least, most
    counts = {"numRecords": metadata.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    return json.dumps(counts, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """A value as the log of a table has it; None if it is left out there."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if value.year >= 1000 else None
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    return value if isinstance(value, int) else None


def write_rows(folder: Place, table: Table, rows: pa.Table, run: str, kind: str = SETTLED) -> list[PartFile]:
    """Write rows that are here, a file for each day."""
    order = [(DAY, "ascending"), *((name, "ascending") for name in table.sorted_by)]
    schema = table.arrow_schema()
    rows = rows.select(schema.names).cast(schema).sort_by(order)
    files = []
    for day, of_day in _by_days(rows):
        writer = PartWriter(folder, table, day, run, kind)
        try:
            writer.write(of_day)
            files.append(writer.finish())
        except BaseException as error:
            writer.fail(error)
            folder.delete(file.path for file in files)
            raise
    return files


def days_in_order(rows: pa.Table, table: Table) -> Iterator[tuple[date, pa.Table]]:
    """The rows of each day, in an order that is the same for the same rows."""
    schema = table.arrow_schema()
    plain = [field.name for field in schema if not pa.types.is_nested(field.type) and field.name != DAY]
    order = [(name, "ascending") for name in (DAY, *table.sorted_by, *plain)]
    rows = rows.select(schema.names).cast(schema).sort_by(list(dict.fromkeys(order)))
    yield from _by_days(rows.combine_chunks())


def _by_days(rows: pa.Table) -> Iterator[tuple[date, pa.Table]]:
    """The rows of each day, which lie together."""
    days = pc.run_end_encode(rows[DAY].combine_chunks()) if rows.num_rows else None
    if days is None:
        return
    chunks = days.chunks if isinstance(days, pa.ChunkedArray) else [days]
    begin = 0
    for chunk in chunks:
        for end, day in zip(chunk.run_ends.to_pylist(), chunk.values.to_pylist(), strict=True):
            yield day, rows.slice(begin, end - begin)
            begin = end


# -- by the tasks of Spark -----------------------------------------------------------------------------------

_WRITTEN = "path string, day date, size bigint, rows bigint, stats string"


def write_frame(
    folder: Place,
    table: Table,
    rows: DataFrame,
    run: str,
    kind: str = SETTLED,
    open_ids: frozenset[str] = frozenset(),
) -> list[PartFile]:
    """Write rows by the tasks of Spark.

    Args:
        open_ids: Recordings whose rows go to files of the kind `OPEN`.
    """
    # Few files for each day, however many tasks there were before.
    rows = rows.select(table.column_names).hint("rebalance", DAY).sortWithinPartitions(DAY, *table.sorted_by)
    task = partial(_write_task, folder.address, table, run, kind, open_ids)
    written = rows.mapInArrow(task, _WRITTEN).toArrow().to_pylist()
    return [PartFile(**row) for row in written]


def _write_task(
    address: str,
    table: Table,
    run: str,
    kind: str,
    open_ids: frozenset[str],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """What a task does: its rows come in the order of the days."""
    folder = Place(address)
    schema = pa.schema(
        [
            ("path", pa.string()),
            ("day", pa.date32()),
            ("size", pa.int64()),
            ("rows", pa.int64()),
            ("stats", pa.string()),
        ]
    )
    ids = pa.array(sorted(open_ids), pa.string())
    lots: dict[str, Sequence[PartFile]] = {}
    writers = {name: _TaskWriter(folder, table, run, name) for name in (kind, OPEN)}
    try:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            if open_ids:
                is_open = pc.is_in(rows["file_id"], value_set=ids)
                writers[OPEN].write(rows.filter(is_open))
                rows = rows.filter(pc.invert(is_open))
            writers[kind].write(rows)
        lots = {name: writer.finish() for name, writer in writers.items()}
    except BaseException as error:
        for writer in writers.values():
            writer.fail(error)
        raise
    values = [attrs.asdict(file) for files in lots.values() for file in files]
    yield from pa.Table.from_pylist(values, schema=schema).to_batches()


class _TaskWriter:
    """Writes the rows of one kind, which come in the order of the days, a file after the other."""

    def __init__(self, folder: Place, table: Table, run: str, kind: str) -> None:
        self._arguments = (folder, table)
        self._named = (run, kind)
        self._day: date | None = None
        self._writer: PartWriter | None = None
        self._waiting: list[pa.Table] = []
        self._files: list[PartFile] = []

    def write(self, rows: pa.Table) -> None:
        """Take rows; they are written when there are enough of a day."""
        for day, of_day in _by_days(rows):
            if day != self._day:
                self._end_file()
                self._day = day
            self._waiting.append(of_day)
            if sum(map(len, self._waiting)) >= ROWS_TOGETHER:
                self._flush()

    def _flush(self) -> None:
        if not self._waiting or self._day is None:
            return
        if self._writer is None:
            self._writer = PartWriter(*self._arguments, self._day, *self._named)
        self._writer.write(pa.concat_tables(self._waiting).combine_chunks())
        self._waiting = []
        if self._writer.size > LARGEST_FILE:
            self._end_file()

    def _end_file(self) -> None:
        self._flush()
        if self._writer is not None:
            self._files.append(self._writer.finish())
            self._writer = None

    def finish(self) -> list[PartFile]:
        """Write the rest; all files."""
        self._end_file()
        return self._files

    def fail(self, error: BaseException) -> None:
        """Leave nothing behind."""
        if self._writer is not None:
            self._writer.fail(error)
        self._arguments[0].delete(file.path for file in self._files)


# -- reading -------------------------------------------------------------------------------------------------


def read_files(
    folder: Place,
    table: Table,
    files: Iterable[PartFile],
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
) -> pa.Table:
    """The rows of files, without Spark. A column that a file does not have yet is null there."""
    return dataset_of(folder, table, files).to_table(
        columns=list(columns or table.column_names), filter=where
    )


def dataset_of(folder: Place, table: Table, files: Iterable[PartFile]) -> Any:
    """Files as a dataset of Arrow."""
    import pyarrow.dataset as ds

    schema = table.arrow_schema()
    layout = ds.ParquetFileFormat()
    system = folder.file_system
    fragments = [
        layout.make_fragment(
            f"{folder.path}/{file.path}", system, pc.field(DAY) == pa.scalar(file.day, pa.date32())
        )
        for file in files
    ]
    return ds.FileSystemDataset(fragments, schema, layout, system)


def overlapping(actions: pa.Table, ranges: Mapping[str, tuple[Any, Any]]) -> pa.Table:
    """Which files may have rows in all of these ranges; what is not known of a file counts as if it were in them.

    Args:
        actions: As delta-rs gives them, flat.
        ranges: The least and the largest value of columns.
    """
    for name, (least, most) in ranges.items():
        if f"max.{name}" not in actions.column_names:
            continue
        low, high = actions[f"min.{name}"], actions[f"max.{name}"]
        inside = pc.and_(
            pc.greater_equal(high, pa.scalar(least, high.type)), pc.less_equal(low, pa.scalar(most, low.type))
        )
        actions = actions.filter(pc.fill_null(inside, True))
    return actions


def not_ended(actions: pa.Table, end: str, moment: datetime) -> pa.Table:
    """Which files may have rows that have not ended before a moment: later ones, and those without an end."""
    if f"max.{end}" not in actions.column_names:
        return actions
    last = actions[f"max.{end}"]
    late = pc.fill_null(pc.greater_equal(last, pa.scalar(moment, last.type)), True)
    return actions.filter(pc.or_(late, pc.fill_null(pc.greater(actions[f"null_count.{end}"], 0), True)))
