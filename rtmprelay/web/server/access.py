"""Who may change things: whoever brings the token in a header, which no page of another origin can."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from rtmprelay.event_bus import EventBus
from rtmprelay.events import ControlRefused
from rtmprelay.secret import Secret
from rtmprelay.throttle import Throttle
from rtmprelay.web.server.answers import HttpError
from rtmprelay.web.server.request import RelayRequest

_CHALLENGE = ((b"WWW-Authenticate", b'Bearer realm="rtmprelay"'),)


class Access:
    """Compares tokens in constant time, and tells of wrong ones without letting them fill the log."""

    def __init__(self, token: Secret | None, events: EventBus, clock: IReactorTime) -> None:
        self._token = token
        self._events = events
        self._throttle = Throttle(clock)
        #: All refusals so far.
        self.refused = 0

    @property
    def changes_allowed(self) -> bool:
        """Whether a token is configured at all."""
        return self._token is not None

    def is_authorized(self, request: RelayRequest) -> bool:
        """Whether a request brings the right token; a wrong one is told."""
        header = request.header(b"Authorization")
        if not header or self._token is None:
            return False
        scheme, _, token = header.partition(" ")
        if scheme.lower() == "bearer" and Secret(token.strip()) == self._token:
            return True
        self._refuse(request.peer)
        return False

    def require(self, request: RelayRequest) -> None:
        """Raise unless a request may change things."""
        if self._token is None:
            raise HttpError(
                403,
                "changes are not enabled: start the server with --http-token (or RTMPRELAY_HTTP_TOKEN in its"
                " environment), and send that token as 'Authorization: Bearer TOKEN'",
            )
        if not request.header(b"Authorization"):
            raise HttpError(401, "a token is needed: send it as 'Authorization: Bearer TOKEN'", _CHALLENGE)
        if not self.is_authorized(request):
            raise HttpError(
                401,
                "the token is wrong: send the server's --http-token as 'Authorization: Bearer TOKEN'",
                _CHALLENGE,
            )

    def _refuse(self, peer: str) -> None:
        self.refused += 1
        count = self._throttle.count()
        if count:
            self._events.publish(ControlRefused(peer=peer, others=count - 1))
