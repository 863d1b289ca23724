"""What a cutter takes and makes, and the lengths that a playlist promises."""

from __future__ import annotations

import math

import attrs

from rtmprelay.flv.tags import Content
from rtmprelay.media import MediaKind


@attrs.define
class Targets:
    """The lengths that a playlist promises, in seconds.

    Attributes:
        part: How long parts should be; 0 for whole segments only.
        segment: A segment ends at the first keyframe that comes so long after its begin.
        part_target: PART-TARGET, once it is known.
        duration: EXT-X-TARGETDURATION, once it is known.
    """

    part: float
    segment: float
    part_target: float | None = None
    duration: int | None = None

    @property
    def longest_segment(self) -> float:
        """What still rounds to the target duration."""
        return math.inf if self.duration is None else self.duration + 0.499

    @property
    def longest_part(self) -> float:
        return self.part_target if self.part else self.longest_segment  # type: ignore[return-value]

    def choose_part(self, interval: float) -> None:
        """Choose PART-TARGET for frames that come at this interval: no part has room for a fraction of one."""
        count = max(1, int(self.part / interval + 0.05))
        # Few frames in a part leave little room for jitter.
        slack = 1.02 if count >= 8 else 1.08
        self.part_target = math.ceil(count * interval * slack * 1000) / 1000

    def choose_duration(self, first_segment: float) -> None:
        self.duration = max(1, int(first_segment * 1.05 + 0.5), math.ceil(self.part_target or 0))


@attrs.frozen
class Part:
    """A part of a segment; without parts, all of it.

    Attributes:
        date: When it begins, in seconds since 1970.
        independent: Decoding can begin with it.
    """

    duration: float
    date: float
    independent: bool
    data: bytes


@attrs.frozen
class SegmentEnd:
    """The parts since the last one are a segment."""


@attrs.frozen
class CodedFrame:
    """Coded media of a track.

    Attributes:
        now: When it arrived, in seconds since 1970.
    """

    kind: MediaKind
    timestamp_ms: int
    content: Content
    data: memoryview
    now: float


Cut = Part | SegmentEnd
