"""Who may change things, and which pages of other origins may read (CORS)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

from rtmprelay.access.guessing import GuessGuard
from rtmprelay.access.refusals import RefusalReports
from rtmprelay.events import ControlRefused
from rtmprelay.secret import Secret
from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.server.responses import BEARER_CHALLENGE, READING_CHALLENGE, HttpError

#: Headers that a page of another origin may send. Without Authorization it cannot make changes.
_CROSS_ORIGIN_HEADERS = (
    b"Range, Cache-Control, Last-Event-ID, CMCD-Request, CMCD-Object, CMCD-Session, CMCD-Status"
)


class ControlAccess:
    """Checks the token of requests that change something.

    The token is compared in constant time, and only accepted in a header, which pages of other origins cannot send.
    Wrong tokens are reported at most once a second and address, so that they cannot fill the log.
    """

    def __init__(
        self,
        token: Secret | None,
        refusals: RefusalReports,
        guard: GuessGuard | None = None,
        read_token: Secret | None = None,
    ) -> None:
        self._token = token
        self._read_token = read_token
        self._refusals = refusals
        self._guard = guard
        #: Requests with a wrong token so far.
        self.refused = 0

    def set_tokens(self, token: Secret | None, read_token: Secret | None) -> None:
        self._token = token
        self._read_token = read_token

    @property
    def asks_readers(self) -> bool:
        """Whether reading needs a token, too."""
        return self._read_token is not None

    @property
    def changes_allowed(self) -> bool:
        """Whether the server has a token at all."""
        return self._token is not None

    async def is_authorized(self, request: RelayRequest) -> bool:
        """Whether a request has the right token. A wrong one is counted and reported, and the answer takes a while."""
        header = request.header(b"Authorization")
        if not header or self._token is None:
            return False

        return await self._check(request, lambda: self._is_right(header))

    async def _check(self, request: RelayRequest, is_right: Callable[[], bool]) -> bool:
        async def check() -> bool:
            return is_right()

        if self._guard is None:
            right = await check()
        else:
            right = await self._guard.check(request.client_host, check, lambda right: not right, False)
        if not right:
            self._report_wrong_token(request)
        return right

    def _is_right(self, header: str) -> bool:
        scheme, _, token = header.partition(" ")
        return scheme.lower() == "bearer" and Secret(token.strip()) == self._token

    def _may_read(self, header: str) -> bool:
        """Both tokens are good for reading, also as the password that a browser asks for."""
        scheme, _, text = header.partition(" ")
        if scheme.lower() == "basic":
            text = _password(text.strip())
        elif scheme.lower() != "bearer":
            return False
        given = Secret(text.strip())
        # Both are compared, so that the time does not tell which one there is.
        matches = [given == token for token in (self._read_token, self._token) if token is not None]
        return any(matches)

    async def require_reading(self, request: RelayRequest) -> None:
        """Raise `HttpError` unless the request may read the status."""
        header = request.header(b"Authorization")
        if not self.asks_readers or (header and await self._check(request, lambda: self._may_read(header))):
            return
        raise HttpError(
            401,
            "a token is needed to read this: send --http-read-token as 'Authorization: Bearer TOKEN', or as the"
            " password that a browser asks for",
            READING_CHALLENGE,
        )

    async def require(self, request: RelayRequest) -> None:
        """Raise `HttpError` unless the request may change things."""
        if self._token is None:
            raise HttpError(
                403,
                "changes are not enabled: start the server with --http-token (or RTMPRELAY_HTTP_TOKEN in its"
                " environment), and send that token as 'Authorization: Bearer TOKEN'",
            )
        if not request.header(b"Authorization"):
            raise HttpError(
                401, "a token is needed: send it as 'Authorization: Bearer TOKEN'", BEARER_CHALLENGE
            )
        if not await self.is_authorized(request):
            raise HttpError(
                401,
                "the token is wrong: send the server's --http-token as 'Authorization: Bearer TOKEN'",
                BEARER_CHALLENGE,
            )

    def _report_wrong_token(self, request: RelayRequest) -> None:
        self.refused += 1
        self._refusals.report(request.client_host, ControlRefused(peer=request.peer))


def _password(encoded: str) -> str:
    """The password of HTTP's Basic authentication; empty if it cannot be read."""
    try:
        return base64.b64decode(encoded, validate=True).decode("ascii").partition(":")[2]
    except ValueError:
        return ""


class CorsPolicy:
    """Says which origins may read status and media from a browser. No other origin may make changes."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._allows_all = "*" in origins
        self._origins = frozenset(origins)

    def allow_reading(self, request: RelayRequest) -> None:
        """Add the headers that let the browser show this response to a page of an allowed origin."""
        if self._allows_all:
            request.setHeader(b"Access-Control-Allow-Origin", b"*")
        elif self._origins:
            request.responseHeaders.addRawHeader(b"Vary", b"Origin")
            origin = request.header(b"Origin")
            if origin.lower() in self._origins:
                request.setHeader(b"Access-Control-Allow-Origin", origin.encode("latin-1"))

    def answer_preflight(self, request: RelayRequest) -> None:
        """Add the headers with which a browser decides whether to send a request at all."""
        self.allow_reading(request)
        if request.responseHeaders.hasHeader(b"Access-Control-Allow-Origin"):
            request.setHeader(b"Access-Control-Allow-Methods", b"GET, HEAD")
            request.setHeader(b"Access-Control-Allow-Headers", _CROSS_ORIGIN_HEADERS)
            request.setHeader(b"Access-Control-Max-Age", b"86400")
