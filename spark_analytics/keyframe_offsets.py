"""Where in recordings some moments are shown, for many of them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.analysis.rules import BEFORE_START_MS
from spark_analytics.catalogue import Snapshot
from spark_analytics.concurrency import Numbers, microseconds
from spark_analytics.event_rows import groups_of
from spark_analytics.time_window import TimeWindow

Recording = Mapping[str, Any]

#: For the recordings of so many days keyframes are read together: not for all, which may be millions, and not for each.
_DAYS_TOGETHER = 7

#: Where the keyframes of a file are: when, and at which byte.
_Keyframes = tuple[Numbers, Numbers]


def keyframe_offsets(snapshot: Snapshot, places: Sequence[tuple[Recording, datetime]]) -> list[int | None]:
    """For each recording and moment where the last keyframe before that is; the first one, if the recording begins later,
    and None if it has none.
    """
    together: dict[int, list[int]] = defaultdict(list)
    for number, (recording, _) in enumerate(places):
        together[recording["started_at"].toordinal() // _DAYS_TOGETHER].append(number)
    found: list[int | None] = [None] * len(places)
    for numbers in together.values():
        keyframes = _keyframes_of(snapshot, [places[number][0] for number in numbers])
        for number in numbers:
            recording, at = places[number]
            if recording["file_id"] in keyframes:
                found[number] = _last_before(*keyframes[recording["file_id"]], microseconds(at))
    return found


def _keyframes_of(snapshot: Snapshot, recordings: Sequence[Recording]) -> dict[str, _Keyframes]:
    """The keyframes of each file."""
    times = [row[name] for row in recordings for name in ("started_at", "ended_at") if row[name] is not None]
    # A keyframe may have an earlier timestamp than the first frame of its file, which is when the recording started.
    earlier = timedelta(milliseconds=BEFORE_START_MS)
    days = TimeWindow(min(times), max(times)).days(before=earlier, after=timedelta(days=1))
    wanted = [
        pc.field(name).isin(pa.array({row[name] for row in recordings}, pa.string()))
        for name in ("app", "stream", "file_id")
    ]
    columns = ["file_id", "wall", "byte_offset"]
    rows = snapshot.arrow("keyframes", columns, wanted[0] & wanted[1] & wanted[2], days)
    return {
        name: (pc.cast(of_one["wall"], pa.int64()).to_numpy(), of_one["byte_offset"].to_numpy())
        for (name,), of_one in groups_of(rows, ["file_id"])
    }


def _last_before(walls: Numbers, offsets: Numbers, at: int) -> int:
    before = offsets[walls <= at]
    return int(before.max() if len(before) else offsets.min())
