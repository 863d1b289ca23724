"""The state of a recording, and what happened to its messages."""

from __future__ import annotations

from collections import Counter
from enum import Enum

import attrs

#: Why messages are dropped; errors of the disk, such as ENOSPC, are reasons too.
QUEUE_FULL = "queue_full"
WAITING_FOR_KEYFRAME = "waiting_for_keyframe"
TOO_LARGE = "too_large"


class RecordingState(Enum):
    """The `state` in JSON. A recording waits until the first frame comes."""

    WAITING = "waiting"
    RECORDING = "recording"
    FAILING = "failing"


@attrs.define(eq=False)
class MessageAccount:
    """What happened to messages. Each account belongs to one thread, so that counting needs no lock."""

    written: int = 0
    #: Bytes in files.
    bytes: int = 0
    dropped: int = 0
    by_reason: dict[str, int] = attrs.field(factory=dict)

    def drop(self, reason: str, count: int = 1) -> None:
        if count:
            self.dropped += count
            self.by_reason[reason] = self.by_reason.get(reason, 0) + count


@attrs.frozen
class RecordingStatus:
    """One recorded stream. `messages_in` is written + dropped + queued whenever the disk is idle.

    Attributes:
        path: The file that is being written, if there is one.
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
    """What all recordings have written and dropped, ended ones included: these numbers never go down."""

    bytes_written: int = 0
    messages_written: int = 0
    dropped_by_reason: Counter[str] = attrs.field(factory=Counter)

    def add(self, more: RecordingStatus | RecordingTotals) -> None:
        self.bytes_written += more.bytes_written
        self.messages_written += more.messages_written
        self.dropped_by_reason.update(more.dropped_by_reason)
