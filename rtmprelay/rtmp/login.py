"""Who opens an application: whether a client has to say it, and whether it has shown it."""

from __future__ import annotations

from collections.abc import Sequence

from rtmprelay.access.gate import Gate
from rtmprelay.access.request import Credentials
from rtmprelay.secret import Secret
from rtmprelay.session.adobe import WANTS_USER, AdobeLogin, LoginAccepted, LoginRefused

#: Parameters that say that a client wants to be let in by what it brought, and not as a user.
_KEYS = ("key", "token", "jwt")


class LoginDesk:
    """Speaks Adobe's authentication for all connections of a server, if an authorizer knows users."""

    def __init__(self, gate: Gate) -> None:
        self._directories = gate.directories
        self._login = AdobeLogin()

    def judge(self, app: str, query: Secret, now: float) -> LoginAccepted | LoginRefused | None:
        """What to make of a `connect`; None if nobody wants to know who it is."""
        if not self._directories:
            return None
        outcome = self._login.judge(query, self._passwords_of, now)
        if outcome is None and self._wants_user(app, query):
            return LoginRefused(WANTS_USER)
        return outcome

    def _wants_user(self, app: str, query: Secret) -> bool:
        if not any(directory.wants_user(app) for directory in self._directories):
            return False
        return Credentials(query).parameter(*_KEYS) is None

    def _passwords_of(self, user: str) -> Sequence[Secret]:
        passwords = (directory.password_of(user) for directory in self._directories)
        return [password for password in passwords if password is not None]
