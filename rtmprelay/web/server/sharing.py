"""Which pages of other origins may read (CORS). Changes are never for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtmprelay.web.server.request import RelayRequest

#: What a page may ask with. No Authorization: another origin's page cannot make changes.
_HEADERS = b"Range, Cache-Control, Last-Event-ID"


class Sharing:
    """Says which origins are allowed to read status and media."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._all = "*" in origins
        self._origins = frozenset(origins)

    def allow(self, request: RelayRequest) -> None:
        """Tell the browser whether the page may read the answer."""
        if self._all:
            request.setHeader(b"Access-Control-Allow-Origin", b"*")
        elif self._origins:
            request.setHeader(b"Vary", b"Origin")
            origin = request.header(b"Origin")
            if origin.lower() in self._origins:
                request.setHeader(b"Access-Control-Allow-Origin", origin.encode("latin-1"))

    def allow_asking(self, request: RelayRequest) -> None:
        """The same for a question that comes before the request (a preflight): reading only."""
        self.allow(request)
        if request.responseHeaders.hasHeader(b"Access-Control-Allow-Origin"):
            request.setHeader(b"Access-Control-Allow-Methods", b"GET, HEAD")
            request.setHeader(b"Access-Control-Allow-Headers", _HEADERS)
            request.setHeader(b"Access-Control-Max-Age", b"86400")
