"""Failures of a destination: what each one means, and how long to wait after it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from enum import Enum

import attrs
from OpenSSL.SSL import Error as OpenSslError
from service_identity import VerificationError
from twisted.internet.defer import CancelledError
from twisted.internet.error import (
    ConnectError,
    ConnectingCancelledError,
    ConnectionAborted,
    ConnectionDone,
    ConnectionLost,
    ConnectionRefusedError,
    DNSLookupError,
    NoRouteError,
    TCPTimedOutError,
)
from twisted.internet.error import TimeoutError as TwistedTimeoutError
from twisted.python.failure import Failure

from rtmprelay.errors import (
    ConfigError,
    DestinationRefusedError,
    LimitExceededError,
    ProtocolError,
    RelayedToItselfError,
)
from rtmprelay.streams.registry import StreamNotFoundError

#: Seconds.
FIRST_DELAY = 1.0
#: After a refusal: platforms block clients that ask too often.
FIRST_DELAY_WHEN_REFUSED = 10.0
LONGEST_DELAY = 60.0
FACTOR = 2.0
#: Up to this share of a delay is added (subtracted from the longest), so that relays do not reconnect all at once.
JITTER = 0.2
#: A connection that lasted so many seconds was good: the next failure counts as the first.
GOOD_AFTER = 30.0
#: A server that closes a publish sooner than this may have refused it.
QUICK_CLOSE = 5.0
#: So many quick closes in a row are a refusal: some platforms do not say what is wrong with a key.
QUICK_CLOSES_MEAN_REFUSED = 3


class FailureClass(Enum):
    """The kind of a failure; each has retry delays of its own."""

    #: The server was not reached, or was lost.
    NETWORK = "network"
    #: The server refused: the key, the user or the account is wrong, or in use.
    REFUSED = "refused"
    #: The server does not follow the RTMP protocol.
    PROTOCOL = "protocol"


@attrs.frozen
class DestinationFailure:
    """One failure, with a sentence that is shown."""

    kind: FailureClass
    sentence: str
    #: Whether another attempt could not end differently.
    is_final: bool = False


_SENTENCES: tuple[tuple[type[Exception], str], ...] = (
    (DNSLookupError, "the name of the server is not known (DNS)"),
    (ConnectionRefusedError, "nothing listens there (connection refused)"),
    (TCPTimedOutError, "the server does not answer (timed out)"),
    (TwistedTimeoutError, "the server does not answer (timed out)"),
    (NoRouteError, "there is no way to the server (no route)"),
    (ConnectionDone, "the server closed the connection"),
    # A subclass of ConnectionLost, so it comes first.
    (ConnectionAborted, "the connection was cut"),
    (ConnectionLost, "the connection was lost"),
    (StreamNotFoundError, "no server has the stream now"),
    (CancelledError, "the attempt was cancelled"),
    (ConnectingCancelledError, "the attempt was cancelled"),
)


def classify(failure: Failure) -> DestinationFailure:
    """What a failed attempt or a lost connection means."""
    error = failure.value
    if isinstance(error, RelayedToItselfError):
        return DestinationFailure(FailureClass.REFUSED, str(error), is_final=True)
    if isinstance(error, DestinationRefusedError):
        return DestinationFailure(FailureClass.REFUSED, str(error))
    if isinstance(error, ConfigError):
        # A certificate file that has changed since the configuration was read.
        return DestinationFailure(FailureClass.NETWORK, str(error))
    if isinstance(error, LimitExceededError):
        # The relay cut the connection because the server was too slow.
        return DestinationFailure(FailureClass.NETWORK, str(error))
    if isinstance(error, ProtocolError):
        return DestinationFailure(
            FailureClass.PROTOCOL, f"the server does not speak RTMP as it should: {error}"
        )
    if isinstance(error, OpenSslError | VerificationError):
        return DestinationFailure(FailureClass.NETWORK, f"TLS failed: {_tls_reason(error)}")
    for kind, sentence in _SENTENCES:
        if isinstance(error, kind):
            return DestinationFailure(FailureClass.NETWORK, sentence)
    if isinstance(error, ConnectError | OSError):
        return DestinationFailure(FailureClass.NETWORK, str(error) or type(error).__name__)
    # Its text is not shown: it may hold a key.
    return DestinationFailure(FailureClass.PROTOCOL, f"an unexpected error: {type(error).__name__}")


def _tls_reason(error: Exception) -> str:
    if isinstance(error, VerificationError):
        return "the certificate is for another host"
    details = error.args[0] if error.args else None
    if isinstance(details, list) and details:
        # OpenSSL's entries are (library, function, reason).
        return ", ".join(str(entry[-1]) for entry in details)
    return "the server closed the connection during the TLS handshake"


class RetryPolicy:
    """Counts failures and says how long to wait. The time is always an argument."""

    def __init__(
        self, max_retries: int = 0, jitter: Callable[[], float] = random.random, request: str = "publish"
    ) -> None:
        """Args:
        request: What is asked of the server, for the sentence about one that closes after it.
        """
        #: Retries in a row after which to give up; 0 never does.
        self.max_retries = max_retries
        self._jitter = jitter
        self._request = request
        self._quick_closes = 0
        self._accepted_at: float | None = None
        # The delays of each class grow apart, so that a server that fails in two ways by turns is left alone, too.
        self._failures_by_class: Counter[FailureClass] = Counter()
        #: Failures in a row.
        self.failures = 0

    def accepted(self, now: float) -> None:
        self._accepted_at = now

    def failed(self, failure: DestinationFailure, now: float) -> DestinationFailure:
        """Count a failed attempt or a lost connection; returns what it means together with those before."""
        lasted = None if self._accepted_at is None else now - self._accepted_at
        self._accepted_at = None
        if lasted is not None and lasted >= GOOD_AFTER:
            self.reset()
        elif lasted is not None:
            self._quick_closes = self._quick_closes + 1 if lasted < QUICK_CLOSE else 0
        self.failures += 1
        if self._quick_closes >= QUICK_CLOSES_MEAN_REFUSED and failure.kind is FailureClass.NETWORK:
            sentence = (
                f"the server closes again and again right after {self._request}: is the key right?"
                f" ({failure.sentence})"
            )
            failure = DestinationFailure(FailureClass.REFUSED, sentence)
        self._failures_by_class[failure.kind] += 1
        return failure

    def is_exhausted(self) -> bool:
        return 0 < self.max_retries < self.failures

    def delay(self, kind: FailureClass) -> float:
        """Seconds until the next attempt."""
        first = FIRST_DELAY_WHEN_REFUSED if kind is FailureClass.REFUSED else FIRST_DELAY
        # Above this exponent every delay is the longest; it keeps the power small after a year of failures.
        exponent = min(self._failures_by_class[kind] - 1, 16)
        delay = first * FACTOR**exponent
        share = JITTER * self._jitter()
        return delay * (1 + share) if delay * (1 + JITTER) <= LONGEST_DELAY else LONGEST_DELAY * (1 - share)

    def reset(self) -> None:
        self.failures = self._quick_closes = 0
        self._failures_by_class.clear()
        self._accepted_at = None
