"""Text that must not be shown: stream keys, tokens, query strings."""

from __future__ import annotations

import hashlib
import hmac
import os

_MASK_KEY = os.urandom(16)


class Secret:
    """A secret whose `str` and `repr` are a mask, so that no log, traceback or response shows it by accident.

    The mask contains a short hash, so that one can see in a log whether two secrets are the same. Each process uses
    another key for the hash, so that nobody can check guesses against a log.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself, for the place that uses it."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._bytes(), other._bytes())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __repr__(self) -> str:
        if not self._value:
            return "<no secret>"
        return f"<secret {hashlib.blake2b(self._bytes(), key=_MASK_KEY, digest_size=3).hexdigest()}>"

    __str__ = __repr__

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Secret cannot be pickled or copied")

    def _bytes(self) -> bytes:
        return self._value.encode("utf-8", "surrogatepass")
