"""How a recording is, and where its messages went."""

from __future__ import annotations

from collections import Counter
from enum import Enum

import attrs

QUEUE_FULL = "queue_full"
WAITING_FOR_KEYFRAME = "waiting_for_keyframe"
TOO_LARGE = "too_large"


class RecordingState(Enum):
    """What a recording does."""

    WAITING = "waiting"
    RECORDING = "recording"
    FAILING = "failing"


@attrs.define(eq=False)
class MessageAccount:
    """What became of messages; each account belongs to one thread, so that counting needs no lock."""

    written: int = 0
    #: What that is in files.
    bytes: int = 0
    dropped: int = 0
    by_reason: dict[str, int] = attrs.field(factory=dict)

    def drop(self, reason: str, count: int = 1) -> None:
        """So many messages are not recorded."""
        if count:
            self.dropped += count
            self.by_reason[reason] = self.by_reason.get(reason, 0) + count


@attrs.frozen
class RecordingStatus:
    """One recorded stream. `messages_in` is written + dropped + queued whenever the disk rests.

    Attributes:
        path: The file that is being written; None while none is.
        bytes, duration: Of that file.
        bytes_written: Of all files of this recording.
    """

    stream: str
    state: RecordingState
    path: str | None
    segment: int | None
    bytes: int
    duration: float
    bytes_written: int
    messages_in: int
    messages_written: int
    messages_dropped: int
    messages_queued: int
    bytes_queued: int
    dropped_by_reason: dict[str, int]
    last_error: str | None


@attrs.define(eq=False)
class RecordingTotals:
    """What all recordings have taken and lost, those that have ended too: these numbers never go down."""

    bytes_written: int = 0
    messages_written: int = 0
    dropped_by_reason: Counter[str] = attrs.field(factory=Counter)

    def add(self, status: RecordingStatus) -> None:
        """Take a recording into the account."""
        self.bytes_written += status.bytes_written
        self.messages_written += status.messages_written
        self.dropped_by_reason.update(status.dropped_by_reason)

    def include(self, other: RecordingTotals) -> None:
        """Take the totals of others into the account."""
        self.bytes_written += other.bytes_written
        self.messages_written += other.messages_written
        self.dropped_by_reason.update(other.dropped_by_reason)
