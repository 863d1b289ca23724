"""Whether a client may do what it asks for: the gate's verdict on a request, and logins with a password."""

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

#: Bytes of media of an encoder that does not wait for the verdict; after these its socket is left unread.
MOST_EARLY_BYTES = 1024 * 1024

#: Query parameters that show that a client wants to be admitted by a key, not as a user.
_KEYS = ("key", "token", "jwt")


class Permissions:
    """Asks the gate for one connection, once for each message stream at a time.

    Media that arrives before the verdict is kept: an encoder that does not wait sends its decoder configuration once,
    and without that nobody could watch.

    Args:
        failed: Called if acting on a verdict fails.
    """

    def __init__(self, gate: Gate, failed: Callable[[Failure], None]) -> None:
        self._gate = gate
        self._failed = failed
        self._pending: dict[int, Deferred[Verdict]] = {}
        self._early: dict[int, list[MediaFrame]] = {}
        self._early_bytes = 0
        # A transport that is left unread until a verdict comes.
        self._unread: Any = None

    @property
    def is_pending(self) -> bool:
        """Whether the client waits for a verdict."""
        return bool(self._pending)

    def ask(self, stream_id: int, request: AccessRequest, decided: Callable[[Verdict], None]) -> None:
        """Ask the gate. `decided` is called now or when the verdict comes; never if the request is withdrawn before."""
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
        if self._early_bytes > MOST_EARLY_BYTES and self._unread is None:
            # Transports in memory cannot be left unread; they have no network to wait in.
            with suppress(AttributeError):
                transport.pauseProducing()  # type: ignore[attr-defined]
                self._unread = transport

    def take_early(self, stream_id: int) -> list[MediaFrame]:
        """The media that came before the verdict."""
        return self._early.pop(stream_id, [])

    def _forget_early(self, stream_id: int) -> None:
        """Drop what is left, and read on."""
        self._early.pop(stream_id, None)
        self._early_bytes = sum(len(frame.payload) for kept in self._early.values() for frame in kept)
        if self._unread is not None and self._early_bytes <= MOST_EARLY_BYTES:
            unread, self._unread = self._unread, None
            unread.resumeProducing()

    # -- the end ---------------------------------------------------------------------------------------------

    def withdraw(self, stream_id: int) -> None:
        """The client does not want it any more."""
        pending = self._pending.pop(stream_id, None)
        if pending is not None:
            pending.cancel()
            self._forget_early(stream_id)

    def withdraw_all(self) -> None:
        """The client is gone."""
        self._unread = None
        for stream_id in list(self._pending):
            self.withdraw(stream_id)


class LoginDesk:
    """Speaks Adobe's authentication for all connections of a server, if an authorizer knows users."""

    def __init__(self, gate: Gate) -> None:
        self._directories = gate.directories
        self._login = AdobeLogin()

    def judge(self, app: str, query: Secret, now: float) -> LoginAccepted | LoginRefused | None:
        """The login in the query of a `connect`; None if no login is needed."""
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
