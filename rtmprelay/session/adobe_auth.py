"""Adobe's authentication of publishers: the server refuses `connect`, says how to ask, and wants to be asked again.

Each step needs a connection of its own: first without credentials, then with the user's name, then with the
answer to the server's challenge.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from urllib.parse import parse_qs

from rtmprelay.errors import DestinationRefusedError
from rtmprelay.secret import Secret

_MARK = "authmod=adobe"


class AuthenticationRefusedError(DestinationRefusedError):
    """The server does not accept the user or the password."""


def _md5_base64(text: str) -> str:
    # MD5 is what the protocol has; it protects the password on the wire and nothing else.
    return base64.b64encode(hashlib.md5(text.encode(), usedforsecurity=False).digest()).decode()


def adobe_response(user: str, password: Secret, salt: str, theirs: str, own: str) -> str:
    """What a client that knows the password answers to a server's challenge, `theirs`, with one of its `own`."""
    return _md5_base64(_md5_base64(user + salt + password.reveal()) + theirs + own)


def wants_authentication(description: str) -> bool:
    """Whether a refusal of `connect` asks for this."""
    return _MARK in description


class AdobeAuthentication:
    """What to add to the application's name in the next `connect`; moved on by each refusal."""

    def __init__(
        self, user: str, password: Secret, random_bytes: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._user = user
        self._password = password
        self._random_bytes = random_bytes
        self._answered = False
        self._query = ""

    @property
    def query(self) -> str:
        """The query for the application's name and tcUrl; empty for the first attempt. It is secret."""
        return self._query

    def refused(self, description: str) -> None:
        """Prepare the next `connect` from what the server said to the last one; raise if there is none."""
        if not self._user:
            raise AuthenticationRefusedError(
                "the server wants a user and a password: write rtmp://user:password@host/app/key"
            )
        challenge = self._challenge(description)
        reason = challenge.get("reason", "")
        if self._answered or reason in ("authfailed", "nosuchuser"):
            raise AuthenticationRefusedError("the server does not accept the user or the password")
        if "challenge" in challenge or "opaque" in challenge:
            self._answered = True
            self._query = self._response(challenge)
        elif self._query:
            raise AuthenticationRefusedError("the server wants Adobe authentication but sends no challenge")
        else:
            self._query = f"{_MARK}&user={self._user}"

    @staticmethod
    def _challenge(description: str) -> dict[str, str]:
        query = description.partition("?")[2].split(" ")[0].rstrip("]")
        # A plus is a plus here: these values are base64, not a form.
        return {name: values[0] for name, values in parse_qs(query.replace("+", "%2B")).items()}

    def _response(self, challenge: dict[str, str]) -> str:
        own = self._random_bytes(4).hex()
        theirs = challenge.get("opaque") or challenge.get("challenge", "")
        response = adobe_response(self._user, self._password, challenge.get("salt", ""), theirs, own)
        query = f"{_MARK}&user={self._user}&challenge={own}&response={response}"
        opaque = challenge.get("opaque")
        return f"{query}&opaque={opaque}" if opaque else query
