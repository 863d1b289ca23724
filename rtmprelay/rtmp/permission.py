"""Whether a client may publish or play: the gate's verdict on a request, and Adobe's login with a password."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from rtmprelay.access.gate import Gate
from rtmprelay.access.request import AccessRequest, Credentials, Verdict
from rtmprelay.media import MediaFrame
from rtmprelay.secret import Secret
from rtmprelay.session.adobe import WANTS_USER, AdobeLogin, LoginAccepted, LoginRefused

#: Bytes of media that are kept for an encoder which does not wait for the verdict; after these, its socket is not read.
MOST_EARLY_BYTES = 1024 * 1024

#: Query parameters of clients that present a key instead of a user and a password.
_KEYS = ("key", "token", "jwt")


class Permissions:
    """Requests the gate's verdicts for one connection, at most one at a time for each message stream.

    Media that arrives before the verdict is kept: an encoder that does not wait sends its decoder configuration only
    once, and players cannot decode without it.

    Args:
        failed: Called if acting on a verdict fails.
    """

    def __init__(self, gate: Gate, failed: Callable[[Failure], None]) -> None:
        self._gate = gate
        self._failed = failed
        self._pending: dict[int, Deferred[Verdict]] = {}
        self._early: dict[int, list[MediaFrame]] = {}
        self._early_bytes = 0
        # The transport, while it is paused because too much early media has come.
        self._paused_transport: Any = None

    @property
    def is_pending(self) -> bool:
        """Whether a verdict is pending."""
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
        try:
            decided(verdict)
        finally:
            self._forget_early(stream_id)

    # -- media before the verdict ----------------------------------------------------------------------------

    def keep_early(self, stream_id: int, frames: Sequence[MediaFrame], transport: object) -> None:
        """Keep media until the verdict comes; without a request it is dropped."""
        if stream_id not in self._pending or self._early_bytes > 2 * MOST_EARLY_BYTES:
            return
        self._early.setdefault(stream_id, []).extend(frames)
        self._early_bytes += sum(len(frame.payload) for frame in frames)
        if self._early_bytes > MOST_EARLY_BYTES and self._paused_transport is None:
            # Transports in memory cannot be paused.
            with suppress(AttributeError):
                transport.pauseProducing()  # type: ignore[attr-defined]
                self._paused_transport = transport

    def take_early(self, stream_id: int) -> list[MediaFrame]:
        """Remove and return the media that came before the verdict."""
        return self._early.pop(stream_id, [])

    def _forget_early(self, stream_id: int) -> None:
        """Drop the rest of the early media, and read the socket again."""
        self._early.pop(stream_id, None)
        self._early_bytes = sum(len(frame.payload) for kept in self._early.values() for frame in kept)
        if self._paused_transport is not None and self._early_bytes <= MOST_EARLY_BYTES:
            paused, self._paused_transport = self._paused_transport, None
            paused.resumeProducing()

    # -- the end ---------------------------------------------------------------------------------------------

    def withdraw(self, stream_id: int) -> None:
        """Cancel the pending request of a message stream, if there is one."""
        pending = self._pending.pop(stream_id, None)
        if pending is not None:
            pending.cancel()
            self._forget_early(stream_id)

    def withdraw_all(self) -> None:
        """Cancel all pending requests: the client is gone."""
        self._paused_transport = None
        for stream_id in list(self._pending):
            self.withdraw(stream_id)


class Logins:
    """Checks Adobe's authentication for all connections of a server, if an authorizer has users."""

    def __init__(self, gate: Gate) -> None:
        self._directories = gate.directories
        self._login = AdobeLogin()

    def check(self, app: str, query: Secret, now: float) -> LoginAccepted | LoginRefused | None:
        """The outcome of the login in the query of a `connect`; None if no login is needed."""
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
