"""Questions that Parquet alone can answer, in a second: no Spark is started for them. SQL gives the same answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from rtmprelay.flv.names import split_key
from spark_analytics.catalogue import Snapshot
from spark_analytics.errors import CatalogueError

#: A frame that is shown for a while is not over when the next one does not come: how much later is still in a recording.
_LAST_FRAME = timedelta(seconds=1)

_EARLIEST, _LATEST = date(1, 1, 1), date(9999, 12, 31)


@attrs.frozen
class Moment:
    """Where a stream is shown at a moment.

    Attributes:
        byte_offset: Where the keyframe before that moment begins; None if the recording has no pictures.
        timestamp_ms: The timestamp of the keyframe in the file.
        wall: When the keyframe was recorded.
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
    table = snapshot.arrow("recordings", where=_is_stream(app, name))
    rows = sorted(table.to_pylist(), key=lambda row: (row["started_at"], row["path"]))
    rows = [row for row in rows if row["video_frames"] or row["audio_frames"]]
    if not rows:
        raise CatalogueError(
            f"There is no recording of {key} in {snapshot.root}; `streams` lists what there is."
        )
    return rows


def find_moment(snapshot: Snapshot, key: str, at: datetime) -> Moment:
    """Where a stream is shown at a moment: the last keyframe before it.

    Raises:
        CatalogueError: No recording shows it.
    """
    rows = recordings_of(snapshot, key)
    shown = [row for row in rows if row["started_at"] <= at <= row["ended_at"] + _LAST_FRAME]
    if not shown:
        raise CatalogueError(f"No recording shows {key} at {_text(at)}{_nearest(rows, at)}.")
    # One that is still there goes first; of those, the one that began last.
    row = max(shown, key=lambda one: (one["vanished_at"] is None, one["started_at"], one["path"]))
    days = row["started_at"].date(), at.date()
    where = (pc.field("file_id") == row["file_id"]) & _is_stream(row["app"], row["stream"])
    columns = ["byte_offset", "timestamp_ms", "time_ms", "wall"]
    keyframes = snapshot.arrow("keyframes", columns, where, days).to_pylist()
    before = [frame for frame in keyframes if frame["wall"] <= at]
    if before:
        found = max(before, key=lambda frame: (frame["wall"], frame["byte_offset"]))
    elif keyframes:
        found = min(keyframes, key=lambda frame: (frame["wall"], frame["byte_offset"]))
    else:
        found = {"byte_offset": None, "timestamp_ms": None, "time_ms": 0, "wall": row["started_at"]}
    return Moment(row["path"], recording=row, **found)


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
    since: datetime | None = None,
    until: datetime | None = None,
    key: str | None = None,
    kinds: Sequence[str] = (),
) -> pa.Table:
    """Incidents in the order of their time."""
    where = pc.scalar(True)
    if since is not None:
        where = where & (pc.field("wall") >= pa.scalar(since, pa.timestamp("us", "UTC")))
    if until is not None:
        where = where & (pc.field("wall") <= pa.scalar(until, pa.timestamp("us", "UTC")))
    if key is not None:
        where = where & _is_stream(*split_key(key))
    if kinds:
        where = where & pc.field("kind").isin(list(kinds))
    days = since.date() if since else _EARLIEST, until.date() if until else _LATEST
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
    found = snapshot.arrow("incidents", columns, where, days)
    return found.sort_by([(name, "ascending") for name in ("wall", "app", "stream", "byte_offset", "kind")])


def list_streams(snapshot: Snapshot) -> pa.Table:
    """A row for each stream: what was recorded of it."""
    columns = [
        "app",
        "stream",
        "status",
        "duration_ms",
        "size",
        "started_at",
        "ended_at",
        "lost_bytes",
        "vanished_at",
    ]
    columns += ["dropped_frames", "video_frames", "file_id"]
    table = snapshot.arrow("recordings", columns)
    table = table.append_column(
        "bad", pc.invert(pc.is_in(table["status"], pa.array(["ok", "growing", "recovered"])))
    )
    table = table.append_column("gone", pc.is_valid(table["vanished_at"]))
    grouped = table.group_by(["app", "stream"]).aggregate(
        [
            ("file_id", "count"),
            ("duration_ms", "sum"),
            ("size", "sum"),
            ("started_at", "min"),
            ("ended_at", "max"),
            ("bad", "sum"),
            ("lost_bytes", "sum"),
            ("dropped_frames", "sum"),
            ("gone", "sum"),
        ]
    )
    counted = (
        snapshot.arrow("incidents", ["app", "stream"])
        .group_by(["app", "stream"])
        .aggregate([([], "count_all")])
    )
    joined = grouped.join(counted, ["app", "stream"], join_type="left outer")
    seconds = pc.divide(pc.cast(joined["duration_ms_sum"], pa.float64()), 1000)
    kbps = pc.divide(pc.cast(joined["size_sum"], pa.float64()), pc.multiply(seconds, 125))
    rows = pa.table(
        {
            "app": joined["app"],
            "stream": joined["stream"],
            "files": joined["file_id_count"],
            "hours": pc.divide(seconds, 3600),
            "gb": pc.divide(pc.cast(joined["size_sum"], pa.float64()), 1e9),
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


def _is_stream(app: str, name: str) -> pc.Expression:
    return (pc.field("app") == app) & (pc.field("stream") == name)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
