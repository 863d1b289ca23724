"""What is found in a recording, row by row, before it is known when it was made: incidents, and where its codecs change."""

from __future__ import annotations

import attrs
import numpy as np

from rtmprelay.flv.scan import DamageKind
from spark_analytics.flv.tags import Integers
from spark_analytics.recordings.seconds import SecondsBuilder
from spark_analytics.recordings.steps import NO_STILL, Still


@attrs.frozen
class Seen:
    """A codec, or a decoder configuration, at its place.

    Attributes:
        digest: Of the configuration; empty if it is only the codec.
        text: For people: the size of the picture, or how the sound is sampled.
    """

    codec: str
    time_ms: int
    offset: int
    digest: str = ""
    text: str = ""


@attrs.frozen
class CodecChange:
    """Another codec or configuration begins here."""

    time_ms: int
    offset: int
    detail: str


@attrs.frozen
class Track:
    """The codecs, or the configurations, of a part of a file: what it begins and ends with.

    Attributes:
        has_changed: Whether there is another one anywhere.
    """

    first: Seen | None = None
    last: Seen | None = None
    has_changed: bool = False

    def then(self, following: Track) -> tuple[Track, list[CodecChange]]:
        """What both parts are together, and what changes where they meet."""
        has_changed = self.has_changed or following.has_changed or _differ(self.last, following.first)
        joined = Track(self.first or following.first, following.last or self.last, has_changed)
        return joined, _change(self.last, following.first)

    def see(self, seen: Seen) -> tuple[Track, list[CodecChange]]:
        """The next one."""
        return self.then(Track(seen, seen))


def _differ(before: Seen | None, after: Seen | None) -> bool:
    if before is None or after is None:
        return False
    return (before.codec, before.digest) != (after.codec, after.digest)


def _change(before: Seen | None, after: Seen | None) -> list[CodecChange]:
    """What it means that one follows the other. A configuration of another codec is told by the codecs themselves."""
    if before is None or after is None or not _differ(before, after):
        return []
    if before.digest and before.codec != after.codec:
        return []
    if not before.digest:
        detail = f"{before.codec} -> {after.codec}"
    elif before.text != after.text:
        detail = f"{after.codec}: {before.text or 'unknown'} -> {after.text or 'unknown'}"
    else:
        detail = f"{after.codec}: another decoder configuration"
    return [CodecChange(after.time_ms, after.offset, detail)]


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
