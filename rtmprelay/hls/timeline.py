"""One timeline for a broadcast whose publishers come, go and jump."""

from __future__ import annotations

from rtmprelay.media import MediaKind, milliseconds_between

#: Timestamps that go back further than this are no jitter: the publisher has started anew.
_MAX_STEP_BACK_MS = 1000

#: The step from one frame to the next while none has been seen.
_USUAL_STEP_MS = 40


class MediaTimeline:
    """Milliseconds that only go on, from RTMP's timestamps on their circle of 49 days.

    Players freeze at a hole in the media, so there is none: where nothing was sent for longer than `longest_step`, or where
    time went back, the next frame follows the one before by a usual step. PROGRAM-DATE-TIME tells how long it really was.

    Attributes:
        longest_step: Milliseconds that a frame may come after the latest one of any kind.
        jumps: How often a longer step was made a usual one.
    """

    def __init__(self, longest_step: float) -> None:
        self.longest_step = longest_step
        self.jumps = 0
        self._timestamp: int | None = None
        self._unwrapped = 0
        self._offset = 0
        self._newest = 0
        self._newest_of: dict[MediaKind, int] = {}
        self._steps: dict[MediaKind, int] = {}

    def place(self, kind: MediaKind, timestamp_ms: int) -> int:
        """The time of a frame. The first one is at zero."""
        if self._timestamp is None:
            self._timestamp = timestamp_ms
        self._unwrapped += milliseconds_between(self._timestamp, timestamp_ms)
        self._timestamp = timestamp_ms
        time = self._unwrapped + self._offset
        before = self._newest_of.get(kind)
        went_back = before is not None and time < before - _MAX_STEP_BACK_MS
        if went_back or time > self._newest + self.longest_step:
            step = min(self._steps.get(kind, _USUAL_STEP_MS), self.longest_step)
            self._offset += int(self._newest + step) - time
            time = self._unwrapped + self._offset
            self.jumps += 1
        elif before is not None and 0 < time - before <= self.longest_step:
            self._steps[kind] = time - before
        if before is None or time > before:
            self._newest_of[kind] = time
        self._newest = max(self._newest, time)
        return time
