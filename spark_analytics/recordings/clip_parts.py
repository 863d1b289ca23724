"""Decides from which recordings a clip is cut, and where it changes from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from rtmprelay.media import milliseconds_between
from spark_analytics.questions.recordings import Moment, quality
from spark_analytics.recordings.rules import SESSION_HOLE

#: Milliseconds between the last frame of a file and the first of the next, if its timestamps simply go on.
GOES_ON_MS = 2000

#: Longer holes are not bridged.
_LONGEST_HOLE = timedelta(seconds=SESSION_HOLE)

#: Names say to the second when a recording began: what overlaps by less may be one after the other.
_OF_A_NAME = timedelta(seconds=1)

#: Nobody sees that so much is missing.
_UNSEEN = timedelta(milliseconds=100)

_MILLISECOND = timedelta(milliseconds=1)

Row = dict[str, Any]


@attrs.frozen
class ClipPart:
    """What a clip takes from a recording.

    Attributes:
        byte_offset: Where to begin to read; None for the first tag.
        begin_ms: Frames before this time of the file are left out; None for none.
        end_ms: Frames from this time of the file on are left out; None for none.
    """

    recording: Row
    byte_offset: int | None = None
    begin_ms: int | None = None
    end_ms: int | None = None

    @property
    def begins_at(self) -> datetime:
        """When what it shows was recorded."""
        started: datetime = self.recording["started_at"]
        return started + timedelta(milliseconds=self.begin_ms or 0)


@attrs.frozen
class ClipPlan:
    """Finds what follows.

    Attributes:
        recordings: All of the stream.
        until: Where the clip ends.
        keyframes_of: The rows of `keyframes` of a recording, in the order of time.
    """

    recordings: Sequence[Row]
    until: datetime
    keyframes_of: Callable[[Row], pa.Table]

    def parts(self, moment: Moment) -> list[ClipPart]:
        """The recording of the moment, and those that go on where it ends, as long as one does."""
        parts = [ClipPart(moment.recording, moment.byte_offset, moment.time_ms)]
        while parts[-1].recording["ended_at"] < self.until:
            joined = self._with_next(parts[-1])
            if joined is None:
                break
            parts[-1:] = joined
        return parts

    def _with_next(self, part: ClipPart) -> tuple[ClipPart, ClipPart] | None:
        for following in self._candidates(part.recording):
            joined = self._join(part, following)
            if joined is not None:
                return joined
        return None

    def _candidates(self, current: Row) -> list[Row]:
        """What goes on after the end of a recording, the best one first."""
        found = [
            row
            for row in self.recordings
            if row["ended_at"] > current["ended_at"]
            and row["started_at"] <= current["ended_at"] + _LONGEST_HOLE
            and row["started_at"] < self.until
        ]
        there = [row for row in found if all(quality(row)[:2])]
        return sorted(there, key=lambda row: _disadvantages(current, row))

    def _join(self, part: ClipPart, following: Row) -> tuple[ClipPart, ClipPart] | None:
        """Both, cut so that nothing is shown twice; None if there is no place where the second one can begin."""
        current = part.recording
        if _goes_on(current, following) or following["started_at"] >= current["ended_at"] - _OF_A_NAME:
            return part, ClipPart(following)
        if not following["video_frames"]:
            behind = (current["ended_at"] - following["started_at"]) // _MILLISECOND + 1
            return part, ClipPart(following, begin_ms=behind)
        keyframe = self._place_to_change(part, following)
        if keyframe is None:
            return None
        end_ms = (keyframe["wall"] - current["started_at"]) // _MILLISECOND
        return attrs.evolve(part, end_ms=end_ms), ClipPart(
            following, keyframe["byte_offset"], keyframe["time_ms"]
        )

    def _place_to_change(self, part: ClipPart, following: Row) -> Row | None:
        """The keyframe that is so close after the end that nobody sees the hole; or else the last one before the end,
        from which on the part is not needed; or else the next one.
        """
        end = part.recording["ended_at"]
        keyframes = self.keyframes_of(following)
        wall, latest = keyframes["wall"], min(end + _LONGEST_HOLE, self.until)
        in_reach = pc.and_(pc.greater(wall, part.begins_at), pc.less_equal(wall, latest))
        rows: list[Row] = keyframes.filter(in_reach).to_pylist()
        before = [row for row in rows if row["wall"] <= end]
        after = [row for row in rows if row["wall"] > end]
        if before and not (after and after[0]["wall"] <= end + _UNSEEN):
            return before[-1]
        return after[0] if after else None


def _goes_on(current: Row, following: Row) -> bool:
    """Whether the timestamps say that one recording is the continuation of the other."""
    last = (current["first_timestamp_ms"] or 0) + (current["duration_ms"] or 0)
    return 0 <= milliseconds_between(last, following["first_timestamp_ms"] or 0) <= GOES_ON_MS


def _disadvantages(current: Row, following: Row) -> tuple[Any, ...]:
    """The first difference decides: a hole, damage, another server, one more change soon."""
    hole = following["started_at"] - current["ended_at"]
    wholeness = quality(following)[2]
    return (
        hole if hole > _OF_A_NAME else timedelta(0),
        -wholeness,
        not _goes_on(current, following),
        -following["ended_at"].timestamp(),
        following["path"],
    )
