"""Questions that Parquet alone can answer, in a second: no Spark is started for them. SQL gives the same answers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from rtmprelay.flv.names import split_key
from spark_analytics.analysis.rules import BEFORE_START_MS
from spark_analytics.catalogue import Snapshot
from spark_analytics.errors import CatalogueError
from spark_analytics.scanning.sources import is_uri
from spark_analytics.time_window import ALWAYS, TimeWindow, timestamp

#: A frame that is shown for a while is not over when the next one does not come: how much later is still in a recording.
_LAST_FRAME = timedelta(seconds=1)

_SECOND = timedelta(seconds=1)

#: A keyframe may have an earlier timestamp than the first frame of its file, which is when the recording started.
_BEFORE_START = timedelta(milliseconds=BEFORE_START_MS)

#: Which of several recordings of the same moment is taken; what is not named here is the last resort.
_WHOLENESS = {"ok": 3, "recovered": 2, "growing": 1}


@attrs.frozen
class Moment:
    """Where a stream is shown at a moment.

    Attributes:
        byte_offset: Where the keyframe before that moment begins; None if the recording has none.
        timestamp_ms: The timestamp of the keyframe in the file.
        time_ms: The time of the keyframe in the file.
        wall: When the keyframe was recorded. Where there is none, as in sound, it is the moment itself.
        recording: The row of `recordings`.
    """

    path: str
    byte_offset: int | None
    timestamp_ms: int | None
    time_ms: int
    wall: datetime
    recording: dict[str, Any]


def recordings_of(snapshot: Snapshot, key: str) -> list[dict[str, Any]]:
    """The recordings of a stream in which something is, in the order of their start.

    Raises:
        CatalogueError: There are none.
    """
    app, name = split_key(key)
    table = snapshot.arrow("recordings", where=is_stream(app, name))
    rows = sorted(table.to_pylist(), key=lambda row: (row["started_at"], row["path"]))
    shown = [row for row in rows if row["video_frames"] or row["audio_frames"]]
    if rows and not shown:
        raise CatalogueError(
            f"The recordings of {key} in {snapshot.root} are empty: there is nothing to see."
        )
    if not rows:
        raise _unknown(snapshot, key)
    return shown


def refuse_unknown(snapshot: Snapshot, key: str) -> None:
    """Tell a stream of which nothing is known from one of which there is nothing to tell.

    Raises:
        CatalogueError: No recording is of this stream.
    """
    if not snapshot.arrow("recordings", ["path"], where=is_stream(*split_key(key))).num_rows:
        raise _unknown(snapshot, key)


def _unknown(snapshot: Snapshot, key: str) -> CatalogueError:
    return CatalogueError(
        f"There is no recording of {key} in {snapshot.root}; `streams` lists what there is."
    )


def find_moment(snapshot: Snapshot, key: str, at: datetime) -> Moment:
    """Where a stream is shown at a moment: the last keyframe before it.

    Raises:
        CatalogueError: No recording shows it.
    """
    rows = recordings_of(snapshot, key)
    shown = [row for row in rows if row["started_at"] <= at <= row["ended_at"] + _LAST_FRAME]
    if not shown:
        raise CatalogueError(f"No recording shows {key} at {_text(at)}{_nearest(rows, at)}.")
    shown.sort(key=lambda one: _advantages(one, at), reverse=True)
    gaps = [_gap_of(snapshot, one, at) for one in shown]
    if None not in gaps:
        raise CatalogueError(f"No recording shows {key} at {_text(at)}; {shown[0]['path']} {gaps[0]}.")
    row = shown[gaps.index(None)]
    keyframes = keyframes_of(snapshot, row)
    before = keyframes.filter(pc.field("wall") <= timestamp(at))
    nearest = before.slice(len(before) - 1) if len(before) else keyframes.slice(0, 1)
    if len(nearest):
        (found,) = nearest.to_pylist()
    else:
        since = max(at - row["started_at"], timedelta(0))
        wall = row["started_at"] + since
        time_ms = since // timedelta(milliseconds=1)
        found = {"byte_offset": None, "timestamp_ms": None, "time_ms": time_ms, "wall": wall}
    return Moment(row["path"], recording=row, **found)


def _gap_of(snapshot: Snapshot, recording: Mapping[str, Any], at: datetime) -> str | None:
    """What is to be said of the hole in a recording in which a moment is; None if it is in none."""
    days = TimeWindow(recording["started_at"], at).days(before=_BEFORE_START, after=_LAST_FRAME)
    where = _is_of(recording) & (pc.field("kind") == "gap") & (pc.field("wall") < timestamp(at))
    for gap in snapshot.arrow("incidents", ["wall", "length_ms"], where, days).to_pylist():
        begin, end = gap["wall"], gap["wall"] + timedelta(milliseconds=gap["length_ms"] or 0)
        if begin + _LAST_FRAME < at < end and not _has_frames(
            snapshot, recording, begin, min(at, end - _SECOND)
        ):
            return f"has a gap there, from {_text(begin)} to {_text(end)}"
    return None


def _has_frames(snapshot: Snapshot, recording: Mapping[str, Any], after: datetime, until: datetime) -> bool:
    """Whether any second that begins in this time has frames: one wrong timestamp makes a gap where there is none."""
    wall = pc.field("wall")
    where = _is_of(recording) & (wall > timestamp(after)) & (wall <= timestamp(until))
    return bool(len(snapshot.arrow("seconds", ["second"], where, TimeWindow(after, until).days())))


def _is_of(recording: Mapping[str, Any]) -> pc.Expression:
    """The condition that a row is of a recording."""
    return (pc.field("file_id") == recording["file_id"]) & is_stream(recording["app"], recording["stream"])


def keyframes_of(snapshot: Snapshot, recording: Mapping[str, Any]) -> pa.Table:
    """Where decoding of a recording can start, in the order of time."""
    window = TimeWindow(recording["started_at"], recording["ended_at"])
    days = window.days(before=_BEFORE_START, after=timedelta(days=1))
    columns = ["byte_offset", "timestamp_ms", "time_ms", "wall"]
    found = snapshot.arrow("keyframes", columns, _is_of(recording), days)
    return found.sort_by([("wall", "ascending"), ("byte_offset", "ascending")])


def quality(recording: Mapping[str, Any]) -> tuple[bool, bool, int]:
    """How well a recording serves to see something: whether it is there, as the catalogue knows and as this machine sees
    it, and how whole it is. There may be several of one moment: copies, and what is left of them.
    """
    path = recording["path"]
    is_here = is_uri(path) or os.path.exists(path)
    return recording["vanished_at"] is None, is_here, _WHOLENESS.get(recording["status"], 0)


def _advantages(recording: Mapping[str, Any], at: datetime) -> tuple[Any, ...]:
    """The first difference decides: whether it is there, goes on beyond the moment, is whole; and began last."""
    is_known, is_here, wholeness = quality(recording)
    goes_on = at <= recording["ended_at"]
    return is_known, is_here, goes_on, wholeness, recording["started_at"], recording["path"]


def _nearest(rows: Sequence[dict[str, Any]], at: datetime) -> str:
    before = [row["ended_at"] for row in rows if row["ended_at"] < at]
    after = [row["started_at"] for row in rows if row["started_at"] > at]
    parts = []
    if before:
        parts.append(f"the last one before ends at {_text(max(before))}")
    if after:
        parts.append(f"the next one begins at {_text(min(after))}")
    return f"; {', '.join(parts)}" if parts else ""


def list_incidents(
    snapshot: Snapshot,
    window: TimeWindow = ALWAYS,
    key: str | None = None,
    kinds: Sequence[str] = (),
) -> pa.Table:
    """Incidents that begin in a time, in the order of theirs."""
    where = window.where("wall")
    if key is not None:
        where = where & is_stream(*split_key(key))
    if kinds:
        where = where & pc.field("kind").isin(list(kinds))
    columns = [
        "wall",
        "app",
        "stream",
        "kind",
        "length_ms",
        "bytes",
        "detail",
        "path",
        "time_ms",
        "byte_offset",
    ]
    found = snapshot.arrow("incidents", columns, where, window.days())
    return found.sort_by([(name, "ascending") for name in ("wall", "app", "stream", "byte_offset", "kind")])


#: What is added up over the recordings of a stream.
_SUMS = ("duration_ms", "size", "video_bytes", "audio_bytes", "lost_bytes", "dropped_frames")


def list_streams(snapshot: Snapshot) -> pa.Table:
    """A row for each stream: what was recorded of it."""
    counted = (
        snapshot.arrow("incidents", ["app", "stream"])
        .group_by(["app", "stream"])
        .aggregate([([], "count_all")])
    )
    joined = _recorded(snapshot).join(counted, ["app", "stream"], join_type="left outer")
    total = {name: pc.cast(joined[f"{name}_sum"], pa.float64()) for name in _SUMS}
    seconds = pc.divide(total["duration_ms"], 1000)
    # Of what was sent: files have room for an index at their beginning.
    payload = pc.add(pc.fill_null(total["video_bytes"], 0), pc.fill_null(total["audio_bytes"], 0))
    kbps = pc.divide(payload, pc.multiply(seconds, 125))
    rows = pa.table(
        {
            "app": joined["app"],
            "stream": joined["stream"],
            "files": joined["file_id_count"],
            "hours": pc.divide(seconds, 3600),
            "gb": pc.divide(total["size"], 1e9),
            "kbps": pc.if_else(pc.greater(seconds, 0), kbps, None),
            "first": joined["started_at_min"],
            "last": joined["ended_at_max"],
            "damaged": joined["bad_sum"],
            "lost_bytes": joined["lost_bytes_sum"],
            "dropped_frames": joined["dropped_frames_sum"],
            "incidents": pc.fill_null(joined["count_all"], 0),
            "vanished": joined["gone_sum"],
        }
    )
    return rows.sort_by([("app", "ascending"), ("stream", "ascending")])


def _recorded(snapshot: Snapshot) -> pa.Table:
    """The recordings of each stream, added up."""
    columns = ["app", "stream", "file_id", "status", "started_at", "ended_at", "vanished_at", *_SUMS]
    table = snapshot.arrow("recordings", columns)
    table = table.append_column(
        "bad", pc.invert(pc.is_in(table["status"], pa.array(["ok", "growing", "recovered"])))
    )
    table = table.append_column("gone", pc.is_valid(table["vanished_at"]))
    sums = [(name, "sum") for name in (*_SUMS, "bad", "gone")]
    others = [("file_id", "count"), ("started_at", "min"), ("ended_at", "max")]
    return table.group_by(["app", "stream"]).aggregate([*sums, *others])


def is_stream(app: str, name: str) -> pc.Expression:
    """The condition that a row is of a stream."""
    return (pc.field("app") == app) & (pc.field("stream") == name)


def _text(moment: datetime) -> str:
    # Rounded down to the second, the start of a recording would be before it.
    exact = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return f"{exact.rstrip('0') if '.' in exact else exact}Z"
