"""Answers that are remembered for a while. What they were given for is kept as a digest only."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

_V = TypeVar("_V")


class AnswerCache(Generic[_V]):
    """Values by what they belong to, bounded in count and time. The oldest make room.

    Args:
        seconds: The time now.
    """

    def __init__(self, most: int, lifetime: float, seconds: Callable[[], float]) -> None:
        self._most = most
        self._lifetime = lifetime
        self._seconds = seconds
        # Whoever gets hold of the process's memory cannot try keys out against digests of another one.
        self._salt = os.urandom(16)
        self._kept: OrderedDict[bytes, tuple[float, _V]] = OrderedDict()

    def get(self, *subject: str) -> _V | None:
        """What is remembered for this."""
        digest = self._digest(subject)
        found = self._kept.get(digest)
        if found is None:
            return None
        expiry, value = found
        if expiry <= self._seconds():
            del self._kept[digest]
            return None
        return value

    def put(self, value: _V, *subject: str) -> None:
        """Remember this."""
        if self._lifetime <= 0:
            return
        digest = self._digest(subject)
        self._kept.pop(digest, None)
        self._kept[digest] = (self._seconds() + self._lifetime, value)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)

    def _digest(self, subject: tuple[str, ...]) -> bytes:
        digest = hashlib.blake2b(key=self._salt, digest_size=20)
        for part in subject:
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8))
            digest.update(data)
        return digest.digest()
