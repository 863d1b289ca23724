"""How many of something one address may have over HTTP at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from rtmprelay.addresses import address_group
from rtmprelay.web.server.responses import RETRY_LATER, HttpError


class AddressQuota:
    """Counts by address. Clients behind a trusted proxy are counted by their own addresses.

    Args:
        limit: The name of the limit.
        refused: Called with an address that has too many, and the name of the limit.
    """

    def __init__(self, limit: str, most: int | None, refused: Callable[[str, str], None]) -> None:
        self._limit = limit
        self._most = most
        self._refused = refused
        self._counts: Counter[str] = Counter()

    def is_used_up(self, host: str) -> bool:
        """Whether one more would be too many. If so, the address is noted."""
        if self._most is None or self._counts[address_group(host)] < self._most:
            return False
        self._refused(host, self._limit)
        return True

    def take(self, host: str) -> Callable[[], None]:
        """Count one more. Returns a function that takes it off again.

        Raises:
            HttpError: That would be too many.
        """
        if self.is_used_up(host):
            raise HttpError(
                503,
                f"your address has {self._most} of these already (limit: {self._limit}): try again later",
                RETRY_LATER,
            )
        group = address_group(host)
        self._counts[group] += 1

        def give_back() -> None:
            self._counts[group] -= 1
            if self._counts[group] <= 0:
                del self._counts[group]

        return give_back
