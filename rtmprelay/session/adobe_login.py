"""The server's side of Adobe's authentication: a client that brings nothing is told how to ask, and comes back.

The server remembers nobody between the connections that this takes: what it has to know again is in the challenge, and
sealed. Whoever opens many connections therefore costs nothing, and cannot push others out.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Callable, Sequence
from urllib.parse import unquote

import attrs

from rtmprelay.secret import Secret
from rtmprelay.session.adobe_auth import adobe_response

#: What a client that brought no user is told. Clients look for these very words.
WANTS_USER = "[ AccessManager.Reject ] : [ code=403 need auth; authmod=adobe ] : "

_REJECT = "[ AccessManager.Reject ] : [ authmod=adobe ] : "

#: Seconds for which a challenge can be answered: clients do so at once.
CHALLENGE_LIFETIME = 60.0

#: Names that can be sent as they are: clients put them in a query without encoding them.
USER_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")

#: Answers that are remembered as used; only right ones are.
_MOST_USED = 10_000

#: What belongs to the authentication, and to nothing else.
_PARAMETERS = frozenset({"authmod", "user", "challenge", "response", "opaque"})

_MARK = "authmod=adobe"

#: Characters of a query that are looked at; those of this authentication have some 250.
_LONGEST_QUERY = 4096

_NONCE_SIZE = 8
_SEAL_SIZE = 16


@attrs.frozen
class LoginAccepted:
    """The client knows the password of this user."""

    user: str


@attrs.frozen
class LoginRefused:
    """What to refuse `connect` with. `wrong` if this was an answer, and not one of the questions before it."""

    description: str
    wrong: bool = False


class AdobeLogin:
    """Asks for users and passwords, and checks the answers. The time is always an argument."""

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._random_bytes = random_bytes
        self._key = random_bytes(32)
        # When each right answer may be forgotten, because its challenge is too old by then.
        self._used: dict[str, float] = {}

    def judge(
        self, query: Secret, passwords_of: Callable[[str], Sequence[Secret]], now: float
    ) -> LoginAccepted | LoginRefused | None:
        """What to make of the query of a `connect`; None if it has nothing of this authentication.

        Args:
            passwords_of: All passwords of a user, of which each must be the right one; none if there is no such user.
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
        # The same for a user that does not exist: which ones do is nobody's business.
        return LoginRefused(f"{_REJECT}?reason=authfailed&user={user}", wrong=True)

    # -- the challenge ---------------------------------------------------------------------------------------

    def _challenge(self, user: str, now: float) -> str:
        # Some clients answer the one value and some the other: so they are the same.
        sealed = self._seal(user, self._random_bytes(_NONCE_SIZE) + int(now).to_bytes(8))
        return f"{_REJECT}?reason=needauth&user={user}&salt={self._salt(user)}&challenge={sealed}&opaque={sealed}"

    def _salt(self, user: str) -> str:
        return self._digest(b"salt" + user.encode())[:_NONCE_SIZE].hex()

    def _seal(self, user: str, content: bytes) -> str:
        return (content + self._digest(b"seal" + content + user.encode())[:_SEAL_SIZE]).hex()

    def _digest(self, data: bytes) -> bytes:
        return hashlib.blake2b(data, key=self._key, digest_size=32).digest()

    def _is_open(self, opaque: str, user: str, now: float) -> bool:
        """Whether a challenge was made here, for this user, not long ago, and has not been answered."""
        try:
            content = bytes.fromhex(opaque)[: _NONCE_SIZE + 8]
        except ValueError:
            return False
        if not _same(self._seal(user, content), opaque) or opaque in self._used:
            return False
        return now - int.from_bytes(content[_NONCE_SIZE:]) <= CHALLENGE_LIFETIME

    # -- the answer ------------------------------------------------------------------------------------------

    def _is_right(self, values: dict[str, str], user: str, passwords: Sequence[Secret], now: float) -> bool:
        opaque, own = values.get("opaque", ""), values.get("challenge", "")
        # As much work for a user that does not exist.
        known = [*passwords] or [Secret(self._random_bytes(8).hex())]
        salt = self._salt(user)
        matches = [
            _same(adobe_response(user, password, salt, opaque, own), values["response"]) for password in known
        ]
        return all(matches) and bool(passwords) and self._is_open(opaque, user, now)

    def _use(self, opaque: str, now: float) -> None:
        """Whoever has listened in must not be able to say the same again."""
        for old, expiry in list(self._used.items()):
            if expiry > now and len(self._used) < _MOST_USED:
                break
            del self._used[old]
        self._used[opaque] = now + CHALLENGE_LIFETIME + 1


def without_login(query: Secret) -> Secret:
    """The query of a client without what belongs to the authentication."""
    parts = _parts(query.reveal())
    if _MARK not in parts:
        return query
    return Secret("&".join(part for part in parts if part.partition("=")[0] not in _PARAMETERS))


def _same(expected: str, given: str) -> bool:
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogatepass"))


def _parameters(query: str) -> dict[str, str]:
    """The values of a query, the first of each name. They are base64 as it is, with its plus and equals signs."""
    values: dict[str, str] = {}
    parts = _parts(query) if len(query) <= _LONGEST_QUERY else []
    for part in parts[parts.index(_MARK) :] if _MARK in parts else []:
        name, _, value = part.partition("=")
        values.setdefault(name, unquote(value))
    return values


def _parts(query: str) -> list[str]:
    # FFmpeg puts a question mark before it, even if there is a query already.
    return query.replace(f"?{_MARK}", f"&{_MARK}").split("&")
