"""Whether a client may publish or play: the gate's verdict on a request, and Adobe's login with a password."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from rtmprelay.access.gate import Gate
from rtmprelay.access.request import TOO_MANY_WRONG, AccessRequest, Credentials, Verdict
from rtmprelay.secret import Secret
from rtmprelay.session.adobe import WANTS_USER, AdobeLogin, LoginAccepted, LoginRefused

#: Query parameters of clients that present a key instead of a user and a password.
_KEYS = ("key", "token", "jwt")


class Permissions:
    """Requests the gate's verdicts for one connection, at most one at a time for each message stream.

    Args:
        failed: Called if acting on a verdict fails.
    """

    def __init__(self, gate: Gate, failed: Callable[[Failure], None]) -> None:
        self._gate = gate
        self._failed = failed
        self._pending: dict[int, Deferred[Verdict]] = {}

    @property
    def is_pending(self) -> bool:
        return bool(self._pending)

    def ask(self, stream_id: int, request: AccessRequest, decided: Callable[[Verdict], None]) -> None:
        """Ask the gate. `decided` is called now or when the verdict comes, unless the request is withdrawn."""
        verdict = self._gate.ask(request)
        self._pending[stream_id] = verdict
        verdict.addCallback(self._answered, verdict, stream_id, decided)
        verdict.addErrback(self._failed)

    def _answered(
        self,
        verdict: Verdict,
        answered: Deferred[Verdict],
        stream_id: int,
        decided: Callable[[Verdict], None],
    ) -> None:
        if self._pending.get(stream_id) is not answered:
            return
        del self._pending[stream_id]
        decided(verdict)

    # -- the end ---------------------------------------------------------------------------------------------

    def withdraw(self, stream_id: int) -> None:
        """Cancel the pending request of a message stream, if there is one."""
        pending = self._pending.pop(stream_id, None)
        if pending is not None:
            pending.cancel()

    def withdraw_all(self) -> None:
        """Cancel all pending requests: the client is gone."""
        for stream_id in list(self._pending):
            self.withdraw(stream_id)


#: The outcome for an address that sent too many wrong passwords.
_TOO_MANY = LoginRefused(TOO_MANY_WRONG.reason, wrong=True)


def _is_wrong(outcome: LoginAccepted | LoginRefused | None) -> bool:
    return isinstance(outcome, LoginRefused) and outcome.wrong


class Logins:
    """Checks Adobe's authentication for all connections of a server, if an authorizer has users."""

    def __init__(self, gate: Gate) -> None:
        self._directories = gate.directories
        self._guard = gate.guard
        self._login = AdobeLogin()

    def check(
        self, host: str, app: str, query: Secret, now: float
    ) -> Deferred[LoginAccepted | LoginRefused | None]:
        """The outcome of the login in the query of a `connect`; None if no login is needed."""
        if not self._directories:
            return succeed(None)
        if self._guard is None:
            return succeed(self._judge(app, query, now))

        async def judge() -> LoginAccepted | LoginRefused | None:
            return self._judge(app, query, now)

        return Deferred.fromCoroutine(self._guard.check(host, judge, _is_wrong, _TOO_MANY))

    def _judge(self, app: str, query: Secret, now: float) -> LoginAccepted | LoginRefused | None:
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
