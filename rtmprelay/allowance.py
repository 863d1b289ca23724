"""A rate that may be exceeded for a moment but not for long. The time is always an argument."""

from __future__ import annotations


class Allowance:
    """A rate per second, on average. What is not used is saved, up to what `seconds` seconds allow.

    A debt is bounded in the same way: a client that took too much waits no longer than that.
    """

    __slots__ = ("_at", "_left", "_per_second", "most")

    def __init__(self, per_second: float, seconds: float, now: float | None = None) -> None:
        self._per_second = per_second
        #: The most that can be saved.
        self.most = per_second * seconds
        self._left = self.most
        self._at = now

    def left(self, now: float) -> int:
        """How much may be used now."""
        if self._at is not None:
            self._left = min(self.most, self._left + (now - self._at) * self._per_second)
        self._at = now
        return max(0, int(self._left))

    def take(self, amount: float, now: float) -> bool:
        """Use an amount at this time. False if it was more than is left; the rest becomes a debt."""
        most, at = self.most, self._at
        left = self._left
        if at is not None:
            left = min(most, left + (now - at) * self._per_second)
        self._at = now
        left -= amount
        self._left = left if left > -most else -most
        return left >= 0

    def spend(self, amount: float) -> bool:
        """Use an amount, without saving for the time since. False if it was more than is left."""
        left = self._left - amount
        self._left = max(-self.most, left)
        return left >= 0
