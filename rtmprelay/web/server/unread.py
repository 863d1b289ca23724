"""What responses keep in memory for clients that have not read them yet: bounded for all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from rtmprelay.addresses import address_group
from rtmprelay.web.server.responses import RETRY_LATER, HttpError

#: Bytes for all clients at most, and the share of the memory budget that they may have.
MOST_UNREAD = 256 * 1024 * 1024
SHARE_OF_BUDGET = 1 / 8


class UnreadResponses:
    """Counts bytes by address. One address may have half of them, so that it cannot keep all others waiting.

    Args:
        most: Bytes for all clients together.

    Attributes:
        used: Bytes now.
    """

    def __init__(self, most: int = MOST_UNREAD) -> None:
        self.most = most
        self.used = 0
        self._by_address: Counter[str] = Counter()

    def check(self, host: str, size: int = 1) -> None:
        """Refuse a response for which there is no room.

        Raises:
            HttpError: There is none, or this address has too many already.
        """
        if self.used + size > self.most or self._by_address[address_group(host)] + size > self.most // 2:
            raise HttpError(
                503,
                "too many responses are waiting to be read: try again later",
                RETRY_LATER,
            )

    def add(self, host: str, size: int) -> Callable[[], None]:
        """Count bytes for a client. The result takes them off again."""
        group = address_group(host)
        self.used += size
        self._by_address[group] += size

        def read() -> None:
            self.used -= size
            self._by_address[group] -= size
            if self._by_address[group] <= 0:
                del self._by_address[group]

        return read
