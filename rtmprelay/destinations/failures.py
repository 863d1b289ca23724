"""Why a destination is not reached, sorted by what can be done about it."""

from __future__ import annotations

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

from rtmprelay.errors import ConfigError, DestinationRefusedError, LimitExceededError, ProtocolError


class FailureClass(Enum):
    """What kind of failure it was; each is retried in its own way."""

    #: The server was not reached, or was lost.
    NETWORK = "network"
    #: The server does not want us: the key, the user or the account is wrong, or in use.
    REFUSED = "refused"
    #: The server does not speak RTMP as it should.
    PROTOCOL = "protocol"


@attrs.frozen
class DestinationFailure:
    """One failure: its class, and a sentence for people."""

    kind: FailureClass
    sentence: str


#: How an attempt ends that we cancel: Twisted's endpoints have an error of their own for it.
CANCELLATIONS = (CancelledError, ConnectingCancelledError)

_SENTENCES: tuple[tuple[type[Exception], str], ...] = (
    (DNSLookupError, "the name of the server is not known (DNS)"),
    (ConnectionRefusedError, "nothing listens there (connection refused)"),
    (TCPTimedOutError, "the server does not answer (timed out)"),
    (TwistedTimeoutError, "the server does not answer (timed out)"),
    (NoRouteError, "there is no way to the server (no route)"),
    (ConnectionDone, "the server closed the connection"),
    # A kind of lost connection, so it must come first.
    (ConnectionAborted, "the connection was cut"),
    (ConnectionLost, "the connection was lost"),
    *((kind, "the attempt was cancelled") for kind in CANCELLATIONS),
)


def classify(failure: Failure) -> DestinationFailure:
    """What a failed attempt or a lost connection means."""
    error = failure.value
    if isinstance(error, DestinationRefusedError):
        return DestinationFailure(FailureClass.REFUSED, str(error))
    if isinstance(error, ConfigError):
        # A file that was there when the configuration was read.
        return DestinationFailure(FailureClass.NETWORK, str(error))
    if isinstance(error, LimitExceededError):
        # We went away because the server was too slow; that is a matter of the network.
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
    return DestinationFailure(FailureClass.PROTOCOL, f"an unexpected error: {type(error).__name__}")


def _tls_reason(error: Exception) -> str:
    if isinstance(error, VerificationError):
        return "the certificate is for another host"
    details = error.args[0] if error.args else None
    if isinstance(details, list) and details:
        # OpenSSL's entries are (library, function, reason).
        return ", ".join(str(entry[-1]) for entry in details)
    return "the server closed the connection during the TLS handshake"
