"""Asks the gate before a client gets media over HTTP, as before a play over RTMP."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any
from urllib.parse import quote

from rtmprelay.access.gate import Gate
from rtmprelay.access.refusals import RefusalReports
from rtmprelay.access.request import AccessRequest, Action, Credentials, Verdict
from rtmprelay.events import PlayRefused
from rtmprelay.secret import Secret
from rtmprelay.web.server.request import RelayRequest, Result
from rtmprelay.web.server.responses import BEARER_CHALLENGE, HttpError
from rtmprelay.wire.limits import LONGEST_CREDENTIALS, LONGEST_STREAM_NAME

#: Sends media to a client that may have it. The argument is the client's name in the log and in events.
SendMedia = Callable[[str], Result]


class MediaGate:
    """Asks before anything is said about a stream, even whether it is live."""

    @property
    def is_open(self) -> bool:
        """Whether everybody may have everything."""
        return self._gate.is_open

    def __init__(self, gate: Gate, refusals: RefusalReports, name_size: int = LONGEST_STREAM_NAME) -> None:
        self._gate = gate
        self._refusals = refusals
        self._name_size = name_size
        self._numbers = count(1)
        self._granted: dict[str, AccessRequest] = {}

    def granted(self, connection: str) -> AccessRequest | None:
        """The request that was allowed for a connection that is still open."""
        return self._granted.get(connection)

    def ask(self, request: RelayRequest, key: str, send: SendMedia) -> Result:
        """Call `send` if the client may play the stream, now or when the verdict comes."""
        if len(key.encode("utf-8", "replace")) > self._name_size:
            raise HttpError(404, f"no stream has a name of more than {self._name_size} bytes")
        connection_id = f"h{next(self._numbers):06d}"
        if self._gate.is_open:
            return send(connection_id)
        credentials = _credentials(request)
        if len(credentials.as_query().reveal()) > LONGEST_CREDENTIALS:
            # They are kept for as long as the client watches.
            raise HttpError(414, f"keys and tokens have {LONGEST_CREDENTIALS} characters at most")
        question = AccessRequest(
            action=Action.PLAY,
            stream=key,
            host=request.client_host if hasattr(request.getClientAddress(), "host") else "",
            connection=connection_id,
            protocol="http",
            credentials=credentials,
        )
        verdict = self._gate.ask(question)
        request.notifyFinish().addErrback(lambda _: verdict.cancel())
        return verdict.addCallback(self._decide, request, question, send)

    def _decide(
        self, verdict: Verdict, request: RelayRequest, question: AccessRequest, send: SendMedia
    ) -> Any:
        if request.finished or request._disconnected:
            return None
        if verdict.allowed:
            self._granted[question.connection] = question
            request.notifyFinish().addBoth(lambda _: self._granted.pop(question.connection, None))
            return send(question.connection)
        refusal = PlayRefused(
            connection=question.connection, stream=question.stream, peer=request.peer, reason=verdict.reason
        )
        self._refusals.report(request.client_host, refusal)
        if question.credentials.are_missing:
            raise HttpError(401, verdict.reason, BEARER_CHALLENGE)
        raise HttpError(403, verdict.reason)


def _credentials(request: RelayRequest) -> Credentials:
    """The query string, with the token of the Authorization header added to it."""
    query = request.query.decode("utf-8", "replace")
    scheme, _, token = request.header(b"Authorization").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        query = "&".join(part for part in (query, f"token={quote(token.strip(), safe='')}") if part)
    return Credentials(Secret(query))
