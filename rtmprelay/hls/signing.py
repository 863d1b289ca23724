"""Signatures in the addresses of media, the same for all viewers, so that caches need to keep each piece once."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re

from rtmprelay.secret import Secret

#: Seconds after which addresses have another signature. Until then caches see one address for each piece.
_STEP = 300

#: Seconds for which a signature is good at least, beside the window that viewers can go back.
_GOOD_FOR = 300

#: Characters of a signature: 128 bits.
_LENGTH = 22

_FORM = re.compile(r"(?P<until>\d{1,11})\.(?P<signature>[\w-]{22})", re.ASCII)

#: The parameter that holds the signature.
PARAMETER = "sig"


_IN_QUERY = re.compile(rb"(?:^|&)" + PARAMETER.encode() + rb"=([^&]+)")


def signature_in(query: bytes) -> str:
    """The signature in a query string; empty if there is none."""
    found = _IN_QUERY.search(query)
    return "" if found is None else found[1].decode("latin-1")


class UriSigner:
    """Signs what was permitted at index.m3u8.

    Args:
        key: The same for all relays whose viewers may change from one to another; None for one of this process.
        window: Seconds that a viewer can go back, with addresses from a playlist of that time.
    """

    def __init__(self, key: Secret | None, window: float) -> None:
        self._key = os.urandom(32) if key is None else key.reveal().encode()
        self._good_for = _GOOD_FOR + window

    @property
    def longest(self) -> float:
        """Seconds after which no signature of now is good any more."""
        return self._good_for + _STEP

    def sign(self, stream: str, now: float, seconds: float | None = None) -> str:
        """The parameter for addresses of this stream.

        Args:
            now: Seconds since 1970.
            seconds: How long it is good; some minutes if nothing is said.
        """
        until = (int(now + (seconds or self._good_for)) // _STEP + 1) * _STEP
        return f"{PARAMETER}={until}.{self._signature(stream, until)}"

    def permits(self, stream: str, value: str, now: float) -> bool:
        """Whether a signature is one of ours, for this stream, and still good."""
        match = _FORM.fullmatch(value)
        if match is None:
            return False
        until = int(match["until"])
        return now <= until and hmac.compare_digest(self._signature(stream, until), match["signature"])

    def _signature(self, stream: str, until: int) -> str:
        digest = hmac.digest(self._key, f"{until}\n{stream}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest)[:_LENGTH].decode()
