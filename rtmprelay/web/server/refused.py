"""Connections that are not taken, and requests that are not understood: one short answer, and the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.http import RESPONSES
from typing_extensions import override

from rtmprelay.web.server.responses import error_json

if TYPE_CHECKING:
    from rtmprelay.web.server.site import RelaySite

#: Seconds for which a refused client may go on sending, so that it can read why it was refused.
LINGER = 1.0

#: Connections over the limit that get a response; any more are cut.
_MAX_REFUSED_CONNECTIONS = 64


def raw_response(status: int, message: str) -> bytes:
    """A whole response for a client whose request was not understood; the connection is closed after it."""
    body = error_json(status, message)
    reason = RESPONSES.get(status, b"Error")
    return (
        b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        b"Cache-Control: no-store\r\nConnection: close\r\n\r\n" % (status, reason, len(body))
    ) + body


class CutConnection(Protocol):
    """Aborts a connection for which there is no room, or whose address is banned."""

    @override
    def connectionMade(self) -> None:
        cast(Any, self.transport).abortConnection()


class RefusedHttpConnection(Protocol):
    """A connection over the limit: its first request is answered with 503."""

    def __init__(self, site: RelaySite) -> None:
        self._site = site
        self._timer: IDelayedCall | None = None
        self._received = b""

    @property
    def _wire(self) -> Any:
        return self.transport

    @override
    def connectionMade(self) -> None:
        self._site.refused_connections += 1
        if self._site.refused_connections > _MAX_REFUSED_CONNECTIONS:
            self._wire.abortConnection()
        else:
            self._timer = self._site.clock.callLater(LINGER, self._wire.abortConnection)

    @override
    def dataReceived(self, data: bytes) -> None:
        # A client that gets a response before it has sent its request may not read it.
        self._received = (self._received + data)[-4096:]
        if b"\r\n\r\n" in self._received and not self._wire.disconnecting:
            self._site.responses[503] += 1
            self._wire.write(raw_response(503, "there are too many HTTP connections: try again later"))
            self._wire.loseConnection()

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._site.refused_connections -= 1
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
