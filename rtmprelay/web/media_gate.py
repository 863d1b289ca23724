"""Live media over HTTP is for those whom the gate lets through, as it is over RTMP."""

from __future__ import annotations

from urllib.parse import quote

from twisted.internet.defer import Deferred

from rtmprelay.access.gate import Gate
from rtmprelay.access.request import AccessRequest, Action, Credentials, Verdict
from rtmprelay.event_bus import EventBus
from rtmprelay.events import PlayRefused
from rtmprelay.secret import Secret
from rtmprelay.web.live_media import LiveMedia
from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.server.responses import HttpError

_CHALLENGE = ((b"WWW-Authenticate", b'Bearer realm="rtmprelay"'),)


class MediaGate:
    """Asks the gate before anything is said about a stream: even whether it is live."""

    def __init__(self, gate: Gate, media: LiveMedia, events: EventBus) -> None:
        self._gate = gate
        self._media = media
        self._events = events

    def answer(self, request: RelayRequest, key: str, kind: str) -> Deferred[None] | None:
        """Answer with a stream, once its viewer has been let through."""
        if self._gate.is_open:
            self._media.answer(request, key, kind)
            return None
        wish = AccessRequest(
            action=Action.PLAY,
            stream=key,
            host=str(getattr(request.getClientAddress(), "host", "")),
            connection=self._media.new_connection_id(),
            protocol="http",
            credentials=_credentials(request),
        )
        asked = self._gate.ask(wish)
        request.notifyFinish().addErrback(lambda _: asked.cancel())
        return asked.addCallback(self._judged, request, wish, kind)

    def _judged(self, verdict: Verdict, request: RelayRequest, wish: AccessRequest, kind: str) -> None:
        if request.finished or request._disconnected:
            return
        if verdict.allowed:
            self._media.answer(request, wish.stream, kind, wish.connection)
            return
        self._events.publish(
            PlayRefused(connection=wish.connection, stream=wish.stream, reason=verdict.reason)
        )
        if wish.credentials.are_missing:
            raise HttpError(401, verdict.reason, _CHALLENGE)
        raise HttpError(403, verdict.reason)


def _credentials(request: RelayRequest) -> Credentials:
    """What a viewer brought along: the query string, and a token in the header."""
    query = request.query.decode("utf-8", "replace")
    scheme, _, token = request.header(b"Authorization").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        query = "&".join(part for part in (query, f"token={quote(token.strip(), safe='')}") if part)
    return Credentials(Secret(query))
