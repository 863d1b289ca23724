"""Whether a key is one of those that a rule has, without stopping the relay for the time that hashes take."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred

from rtmprelay.access.authorizers.answer_cache import AnswerCache
from rtmprelay.access.authorizers.keys_rules import Rule
from rtmprelay.access.authorizers.scrypt_keys import ScryptHash
from rtmprelay.access.authorizers.turns import Turns
from rtmprelay.secret import Secret

#: Runs a function in a thread.
InThread = Callable[..., "Deferred[bool]"]

#: Hashes that are computed at the same time: each takes a processor, and 16 MiB.
_AT_ONCE = 2
#: Wishes that wait for it, in all and of one host.
_MOST_WAITING = 64
_MOST_FOR_HOST = 8

#: Keys that are remembered, so that an encoder that comes back need not wait behind those who try keys out.
_MOST_KNOWN = 1024
_RIGHT_FOR = 3600.0
#: A wrong one is remembered for a moment: an encoder that has it tries it again every few seconds.
_WRONG_FOR = 30.0


class KeyCheck:
    """Checks keys. Make a new one for other rules: it remembers what it has seen.

    Args:
        seconds: The time now.
        turns: Shared with the check before, whose threads may still be at work.
    """

    def __init__(self, in_thread: InThread, seconds: Callable[[], float], turns: Turns) -> None:
        self._in_thread = in_thread
        self._turns = turns
        self._right: AnswerCache[bool] = AnswerCache(_MOST_KNOWN, _RIGHT_FOR, seconds)
        self._wrong: AnswerCache[bool] = AnswerCache(_MOST_KNOWN, _WRONG_FOR, seconds)

    @staticmethod
    def new_turns() -> Turns:
        """The line that hashed keys are checked in."""
        return Turns(_AT_ONCE, _MOST_WAITING, _MOST_FOR_HOST)

    async def is_right(self, key: Secret, rule: Rule, host: str) -> bool:
        """Whether a key opens this.

        Raises:
            TooBusyError: Too many keys are being checked.
        """
        # All of them, however early one fits: how long it takes says nothing.
        if sum([_same(key, known) for known in rule.keys]):
            return True
        if not rule.hashes:
            return False
        subject = (key.reveal(), *map(str, rule.hashes))
        if self._right.get(*subject):
            return True
        if self._wrong.get(*subject):
            return False
        given_up = threading.Event()
        try:
            right = await self._turns.run(
                host, lambda: self._in_thread(_any_matches, rule.hashes, key, given_up), can_be_stopped=False
            )
        finally:
            given_up.set()
        (self._right if right else self._wrong).put(True, *subject)
        return right


def _same(key: Secret, known: Secret) -> bool:
    first, second = (one.reveal().encode("utf-8", "surrogatepass") for one in (key, known))
    return hmac.compare_digest(first, second)


def _any_matches(hashes: Sequence[ScryptHash], key: Secret, given_up: threading.Event) -> bool:
    """Runs in a thread."""
    return any(not given_up.is_set() and one.matches(key) for one in hashes)
