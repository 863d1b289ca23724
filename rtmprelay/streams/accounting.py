"""Where every message went: delivered, dropped for a reason, or still queued; and what is reported about it."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING

import attrs

from rtmprelay.events import MediaStatistics, PlayStopped

if TYPE_CHECKING:
    from rtmprelay.streams.consumer import Player

#: Shorter stalls are how any socket works: a large keyframe fills it each time.
SHORTEST_STALL = 1.0


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
        """The dropped messages, by the name of the reason."""
        return {reason.value: count for reason, count in self.dropped_by_reason.items()}


@attrs.define(eq=False)
class AudienceAccount:
    """The accounts of several players, added up."""

    messages_sent: int = 0
    messages_dropped: int = 0
    bytes_sent: int = 0
    dropped_by_reason: Counter[str] = attrs.field(factory=Counter)

    def add(self, account: DeliveryAccount | AudienceAccount) -> None:
        self.messages_sent += account.messages_sent
        self.messages_dropped += account.messages_dropped
        self.bytes_sent += account.bytes_sent
        reasons = account.reasons() if isinstance(account, DeliveryAccount) else account.dropped_by_reason
        self.dropped_by_reason.update(reasons)


@attrs.define(eq=False, slots=True)
class StallMeter:
    """Counts how often a viewer could not keep up: media waited for it for at least `SHORTEST_STALL` seconds.

    Attributes:
        count: The stalls that are over.
        seconds: How long they lasted, all together.
    """

    count: int = 0
    seconds: float = 0.0
    _since: float | None = None

    def transport_full(self, now: float) -> None:
        """The receiver takes nothing more."""
        if self._since is None:
            self._since = now

    def transport_ready(self, now: float) -> None:
        """The receiver has taken everything, or is gone."""
        if self._since is not None:
            lasted = now - self._since
            self._since = None
            if lasted >= SHORTEST_STALL:
                self.count += 1
                self.seconds += lasted


@attrs.frozen
class _Total:
    """The account at the last report."""

    at: float
    messages: int = 0
    bytes: int = 0
    dropped: int = 0
    stalls: int = 0
    stalled_seconds: float = 0.0


class PlayReport:
    """Turns the account of a player into events, whatever its protocol: from time to time, and at the end."""

    def __init__(self, connection: str, stream: str, player: Player, now: float, peer: str = "") -> None:
        self.stalls = StallMeter()
        #: The name of the connection in events, and where it comes from.
        self.connection = connection
        self.peer = peer
        #: When playing began.
        self.began = now
        self._stream = stream
        self._player = player
        self._last = _Total(now)

    @property
    def last_at(self) -> float:
        """When the last statistics were made; before the first, when playing began."""
        return self._last.at

    def stopped(self, now: float, reason: str) -> PlayStopped:
        """The account of everything played."""
        account = self._player.account
        self.stalls.transport_ready(now)
        return PlayStopped(
            connection=self.connection,
            stream=self._stream,
            duration=now - self.began,
            messages=account.messages_sent,
            bytes=account.bytes_sent,
            dropped=account.messages_dropped,
            dropped_by_reason=account.reasons(),
            reason=reason,
            stalls=self.stalls.count,
            stalled_seconds=self.stalls.seconds,
            protocol=self._player.audience or "",
        )

    def statistics(self, now: float) -> MediaStatistics:
        """What was delivered since the last statistics."""
        account, before = self._player.account, self._last
        total = self._last = _Total(
            now,
            account.messages_sent,
            account.bytes_sent,
            account.messages_dropped,
            self.stalls.count,
            self.stalls.seconds,
        )
        seconds = now - before.at
        return MediaStatistics(
            connection=self.connection,
            stream=self._stream,
            role="player",
            seconds=seconds,
            kbps=(total.bytes - before.bytes) / 125 / seconds if seconds else 0.0,
            messages=total.messages - before.messages,
            bytes=total.bytes - before.bytes,
            dropped=total.dropped - before.dropped,
            queued=self._player.messages_queued,
            stalls=total.stalls - before.stalls,
            stalled_seconds=total.stalled_seconds - before.stalled_seconds,
        )
