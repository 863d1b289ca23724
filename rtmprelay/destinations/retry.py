"""When to try again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from rtmprelay.destinations.failures import DestinationFailure, FailureClass

FIRST_DELAY = 1.0
#: Who was refused asks again less eagerly: platforms block those who knock too often.
FIRST_DELAY_WHEN_REFUSED = 10.0
LONGEST_DELAY = 60.0
FACTOR = 2.0
#: Up to so much of a delay is added (taken away from the longest), so that relays do not knock all at once.
JITTER = 0.2
#: A connection that lasted this long was good: the next failure is a first one again.
GOOD_AFTER = 30.0
#: A publish that ends sooner than this was not wanted.
QUICK_CLOSE = 5.0
#: So many of them in a row: the platform says no without words.
QUICK_CLOSES_MEAN_REFUSED = 3


class RetryPolicy:
    """Counts failures and says how long to wait. The time is always an argument."""

    def __init__(self, max_retries: int = 0, jitter: Callable[[], float] = random.random) -> None:
        #: Failures in a row after which to give up; 0 never does.
        self.max_retries = max_retries
        self._jitter = jitter
        self._quick_closes = 0
        self._accepted_at: float | None = None
        # Each kind backs off from its own beginning, and goes on there when it returns.
        self._failures_by_kind: Counter[FailureClass] = Counter()
        #: Failures in a row.
        self.failures = 0

    def accepted(self, now: float) -> None:
        """The publish was accepted."""
        self._accepted_at = now

    def failed(self, failure: DestinationFailure, now: float) -> DestinationFailure:
        """An attempt failed or a connection ended; what it really means, seen with those before."""
        lasted = None if self._accepted_at is None else now - self._accepted_at
        self._accepted_at = None
        if lasted is not None and lasted >= GOOD_AFTER:
            self.reset()
        elif lasted is not None:
            self._quick_closes = self._quick_closes + 1 if lasted < QUICK_CLOSE else 0
        self.failures += 1
        if self._quick_closes >= QUICK_CLOSES_MEAN_REFUSED and failure.kind is FailureClass.NETWORK:
            sentence = f"the server closes again and again right after publish: is the key right? ({failure.sentence})"
            failure = DestinationFailure(FailureClass.REFUSED, sentence)
        self._failures_by_kind[failure.kind] += 1
        return failure

    def is_exhausted(self) -> bool:
        """Whether to give up."""
        return 0 < self.max_retries < self.failures

    def delay(self, kind: FailureClass) -> float:
        """Seconds until the next attempt."""
        first = FIRST_DELAY_WHEN_REFUSED if kind is FailureClass.REFUSED else FIRST_DELAY
        # Past this exponent every delay is the longest; it keeps the power small in a year of failures.
        exponent = min(self._failures_by_kind[kind] - 1, 16)
        delay = first * FACTOR**exponent
        share = JITTER * self._jitter()
        return delay * (1 + share) if delay * (1 + JITTER) <= LONGEST_DELAY else LONGEST_DELAY * (1 - share)

    def reset(self) -> None:
        """Forget all failures: the operator wants it tried again."""
        self.failures = self._quick_closes = 0
        self._failures_by_kind.clear()
        self._accepted_at = None
