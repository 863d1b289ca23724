"""Closes the connection of a client that was refused, once the client could read why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.interfaces import IDelayedCall, IReactorTime

if TYPE_CHECKING:
    from rtmprelay.rtmp.server import RtmpServerProtocol

#: Seconds between a refusal and the close, for the client to read the reason.
_TIME_TO_READ_REFUSAL = 1.0

#: Refused requests of one connection: a client with more of them is guessing keys.
_MOST_REFUSALS = 10


class Goodbye:
    """Closes one connection when the server decides to."""

    def __init__(self, connection: RtmpServerProtocol, clock: IReactorTime) -> None:
        self._connection = connection
        self._clock = clock
        self._timer: IDelayedCall | None = None
        self._refusals = 0

    def request_refused(self, reason: str) -> None:
        """Close a client that was refused, unless it also publishes or plays. Most clients close by themselves."""
        if not self.count_refusal():
            self.close_soon(reason)

    def count_refusal(self) -> bool:
        """Count a refusal, and close a client that was refused too often. Returns whether it was closed."""
        self._refusals += 1
        if self._refusals <= _MOST_REFUSALS:
            return False
        self._connection.close_politely(f"it was refused {self._refusals} times")
        return True

    def close_soon(self, reason: str) -> None:
        """Close in a moment. A client that is cut off while it sends never reads the reason of the refusal."""
        self._connection.flush()
        if self._timer is None:
            self._timer = self._clock.callLater(_TIME_TO_READ_REFUSAL, self.close_unless_used, reason)

    def close_unless_used(self, reason: str) -> None:
        """Close, unless the client publishes, plays or waits for a verdict."""
        self._timer = None
        if self._connection.is_used:
            self._connection.flush()
        else:
            self._connection.close_politely(reason)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
