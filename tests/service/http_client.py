"""A plain HTTP client on real sockets, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString, connectProtocol
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from typing_extensions import override

from tests.helpers import the_reactor
from tests.web.helpers import Response, parse_response

TOKEN = "a-token-for-tests"


class HttpConnection(Protocol):
    """Keeps everything that it receives."""

    def __init__(self) -> None:
        self.received = b""
        self.lost: Deferred[bytes] = Deferred()

    @override
    def dataReceived(self, data: bytes) -> None:
        self.received += data

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost.callback(self.received)

    def send(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    @property
    def closed(self) -> bool:
        """Whether the connection is closed."""
        return self.lost.called


async def connect(port: int) -> HttpConnection:
    """Open a connection without sending anything."""
    endpoint = clientFromString(the_reactor(), f"tcp:127.0.0.1:{port}")
    connecting: Deferred[HttpConnection] = connectProtocol(endpoint, HttpConnection())
    return await connecting


async def fetch(
    port: int, method: str, path: str, document: object = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Make one request, with the token, and wait for the whole response."""
    connection = await connect(port)
    body = b"" if document is None else json.dumps(document).encode()
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: relay",
        "Connection: close",
        f"Authorization: Bearer {TOKEN}",
    ]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    connection.send("\r\n".join([*lines, "", ""]).encode() + body)
    response, rest = parse_response(await connection.lost, head=method == "HEAD")
    assert rest == b""
    return response
