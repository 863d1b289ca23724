"""The steps from one frame to the next: what is usual, what is missing, and what went wrong."""

from __future__ import annotations

from collections.abc import Collection

import attrs
import numpy as np

from spark_analytics.flv.tags import Integers
from spark_analytics.recordings.rules import JUMP_MS, RECENT_FRAMES, STILL_MS

_NONE = np.empty(0, np.int64)


@attrs.frozen(eq=False)
class Frames:
    """Frames in the order of the file.

    Attributes:
        times: Milliseconds since the start of the file.
        gaps: How many milliseconds of gaps there were up to each frame, since wherever the counting began.
    """

    times: Integers = _NONE
    offsets: Integers = _NONE
    gaps: Integers = _NONE

    def __len__(self) -> int:
        return len(self.times)

    def last(self) -> Frames:
        """Only the last one, if there is one."""
        return Frames(self.times[-1:].copy(), self.offsets[-1:].copy(), self.gaps[-1:].copy())

    def first(self) -> Frames:
        """Only the first one, if there is one."""
        return Frames(self.times[:1].copy(), self.offsets[:1].copy(), self.gaps[:1].copy())

    def then(self, following: Frames) -> Frames:
        """These and those."""
        if not len(self):
            return following
        if not len(following):
            return self
        return Frames(
            np.concatenate([self.times, following.times]),
            np.concatenate([self.offsets, following.offsets]),
            np.concatenate([self.gaps, following.gaps]),
        )

    def steps(self) -> Integers:
        """Milliseconds from each one to the next."""
        return self.times[1:] - self.times[:-1]

    def shifted(self, gaps: int) -> Frames:
        """The same, if there were more gaps before."""
        if not gaps or not len(self):
            return self
        return Frames(self.times, self.offsets, self.gaps + gaps)


@attrs.frozen(eq=False)
class Still:
    """Times in which nothing came, and jumps back: when each begins, where it ends in the file, how long it is."""

    begins: Integers = _NONE
    offsets: Integers = _NONE
    lengths: Integers = _NONE


NO_STILL = Still()


def gaps_before(recent: Integers, frames: Frames, no_gaps: Collection[int] = ()) -> tuple[Still, Integers]:
    """The gaps between frames of any kind, and for each frame how much of a gap is before it.

    Args:
        recent: The times of the frames before these, RECENT_FRAMES of them if there are so many.
        no_gaps: The offsets of frames that are ahead of others which come later in the file.
    """
    times = np.concatenate([recent, frames.times])
    gaps = np.zeros(len(frames), np.int64)
    # A gap is never longer than the step from the frame right before it, which is quick to see.
    for number in (np.flatnonzero(times[1:] - times[:-1] >= STILL_MS) + 1).tolist():
        at = number - len(recent)
        if at < 0 or int(frames.offsets[at]) in no_gaps:
            continue
        gap = int(times[number] - times[max(0, number - RECENT_FRAMES) : number].max())
        gaps[at] = gap if gap >= STILL_MS else 0
    which = np.flatnonzero(gaps)
    if not len(which):
        return NO_STILL, gaps
    return Still(frames.times[which] - gaps[which], frames.offsets[which], gaps[which]), gaps


def standstills(frames: Frames) -> Still:
    """Where frames of one kind stay away for longer than all of them do."""
    steps = frames.steps()
    if not _reaches(steps, STILL_MS):
        return NO_STILL
    lengths = steps - np.diff(frames.gaps)
    return _where(frames, lengths >= STILL_MS, lengths)


def jumps_back(frames: Frames) -> Still:
    """Where timestamps of one kind go back."""
    steps = frames.steps()
    if not len(steps) or steps.min() > -JUMP_MS:
        return NO_STILL
    return _where(frames, steps <= -JUMP_MS, -steps)


def _reaches(steps: Integers, length: int) -> bool:
    """Whether any of them is so long. Hardly ever is: it pays to ask."""
    return len(steps) > 0 and bool(steps.max() >= length)


def is_near(steps: Integers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which steps belong to one run of a clock, also where timestamps that jitter go back a little."""
    return (steps > -STILL_MS) & (steps < STILL_MS)


def is_regular(steps: Integers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which steps are such as a running stream has, be it with frames missing."""
    return (steps >= 0) & (steps < STILL_MS)


def _where(frames: Frames, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]], lengths: Integers) -> Still:
    number = np.flatnonzero(chosen)
    return Still(frames.times[number], frames.offsets[number + 1], lengths[number])


def usual_step(histogram: Integers) -> float | None:
    """The step that most frames make: the mean of those near the median, because milliseconds are whole."""
    total = int(histogram.sum())
    if not total:
        return None
    median = int(np.searchsorted(np.cumsum(histogram), (total + 1) // 2))
    if median == 0:
        return None
    near = np.arange(max(1, int(0.75 * median)), int(1.25 * median) + 2)
    near = near[near < len(histogram)]
    return float((near * histogram[near]).sum() / histogram[near].sum())
