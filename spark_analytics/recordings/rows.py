"""The rows of the tables: as workers send them, before it is known when recordings were made and how their parts belong
together, and as they are stored.

Tables in, tables out, of any number of files at once; a file is known by its number among those that a run reads. The
driver calls this for few rows, and the workers for many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.flv.tags import Integers
from spark_analytics.recordings.findings import (
    FREEZE,
    GAP,
    KEYFRAME_COLUMNS,
    SILENCE,
    Findings,
    Incident,
    KeyframeRows,
)
from spark_analytics.recordings.rules import USUAL_STEPS
from spark_analytics.recordings.seconds import COLUMNS, LARGEST, NOTHING, SUMS, SecondSums, add_equal
from spark_analytics.recordings.sound import has_jitter, skew_by_seconds
from spark_analytics.store.schema import DAY, INCIDENTS, KEYFRAMES, RECORDINGS, SECONDS, Table

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


_DAY_US = 86_400_000_000

#: What an `int` of the tables holds at most.
_LARGEST = 2**31 - 1

Floats = npt.NDArray[np.float64]

#: What is no recording has a row in `recordings` that says so, and nothing else.
_NO_RECORDING = ("unreadable", "not_flv")

#: The columns that a file has in every table.
_NAMES = ("file_id", "path", "app", "stream")


@attrs.frozen(eq=False)
class FileFrames:
    """What the rows of other tables need to know of their files, by the numbers of the files.

    Attributes:
        names: Columns that all rows of a file have in common.
        started_us: When the recording began, microseconds since 1970.
        step_ms: The usual step from picture to picture; NaN if it is not known.
        frame_ms: How long an audio frame is; NaN if it is not known, or changes in the file.
        times_before: The time of the last frame before a part of a file, by the numbers of both.
    """

    is_recording: npt.NDArray[np.bool_]
    names: dict[str, pa.Array]
    started_us: Integers
    step_ms: Floats
    frame_ms: Floats
    times_before: Mapping[tuple[int, int], int]

    @classmethod
    def of(cls, recordings: pa.Table, times_before: Mapping[tuple[int, int], int]) -> FileFrames:
        """From `RECORDING_ROWS` of all files, in the order of their numbers."""
        return cls(
            ~_numpy(pc.is_in(recordings["status"], value_set=pa.array(_NO_RECORDING))),
            {name: recordings[name].combine_chunks() for name in _NAMES},
            _numpy(recordings["started_at"].cast(pa.int64())),
            _numpy(recordings["step_ms"].cast(pa.float64()).fill_null(np.nan)),
            _numpy(recordings["frame_ms"].cast(pa.float64()).fill_null(np.nan)),
            times_before,
        )


def seconds_rows(rows: pa.Table, frames: FileFrames) -> pa.Table:
    """Rows of `seconds` from `SECOND_ROWS`: those of one second in several parts of a file become one."""
    rows = _of_recordings(rows, frames)
    keys = np.stack([_numpy(rows[FILE]).astype(np.int64), _numpy(rows["second"])])
    values = np.stack([_numpy(rows[name]) for name in COLUMNS])
    (file, second), values = add_equal(keys, values)
    by_name = dict(zip(COLUMNS, values, strict=True))
    columns: dict[str, Any] = {name: by_name[name] for name in SUMS}
    columns |= {name: pa.array(by_name[name], mask=by_name[name] == NOTHING) for name in LARGEST}
    columns["second"] = second
    columns["dropped_est"] = _dropped(by_name, frames.step_ms[file])
    columns["av_skew_ms"] = _skew(file, second, by_name, frames.frame_ms[file])
    return _table(SECONDS, columns, file, frames, second * 1_000_000)


def _dropped(sums: Mapping[str, Integers], step_ms: Floats) -> Integers:
    """How many more pictures the steps have room for; a quarter of one is no picture."""
    room = np.floor(sums["video_step_ms"] / step_ms - sums["video_steps"] + 0.25)
    dropped: Integers = np.maximum(np.nan_to_num(room, nan=0.0), 0).astype(np.int64)
    return dropped


def _skew(file: Integers, second: Integers, sums: Mapping[str, Integers], frame_ms: Floats) -> pa.Array:
    """What audio has run away by, since the start of each file."""
    starts = np.flatnonzero(np.diff(file, prepend=-1))
    lengths = np.diff(np.append(starts, len(file)))

    def so_far(amounts: Integers) -> Integers:
        total = np.cumsum(amounts)
        return total - np.repeat(total[starts] - amounts[starts], lengths)

    skew = so_far(sums["audio_step_ms"]) - so_far(sums["audio_slots"]) * frame_ms
    if len(starts):
        in_all = [np.add.reduceat(sums[name], starts).tolist() for name in ("audio_frames", "audio_early")]
        jitters = np.repeat(list(map(has_jitter, *in_all)), lengths) & ~np.isnan(frame_ms)
        if jitters.any():
            frames, phases = sums["audio_frames"][jitters], sums["audio_phase_ms"][jitters]
            by_seconds, _ = skew_by_seconds(file[jitters], second[jitters], frames, phases, frame_ms[jitters])
            first = np.flatnonzero(np.diff(file[jitters], prepend=-1))
            begun = np.repeat(by_seconds[first], np.diff(np.append(first, len(by_seconds))))
            skew[jitters] = by_seconds - begun
    return pa.array(np.round(skew, 3), from_pandas=True)


def keyframes_rows(rows: pa.Table, frames: FileFrames) -> pa.Table:
    """Rows of `keyframes` from `KEYFRAME_ROWS`."""
    rows = _of_recordings(rows, frames)
    columns = {name: rows[name] for name in KEYFRAME_COLUMNS}
    return _table(KEYFRAMES, columns, _numpy(rows[FILE]), frames, _numpy(rows["time_ms"]) * 1000)


def incidents_rows(rows: pa.Table, frames: FileFrames) -> pa.Table:
    """Rows of `incidents` from `INCIDENT_ROWS`."""
    rows = _of_recordings(rows, frames)
    rows = rows.filter(pa.array(_is_unusual(rows, frames)))
    file, time_ms = _numpy(rows[FILE]), _numpy(rows["time_ms"].fill_null(0)).copy()
    parts = _numpy(rows["part"])
    for number in np.flatnonzero(_numpy(rows["time_ms"].is_null())).tolist():
        time_ms[number] = frames.times_before.get((int(file[number]), int(parts[number])), 0)
    columns = {name: rows[name] for name in ("kind", "byte_offset", "length_ms", "bytes", "detail")}
    return _table(INCIDENTS, {**columns, "time_ms": time_ms}, file, frames, time_ms * 1000)


def _is_unusual(rows: pa.Table, frames: FileFrames) -> npt.NDArray[np.bool_]:
    """Whether a standstill is more than what is between any two frames of this file."""
    file = _numpy(rows[FILE])
    step, frame = frames.step_ms[file], frames.frame_ms[file]
    usual = np.full(len(file), np.nan)
    for kind, steps in ((FREEZE, step), (SILENCE, frame), (GAP, np.fmin(step, frame))):
        usual = np.where(_numpy(pc.equal(rows["kind"], kind)), steps, usual)
    lengths = _numpy(rows["length_ms"].fill_null(0))
    unusual: npt.NDArray[np.bool_] = np.isnan(usual) | (lengths >= USUAL_STEPS * usual)
    return unusual


#: How the rows of each table are made.
FINISHERS: dict[str, Callable[[pa.Table, FileFrames], pa.Table]] = {
    "seconds": seconds_rows,
    "keyframes": keyframes_rows,
    "incidents": incidents_rows,
}


def _of_recordings(rows: pa.Table, frames: FileFrames) -> pa.Table:
    kept = frames.is_recording[_numpy(rows[FILE])]
    return rows if kept.all() else rows.filter(pa.array(kept))


def _table(
    table: Table, columns: dict[str, Any], file: Integers, frames: FileFrames, time_us: Integers
) -> pa.Table:
    """Add what is known of the file, and when it was, from the time in the file."""
    wall = frames.started_us[file] + time_us
    which = pa.array(file, pa.int32())
    columns = {name: values.take(which) for name, values in frames.names.items()} | columns
    columns["wall"] = pa.array(wall).view(pa.timestamp("us", tz="UTC"))
    columns[DAY] = pa.array((wall // _DAY_US).astype(np.int32)).view(pa.date32())
    schema = table.arrow_schema()
    return pa.table([_cast(columns[field.name], field.type) for field in schema], schema=schema)


def _cast(column: Any, wanted: pa.DataType) -> Any:
    array = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
    if wanted == pa.int32():
        # No real recording comes near to that. A made-up one is not to end the job.
        array = pc.min_element_wise(array, pa.scalar(_LARGEST, array.type), skip_nulls=False)
    return array.cast(wanted)


def _numpy(column: Any) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array
