"""Where every message went: delivered, dropped for a reason, or still waiting."""

from __future__ import annotations

from enum import Enum

import attrs


class DropReason(Enum):
    """Why a consumer did not get a message."""

    QUEUE_FULL = "queue_full"
    WAITING_FOR_KEYFRAME = "waiting_for_keyframe"
    PAUSED = "paused"
    NOT_WANTED = "not_wanted"
    NOT_CONNECTED = "not_connected"
    CLOSED = "closed"


@attrs.define(eq=False)
class DeliveryAccount:
    """The exact account of one consumer: `messages_in` is `messages_sent` + `messages_dropped` + what is queued."""

    messages_in: int = 0
    messages_sent: int = 0
    messages_dropped: int = 0
    bytes_sent: int = 0
    bytes_dropped: int = 0
    dropped_by_reason: dict[DropReason, int] = attrs.field(factory=dict)

    def dropped(self, reason: DropReason, size: int, count: int = 1) -> None:
        """One or more messages, of this size together, will not be delivered."""
        self.messages_dropped += count
        self.bytes_dropped += size
        self.dropped_by_reason[reason] = self.dropped_by_reason.get(reason, 0) + count

    def reasons(self) -> dict[str, int]:
        """The dropped messages by reason, for people and machines."""
        return {reason.value: count for reason, count in self.dropped_by_reason.items()}
