"""The questions about recordings, viewers and destinations: each asks a file of SQL."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs

from rtmprelay.flv.names import split_key
from spark_analytics.cli.output import printable
from spark_analytics.errors import CatalogueError
from spark_analytics.flv.sources import is_uri
from spark_analytics.questions.ask import (
    ALWAYS,
    LONGEST,
    Row,
    Scope,
    Source,
    TimeWindow,
    answer,
    microseconds,
    snapshot_of,
)
from spark_analytics.recordings.rules import BEFORE_START_MS

if TYPE_CHECKING:
    import pyarrow as pa


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


def recordings_of(source: Source, key: str) -> list[dict[str, Any]]:
    """The recordings of a stream in which something is, in the order of their start.

    Raises:
        CatalogueError: There are none.
    """
    app, name = split_key(key)
    rows = answer(source, "recordings", app=app, stream=name).to_pylist()
    shown = [row for row in rows if row["video_frames"] or row["audio_frames"]]
    if rows and not shown:
        raise CatalogueError(
            f"The recordings of {key} in {snapshot_of(source).root} are empty: there is nothing to see."
        )
    if not rows:
        raise _unknown(source, key)
    return shown


def refuse_unknown(source: Source, key: str) -> None:
    """Tell a stream of which nothing is known from one of which there is nothing to tell.

    Raises:
        CatalogueError: No recording is of this stream.
    """
    app, stream = split_key(key)
    if not answer(source, "recordings", app=app, stream=stream).num_rows:
        raise _unknown(source, key)


def _unknown(source: Source, key: str) -> CatalogueError:
    return CatalogueError(
        f"There is no recording of {key} in {snapshot_of(source).root}; `streams` lists what there is."
    )


def find_moment(source: Source, key: str, at: datetime) -> Moment:
    """Where a stream is shown at a moment: the last keyframe before it.

    Raises:
        CatalogueError: No recording shows it.
    """
    rows = recordings_of(source, key)
    shown = [row for row in rows if row["started_at"] <= at <= row["ended_at"] + _LAST_FRAME]
    if not shown:
        raise CatalogueError(f"No recording shows {key} at {_text(at)}{_nearest(rows, at)}.")
    shown.sort(key=lambda one: _advantages(one, at), reverse=True)
    gaps = [_gap_of(source, one, at) for one in shown]
    if None not in gaps:
        raise CatalogueError(f"No recording shows {key} at {_text(at)}; {shown[0]['path']} {gaps[0]}.")
    row = shown[gaps.index(None)]
    keyframes = keyframes_of(source, row).to_pylist()
    before = [one for one in keyframes if one["wall"] <= at]
    if keyframes:
        found = (before or keyframes[:1])[-1]
    else:
        since = max(at - row["started_at"], timedelta(0))
        wall = row["started_at"] + since
        time_ms = since // timedelta(milliseconds=1)
        found = {"byte_offset": None, "timestamp_ms": None, "time_ms": time_ms, "wall": wall}
    return Moment(row["path"], recording=row, **found)


def _gap_of(source: Source, recording: Mapping[str, Any], at: datetime) -> str | None:
    """What is to be said of the gap in a recording in which a moment is; None if it is in none."""
    days = TimeWindow(recording["started_at"], at).days(before=_BEFORE_START, after=_LAST_FRAME)
    for gap in answer(source, "gaps", **_of(recording, days), at=at).to_pylist():
        begin, end = gap["wall"], gap["wall"] + timedelta(milliseconds=gap["length_ms"] or 0)
        if begin + _LAST_FRAME < at < end and not _has_frames(
            source, recording, begin, min(at, end - _SECOND)
        ):
            return f"has a gap there, from {_text(begin)} to {_text(end)}"
    return None


def _has_frames(source: Source, recording: Mapping[str, Any], after: datetime, until: datetime) -> bool:
    """Whether any second that begins in this time has frames: one wrong timestamp makes a gap where there is none."""
    days = TimeWindow(after, until).days()
    found = answer(source, "frames", **_of(recording, days), after=after, until=until)
    return bool(found["seconds"][0].as_py())


def _of(recording: Mapping[str, Any], days: tuple[date, date]) -> dict[str, Any]:
    """The parameters of questions about one recording."""
    names = {name: recording[name] for name in ("file_id", "app", "stream")}
    return {**names, "first_day": days[0], "last_day": days[1]}


def keyframes_of(source: Source, recording: Mapping[str, Any]) -> pa.Table:
    """Where decoding of a recording can start, in the order of time."""
    window = TimeWindow(recording["started_at"], recording["ended_at"])
    days = window.days(before=_BEFORE_START, after=timedelta(days=1))
    return answer(source, "keyframes", **_of(recording, days))


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
    source: Source,
    window: TimeWindow = ALWAYS,
    key: str | None = None,
    kinds: Sequence[str] = (),
) -> pa.Table:
    """Incidents that begin in a time, in the order of theirs."""
    listed = "".join(f",{kind}," for kind in kinds)
    return answer(source, "incidents", **Scope(window, key).parameters(timedelta()), kinds=listed)


def list_streams(source: Source) -> pa.Table:
    """A row for each stream: what was recorded of it."""
    return answer(source, "streams")


def refuse_unknown_stream(source: Source, key: str) -> None:
    """Tell a stream that nobody knows from one without viewers. Without event logs nothing can be said of viewers.

    Raises:
        CatalogueError: It was never recorded, published or watched.
    """
    snapshot = snapshot_of(source)
    app, stream = split_key(key)
    if snapshot.has("event_files") and not answer(source, "known_streams", app=app, stream=stream).num_rows:
        raise CatalogueError(
            f"Nothing is known of {printable(key)} in {snapshot.root}; `streams` and `viewers` list what there is."
        )


def refuse_unknown_destination(source: Source, name: str) -> None:
    """The same for a destination.

    Raises:
        CatalogueError: Nothing was ever sent to it.
    """
    snapshot = snapshot_of(source)
    known = answer(source, "known_destinations")["destination"].to_pylist()
    if snapshot.has("event_files") and name not in known:
        names = ", ".join(map(printable, known))
        there = f"; there are: {names}." if known else ": nothing was sent to destinations."
        raise CatalogueError(f"There is no destination {printable(name)} in {snapshot.root}{there}")


def _text(moment: datetime) -> str:
    # Rounded down to the second, the start of a recording would be before it.
    exact = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return f"{exact.rstrip('0') if '.' in exact else exact}Z"


_MICROSECOND = timedelta(microseconds=1)
_MINUTE_US = 60_000_000


def list_plays(source: Source, scope: Scope) -> list[Row]:
    """Single plays, in the order in which they began."""
    return list(answer(source, "plays", **scope.parameters()).to_pylist())


def list_viewers(source: Source, scope: Scope, together: bool = False) -> list[Row]:
    """A row for each stream, or one for all together: who watched it, and how that went."""
    return list(answer(source, "viewers", **scope.parameters(), together=together).to_pylist())


def list_audience(
    source: Source, scope: Scope, step_us: int = _MINUTE_US, together: bool = False
) -> list[Row]:
    """How many watched, minute by minute; steps in which nothing happened are left out.

    Args:
        step_us: Another step than a minute.
        together: Whether the viewers of all streams are counted as one audience.
    """
    parameters = {
        **scope.parameters(),
        "longest_us": LONGEST // _MICROSECOND,
        "step_us": step_us,
        "together": together,
    }
    return list(answer(source, "audience", **parameters).to_pylist())


def list_destinations(source: Source, scope: Scope, by_day: bool = False) -> list[Row]:
    """A row for each destination, or for each of its days; the worst first."""
    rows = answer(
        source, "destinations", **scope.parameters(), **_days(scope.window), by_day=by_day
    ).to_pylist()
    for row in rows:
        row["dropped_by_reason"] = dict(row["dropped_by_reason"] or ())
        if not by_day:
            del row["day"]
    return list(rows)


def _days(window: TimeWindow) -> dict[str, Any]:
    """The whole days of a time, which are counted already, and the parts of others, at most two."""
    whole, parts = window.whole_days()
    first, last = (whole or window).days()
    values: dict[str, Any] = {
        "has_whole_days": whole is not None,
        "first_whole_day": first,
        "last_whole_day": last,
    }
    for name, part in zip("ab", [*parts, None, None], strict=False):
        has_ends = part is not None and part.since is not None and part.until is not None
        values[f"{name}_since_us"] = microseconds(_end(part, "since")) if has_ends else None
        values[f"{name}_until_us"] = microseconds(_end(part, "until")) if has_ends else None
        values[f"{name}_day"] = _end(part, "since").date() if has_ends else None
    return values


def _end(part: TimeWindow | None, name: str) -> datetime:
    time: datetime = getattr(part, name)
    return time


def list_outages(source: Source, scope: Scope, destination: str | None = None) -> list[Row]:
    """Outages with what was lost: by the destination, and by those who watched here meanwhile; and where it is recorded."""
    parameters = {**scope.parameters(), "destination": destination}
    (near,) = answer(source, "outage_days", **parameters).to_pylist()
    if near["began"] is None:
        return []
    first, last = TimeWindow(near["began"], near["ended"]).days(before=LONGEST, after=LONGEST)
    rows = answer(source, "outages", **parameters, first_near_day=first, last_near_day=last)
    return list(rows.to_pylist())
