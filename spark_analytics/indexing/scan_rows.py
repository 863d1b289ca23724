"""The rows that the workers send: seconds, keyframes, incidents and parts in one table, because a task has one result."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_analytics.analysis.findings import KEYFRAME_COLUMNS, Incident, KeyframeRows
from spark_analytics.analysis.seconds import LARGEST, NOTHING, SUMS, SecondSums
from spark_analytics.table import Column, Table

SECOND, KEYFRAME, INCIDENT, PART = "second", "keyframe", "incident", "part"

#: What a row of each kind has; all else is null.
SCAN_ROWS = Table(
    "scan_rows",
    1,
    "What was read, before it is known how it belongs together.",
    (
        Column("row", "string", "what kind of row this is"),
        Column("file_id", "string", "which file"),
        Column("part", "int", "which part of it"),
        Column("second", "bigint", "of a second: which one"),
        *(Column(name, "bigint", "of a second") for name in (*SUMS, *LARGEST)),
        *(Column(name, "bigint", "of a keyframe, or an incident") for name in KEYFRAME_COLUMNS),
        Column("length_ms", "bigint", "of an incident"),
        Column("kind", "string", "of an incident"),
        Column("detail", "string", "of an incident"),
        Column("summary", "binary", "of a part: what is known of it, pickled"),
    ),
    (),
)

_SCHEMA = SCAN_ROWS.arrow_schema()


def _batch(row: str, file_id: str, part: int, count: int, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    fixed = {
        "row": pa.repeat(row, count),
        "file_id": pa.repeat(file_id, count),
        "part": pa.repeat(pa.scalar(part, pa.int32()), count),
        **columns,
    }
    arrays = [fixed[field.name] if field.name in fixed else pa.nulls(count, field.type) for field in _SCHEMA]
    return pa.record_batch(arrays, schema=_SCHEMA)


def second_rows(file_id: str, part: int, sums: SecondSums) -> pa.RecordBatch:
    """Seconds."""
    columns = {"second": pa.array(sums.seconds)}
    for name in SUMS:
        columns[name] = pa.array(sums.values[name])
    for name in LARGEST:
        columns[name] = pa.array(sums.values[name], mask=sums.values[name] == NOTHING)
    return _batch(SECOND, file_id, part, len(sums), columns)


def keyframe_rows(file_id: str, part: int, rows: KeyframeRows) -> pa.RecordBatch:
    """Keyframes."""
    columns = {
        name: pa.array(np.ascontiguousarray(rows[:, number])) for number, name in enumerate(KEYFRAME_COLUMNS)
    }
    return _batch(KEYFRAME, file_id, part, len(rows), columns)


def incident_rows(file_id: str, part: int, rows: list[Incident]) -> pa.RecordBatch:
    """Incidents."""
    columns = {
        "kind": pa.array([row.kind for row in rows], pa.string()),
        "time_ms": pa.array([row.time_ms for row in rows], pa.int64()),
        "byte_offset": pa.array([row.byte_offset for row in rows], pa.int64()),
        "length_ms": pa.array([row.length_ms for row in rows], pa.int64()),
        "bytes": pa.array([row.bytes for row in rows], pa.int64()),
        "detail": pa.array([row.detail for row in rows], pa.string()),
    }
    return _batch(INCIDENT, file_id, part, len(rows), columns)


def part_row(file_id: str, part: int, summary: bytes) -> pa.RecordBatch:
    """A part."""
    return _batch(PART, file_id, part, 1, {"summary": pa.array([summary], pa.binary())})


def joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows in one batch: each batch that is sent costs some time."""
    if len(batches) < 2:
        return batches
    table = pa.Table.from_batches(batches).combine_chunks()
    return list(table.to_batches())
