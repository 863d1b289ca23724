"""What players got and lost: those who are there, and those who have left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import attrs

from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.streams.accounting import DeliveryAccount
from rtmprelay.streams.consumer import Consumer


@attrs.define(eq=False)
class AudienceAccount:
    """The accounts of several players, added up. What has been counted once stays counted."""

    messages_sent: int = 0
    messages_dropped: int = 0
    bytes_sent: int = 0
    dropped_by_reason: Counter[str] = attrs.field(factory=Counter)

    def add(self, account: DeliveryAccount | AudienceAccount) -> None:
        """Take one more into the account."""
        self.messages_sent += account.messages_sent
        self.messages_dropped += account.messages_dropped
        self.bytes_sent += account.bytes_sent
        reasons = account.reasons() if isinstance(account, DeliveryAccount) else account.dropped_by_reason
        self.dropped_by_reason.update(reasons)


def players(subscribers: Iterable[IFrameSubscriber]) -> Iterator[Consumer]:
    """Those of a stream's subscribers that show it to somebody: no destinations, no recorders."""
    for subscriber in subscribers:
        if isinstance(subscriber, Consumer) and subscriber.audience is not None:
            yield subscriber
