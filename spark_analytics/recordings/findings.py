"""What is found in a recording, row by row, before it is known when the recording was made."""

from __future__ import annotations

import attrs
import numpy as np

from rtmprelay.flv.scan import DamageKind
from spark_analytics.flv.tags import Integers
from spark_analytics.recordings.codec_track import CodecChange
from spark_analytics.recordings.seconds import SecondsBuilder
from spark_analytics.recordings.steps import NO_STILL, Still

GAP = "gap"
FREEZE = "freeze"
SILENCE = "silence"
JUMP = "timestamp_jump"
DRIFT = "av_drift"
CODEC_CHANGE = "codec_change"

#: All kinds of incidents; damage is called what it is called in `rtmprelay.flv.scan`.
KINDS = (GAP, FREEZE, SILENCE, JUMP, DRIFT, CODEC_CHANGE, *(kind.name.lower() for kind in DamageKind))


@attrs.frozen
class Incident:
    """One thing that is wrong.

    Attributes:
        time_ms: When it begins; None if that is when the part before ended.
    """

    kind: str
    time_ms: int | None
    byte_offset: int | None
    length_ms: int | None = None
    bytes: int | None = None
    detail: str = ""


#: The columns of keyframes, all of them whole numbers.
KEYFRAME_COLUMNS = ("time_ms", "timestamp_ms", "byte_offset", "bytes", "gop_frames", "gop_bytes")

#: A row for each keyframe, with these columns.
KeyframeRows = Integers


class Findings:
    """Collects rows, in whatever order they come."""

    def __init__(self) -> None:
        self.seconds = SecondsBuilder()
        self.incidents: list[Incident] = []
        self._keyframes: list[KeyframeRows] = []
        self._keyframe_count = 0

    @property
    def waiting(self) -> int:
        """About how many rows there are."""
        return self.seconds.waiting + self._keyframe_count + len(self.incidents)

    def add_keyframes(self, rows: KeyframeRows) -> None:
        """Keyframes whose group of pictures is known."""
        if len(rows):
            self._keyframes.append(rows)
            self._keyframe_count += len(rows)

    def add_stills(self, kind: str, still: Still, detail: str = "") -> None:
        """Times in which nothing came, or jumps back."""
        if still is NO_STILL:
            return
        for begin, offset, length in zip(
            still.begins.tolist(), still.offsets.tolist(), still.lengths.tolist(), strict=True
        ):
            self.incidents.append(Incident(kind, begin, offset, length, detail=detail))

    def add_changes(self, kind: str, changes: list[CodecChange]) -> None:
        """Changes of codecs."""
        for change in changes:
            self.incidents.append(
                Incident(CODEC_CHANGE, change.time_ms, change.offset, detail=f"{kind}: {change.detail}")
            )

    def take_keyframes(self) -> KeyframeRows:
        """All keyframes so far; they are forgotten then."""
        rows, self._keyframes, self._keyframe_count = self._keyframes, [], 0
        return np.concatenate(rows) if rows else np.empty((0, len(KEYFRAME_COLUMNS)), np.int64)

    def take_incidents(self) -> list[Incident]:
        """All incidents so far; they are forgotten then."""
        rows, self.incidents = self.incidents, []
        return rows
