"""The requests of a client that wait for an answer."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from rtmprelay.session.lifecycle import MessageStream
from rtmprelay.wire.commands import Play
from rtmprelay.wire.names import StreamKey


@attrs.frozen
class ConnectRequest:
    transaction_id: float


@attrs.frozen
class StreamRequest:
    """A `publish`, or a `play` if `play` is set."""

    stream: MessageStream
    key: StreamKey
    play: Play | None = None


Request: TypeAlias = ConnectRequest | StreamRequest


class PendingRequests:
    """Requests by number. An answer to one that was withdrawn is ignored.

    Attributes:
        awaited: The number of a request to connect or to publish; None if none is there. Until it is answered, nothing
            else is read.
    """

    __slots__ = ("_last_number", "_requests", "awaited")

    def __init__(self) -> None:
        self.awaited: int | None = None
        self._requests: dict[int, Request] = {}
        self._last_number = 0

    def add(self, request: Request) -> int:
        """Add a request; returns its number."""
        self._last_number += 1
        self._requests[self._last_number] = request
        if not isinstance(request, StreamRequest) or request.play is None:
            self.awaited = self._last_number
        return self._last_number

    def take(self, number: int) -> Request | None:
        """Remove a request, because it is answered."""
        if self.awaited == number:
            self.awaited = None
        return self._requests.pop(number, None)

    def get(self, number: int) -> Request | None:
        return self._requests.get(number)

    def __contains__(self, number: int) -> bool:
        return number in self._requests

    def __len__(self) -> int:
        return len(self._requests)

    def withdraw(self, stream: MessageStream) -> None:
        """Remove what a message stream has asked for."""
        for number, request in list(self._requests.items()):
            if isinstance(request, StreamRequest) and request.stream is stream:
                self.take(number)
