"""What each failure means, and its sentence."""

from __future__ import annotations

import pytest
from OpenSSL import SSL
from service_identity import VerificationError
from twisted.internet import error as failing
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from rtmprelay.destinations.failures import DestinationFailure, FailureClass, classify
from rtmprelay.errors import (
    ConfigError,
    DestinationRefusedError,
    LimitExceededError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
)
from rtmprelay.session.adobe import AuthenticationRefusedError


class OddError(Exception):
    """An error that `classify` does not know."""


BAD_CERTIFICATE = SSL.Error([("SSL routines", "", "certificate verify failed")])

CASES = [
    (failing.DNSLookupError("no such host"), "network", "the name of the server is not known (DNS)"),
    (failing.ConnectionRefusedError(), "network", "nothing listens there (connection refused)"),
    (failing.TCPTimedOutError(), "network", "the server does not answer (timed out)"),
    (failing.TimeoutError(), "network", "the server does not answer (timed out)"),
    (failing.NoRouteError(), "network", "there is no way to the server (no route)"),
    (failing.ConnectionDone(), "network", "the server closed the connection"),
    (failing.ConnectionLost(), "network", "the connection was lost"),
    (failing.ConnectionAborted(), "network", "the connection was cut"),
    (CancelledError(), "network", "the attempt was cancelled"),
    (failing.ConnectingCancelledError(None), "network", "the attempt was cancelled"),
    (failing.ConnectError(None, "odd"), "network", "odd"),
    (OSError(24, "Too many open files"), "network", "Too many open files"),
    (OSError(), "network", "OSError"),
    (BAD_CERTIFICATE, "network", "TLS failed: certificate verify failed"),
    (SSL.Error([("a", "b", "one"), ("c", "d", "two")]), "network", "TLS failed: one, two"),
    (SSL.Error(), "network", "TLS failed: the server closed the connection during the TLS handshake"),
    (SSL.Error([]), "network", "TLS failed: the server closed the connection during the TLS handshake"),
    (SSL.SysCallError(-1, "Unexpected EOF"), "network", "TLS failed: the server closed the connection"),
    (VerificationError(errors=[]), "network", "TLS failed: the certificate is for another host"),
    (RemoteProtocolError("it is HTTP"), "protocol", "does not speak RTMP as it should: it is HTTP"),
    (ProtocolError("odd"), "protocol", "does not speak RTMP as it should: odd"),
    (LocalProtocolError("ours"), "protocol", "does not speak RTMP as it should: ours"),
    (
        LimitExceededError("stall_timeout", "no byte for 10 s"),
        "network",
        "no byte for 10 s (limit: stall_timeout)",
    ),
    (DestinationRefusedError("the server refused: BadName"), "refused", "the server refused: BadName"),
    (AuthenticationRefusedError("not you"), "refused", "not you"),
    (ConfigError("ca_file 'x' cannot be read"), "network", "ca_file 'x' cannot be read"),
    (OddError("with a secret"), "protocol", "an unexpected error: OddError"),
]


@pytest.mark.parametrize(("error", "kind", "sentence"), CASES, ids=lambda value: type(value).__name__)
def test_error_has_a_class_and_a_sentence(error: Exception, kind: str, sentence: str) -> None:
    found = classify(Failure(error))
    assert found.kind is FailureClass(kind)
    assert sentence in found.sentence
    assert "\n" not in found.sentence


def test_unexpected_error_does_not_show_its_text() -> None:
    assert "secret" not in classify(Failure(OddError("a secret"))).sentence


def test_equal_failures_are_equal() -> None:
    assert classify(Failure(failing.ConnectionLost())) == DestinationFailure(
        FailureClass.NETWORK, "the connection was lost"
    )
