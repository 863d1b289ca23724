"""The rows that workers send, before it is known when recordings were made and how their parts belong together.

A file is known by its number among those that a run reads.
"""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from spark_analytics.flv.tags import Integers
from spark_analytics.recordings.findings import KEYFRAME_COLUMNS, Findings, Incident, KeyframeRows
from spark_analytics.recordings.seconds import COLUMNS, SecondSums
from spark_analytics.schemas import RECORDINGS

FILE = "file"

#: What is sent of files that one task has read wholly: their rows of `recordings`, and what the other tables need.
RECORDING_ROWS = pa.schema(
    [(FILE, pa.int32()), *RECORDINGS.arrow_schema(), ("step_ms", pa.float64()), ("frame_ms", pa.float64())]
)

#: Of a largest one that there is not, `analysis.seconds.NOTHING` is sent.
SECOND_ROWS = pa.schema(
    [(FILE, pa.int32()), ("second", pa.int64()), *((name, pa.int64()) for name in COLUMNS)]
)

KEYFRAME_ROWS = pa.schema([(FILE, pa.int32()), *((name, pa.int64()) for name in KEYFRAME_COLUMNS)])

#: Without a time, an incident is where the part before ended.
INCIDENT_ROWS = pa.schema(
    [
        (FILE, pa.int32()),
        ("part", pa.int32()),
        ("kind", pa.string()),
        ("time_ms", pa.int64()),
        ("byte_offset", pa.int64()),
        ("length_ms", pa.int64()),
        ("bytes", pa.int64()),
        ("detail", pa.string()),
    ]
)

#: The tables that have many rows for each file, and what is sent of them.
DETAIL_ROWS = {"seconds": SECOND_ROWS, "keyframes": KEYFRAME_ROWS, "incidents": INCIDENT_ROWS}


@attrs.define(eq=False)
class RowCollector:
    """Gathers the findings of many files, because each table that is made and sent costs some time."""

    waiting: int = 0
    _seconds: list[tuple[int, SecondSums]] = attrs.field(factory=list)
    _keyframes: list[tuple[int, KeyframeRows]] = attrs.field(factory=list)
    _incidents: list[tuple[int, int, Incident]] = attrs.field(factory=list)

    def add(self, file: int, part: int, findings: Findings) -> None:
        """Take all that was found in a part of a file so far."""
        seconds, keyframes, incidents = (
            findings.seconds.take(),
            findings.take_keyframes(),
            findings.take_incidents(),
        )
        self._seconds.append((file, seconds))
        self._keyframes.append((file, keyframes))
        self.add_incidents(file, part, incidents)
        self.waiting += len(seconds) + len(keyframes)

    def add_incidents(self, file: int, part: int, incidents: list[Incident]) -> None:
        """Take incidents only."""
        self._incidents += [(file, part, incident) for incident in incidents]
        self.waiting += len(incidents)

    def take(self) -> dict[str, pa.Table]:
        """All rows so far, as tables of `DETAIL_ROWS`; there are none then."""
        tables = {
            "seconds": _second_rows(self._seconds),
            "keyframes": _keyframe_rows(self._keyframes),
            "incidents": _incident_rows(self._incidents),
        }
        self._seconds, self._keyframes, self._incidents, self.waiting = [], [], [], 0
        return tables


def _second_rows(parts: list[tuple[int, SecondSums]]) -> pa.Table:
    joined = SecondSums.joined([sums for _, sums in parts])
    columns = [_file_numbers(parts), joined.seconds, *joined.values]
    return pa.table([pa.array(column) for column in columns], schema=SECOND_ROWS)


def _keyframe_rows(parts: list[tuple[int, KeyframeRows]]) -> pa.Table:
    rows = (
        np.concatenate([rows for _, rows in parts])
        if parts
        else np.empty((0, len(KEYFRAME_COLUMNS)), np.int64)
    )
    columns = [_file_numbers(parts), *np.ascontiguousarray(rows.T)]
    return pa.table([pa.array(column) for column in columns], schema=KEYFRAME_ROWS)


def _file_numbers(parts: list[tuple[int, SecondSums]] | list[tuple[int, KeyframeRows]]) -> Integers:
    lengths = [len(rows) for _, rows in parts]
    return np.repeat(np.array([file for file, _ in parts], np.int32), lengths)


def _incident_rows(rows: list[tuple[int, int, Incident]]) -> pa.Table:
    names = INCIDENT_ROWS.names[2:]
    columns = [
        [file for file, _, _ in rows],
        [part for _, part, _ in rows],
        *([getattr(incident, name) for _, _, incident in rows] for name in names),
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, INCIDENT_ROWS, strict=True)],
        schema=INCIDENT_ROWS,
    )


#: Most numbers are small, and Java holds all of them at once: a stranger's file may have millions of rows.
_PACKING = pa.ipc.IpcWriteOptions(compression="lz4")


def packed(table: pa.Table) -> bytes | None:
    """A table as bytes; None if there are no rows."""
    if not table.num_rows:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_PACKING) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpacked(data: bytes | pa.Buffer) -> pa.Table:
    """A table from the bytes that it was packed to."""
    return pa.ipc.open_stream(data).read_all()
