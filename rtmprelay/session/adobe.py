"""Adobe's authentication, in which a publisher proves over several connections that it knows a password.

The first `connect` carries no credentials; the server refuses it and names the method. The second one names the user;
the server refuses it with a challenge. The third one carries the answer. `AdobeAuthentication` is the client's side,
`AdobeLogin` the server's.

The server remembers nothing between these connections: whatever it needs to know again is in the challenge, sealed.
So opening many connections costs it no memory, and cannot push out the logins of others.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Sequence
from urllib.parse import parse_qs, unquote

import attrs

from rtmprelay.errors import DestinationRefusedError
from rtmprelay.secret import Secret

_MARK = "authmod=adobe"

#: The refusal of a `connect` that names no user. Clients look for exactly these words.
WANTS_USER = "[ AccessManager.Reject ] : [ code=403 need auth; authmod=adobe ] : "

_REJECT = "[ AccessManager.Reject ] : [ authmod=adobe ] : "

#: Seconds during which a challenge can be answered: clients do so at once.
CHALLENGE_LIFETIME = 60.0

#: Names that need no encoding: clients put them into a query as they are.
USER_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")

#: The answers that are remembered, so that none is accepted twice; only right ones are.
_MOST_USED = 10_000

#: The parameters of the query that belong to the authentication.
_PARAMETERS = frozenset({"authmod", "user", "challenge", "response", "opaque"})

#: A longer query is not searched for parameters; those of the authentication take some 250 characters.
_LONGEST_QUERY = 4096

_NONCE_SIZE = 8
_SEAL_SIZE = 16


def _md5_base64(text: str) -> str:
    # The protocol prescribes MD5; it protects the password on the wire and nothing else.
    return base64.b64encode(hashlib.md5(text.encode(), usedforsecurity=False).digest()).decode()


def adobe_response(
    user: str, password: Secret, salt: str, server_challenge: str, client_challenge: str
) -> str:
    """The answer to the server's challenge by a client that knows the password; it adds a challenge of its own."""
    return _md5_base64(_md5_base64(user + salt + password.reveal()) + server_challenge + client_challenge)


# -- the client's side ---------------------------------------------------------------------------------------


class AuthenticationRefusedError(DestinationRefusedError):
    """The server does not accept the user or the password."""


def wants_authentication(description: str) -> bool:
    """Whether a refusal of `connect` asks for Adobe's authentication."""
    return _MARK in description


class AdobeAuthentication:
    """The query to add to the next `connect`; each refusal advances it by one step."""

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
        """The query for the application's name and for tcUrl; empty for the first attempt. It is secret."""
        return self._query

    def refused(self, description: str) -> None:
        """Prepare the next `connect` from the description in the last refusal.

        Raises:
            AuthenticationRefusedError: Another attempt is pointless.
        """
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
        client_challenge = self._random_bytes(4).hex()
        server_challenge = challenge.get("opaque") or challenge.get("challenge", "")
        response = adobe_response(
            self._user, self._password, challenge.get("salt", ""), server_challenge, client_challenge
        )
        query = f"{_MARK}&user={self._user}&challenge={client_challenge}&response={response}"
        opaque = challenge.get("opaque")
        return f"{query}&opaque={opaque}" if opaque else query


# -- the server's side ---------------------------------------------------------------------------------------


@attrs.frozen
class LoginAccepted:
    """The client knows the password of this user."""

    user: str


@attrs.frozen
class LoginRefused:
    """The description to refuse `connect` with.

    `wrong` says that the client gave an answer and the answer was wrong; otherwise this is only the next step.
    """

    description: str
    wrong: bool = False


class AdobeLogin:
    """Sends challenges and checks the answers. The time is always an argument."""

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._random_bytes = random_bytes
        self._key = random_bytes(32)
        # The challenges that were answered, each with the time when it is too old to be answered again.
        self._used: dict[str, float] = {}

    def judge(
        self, query: Secret, passwords_of: Callable[[str], Sequence[Secret]], now: float
    ) -> LoginAccepted | LoginRefused | None:
        """Check the query of a `connect`; None if it has no part in this authentication.

        Args:
            passwords_of: The passwords set for a user, empty if there is no such user. The answer must fit all of them.
        """
        values = _parameters(query.reveal())
        if not values:
            return None
        user = values.get("user", "")
        if USER_NAME.fullmatch(user) is None or not "".join(values.values()).isascii():
            return LoginRefused(f"{_REJECT}?reason=authfailed", wrong=True)
        if not values.get("response"):
            return LoginRefused(self._challenge(user, now))
        if self._is_right(values, user, passwords_of(user), now):
            self._use(values["opaque"], now)
            return LoginAccepted(user)
        # Unknown users get the same refusal, so that nobody can find out which users exist.
        return LoginRefused(f"{_REJECT}?reason=authfailed&user={user}", wrong=True)

    def _challenge(self, user: str, now: float) -> str:
        # Some clients answer `challenge` and some `opaque`: both have the same value.
        sealed = self._seal(user, self._random_bytes(_NONCE_SIZE) + int(now).to_bytes(8))
        return f"{_REJECT}?reason=needauth&user={user}&salt={self._salt(user)}&challenge={sealed}&opaque={sealed}"

    def _salt(self, user: str) -> str:
        return self._digest(b"salt" + user.encode())[:_NONCE_SIZE].hex()

    def _seal(self, user: str, content: bytes) -> str:
        return (content + self._digest(b"seal" + content + user.encode())[:_SEAL_SIZE]).hex()

    def _digest(self, data: bytes) -> bytes:
        return hashlib.blake2b(data, key=self._key, digest_size=32).digest()

    def _is_open(self, opaque: str, user: str, now: float) -> bool:
        """Whether this challenge was made here, for this user, recently, and has not been answered yet."""
        try:
            content = bytes.fromhex(opaque)[: _NONCE_SIZE + 8]
        except ValueError:
            return False
        if not _same(self._seal(user, content), opaque) or opaque in self._used:
            return False
        return now - int.from_bytes(content[_NONCE_SIZE:]) <= CHALLENGE_LIFETIME

    def _is_right(self, values: dict[str, str], user: str, passwords: Sequence[Secret], now: float) -> bool:
        opaque, client_challenge = values.get("opaque", ""), values.get("challenge", "")
        # An unknown user takes as long as a known one.
        candidates = [*passwords] or [Secret(self._random_bytes(8).hex())]
        salt = self._salt(user)
        matches = [
            _same(adobe_response(user, password, salt, opaque, client_challenge), values["response"])
            for password in candidates
        ]
        return all(matches) and bool(passwords) and self._is_open(opaque, user, now)

    def _use(self, opaque: str, now: float) -> None:
        """Remember an answer: a listener on the wire must not be able to repeat it."""
        for old, expiry in list(self._used.items()):
            if expiry > now and len(self._used) < _MOST_USED:
                break
            del self._used[old]
        self._used[opaque] = now + CHALLENGE_LIFETIME + 1


def without_login(query: Secret) -> Secret:
    """The query of a client without the parameters of the authentication."""
    parts = _parts(query.reveal())
    if _MARK not in parts:
        return query
    return Secret("&".join(part for part in parts if part.partition("=")[0] not in _PARAMETERS))


def _same(expected: str, given: str) -> bool:
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogatepass"))


def _parameters(query: str) -> dict[str, str]:
    """The first value of each name. The values are base64 as it is, with its plus and equals signs."""
    values: dict[str, str] = {}
    parts = _parts(query) if len(query) <= _LONGEST_QUERY else []
    for part in parts[parts.index(_MARK) :] if _MARK in parts else []:
        name, _, value = part.partition("=")
        values.setdefault(name, unquote(value))
    return values


def _parts(query: str) -> list[str]:
    # FFmpeg puts a question mark before its parameters even if there is a query already.
    return query.replace(f"?{_MARK}", f"&{_MARK}").split("&")
