"""HTTP servers that answer as a test says: one in memory, one on a real socket."""

from __future__ import annotations

import json
from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.ssl import KeyPair, PrivateCertificate
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IBodyProducer
from typing_extensions import override
from zope.interface import implementer

from tests.helpers import the_reactor, until


@attrs.define(eq=False)
class Posted:
    """One request to the agent in memory."""

    method: bytes
    url: str
    headers: Headers
    body: bytes
    answered: Deferred[Any]
    cancelled: bool = False

    @property
    def json(self) -> Any:
        """The body of the request."""
        return json.loads(self.body)

    def answer(self, status: int) -> None:
        """Answer with a status and an empty body."""
        self.answered.callback(_Response(status))

    def fail(self, error: Exception) -> None:
        """Fail instead of answering."""
        self.answered.errback(Failure(error))


class _Response:
    """As much of an `IResponse` as the poster uses."""

    def __init__(self, code: int) -> None:
        self.code = code

    def deliverBody(self, protocol: Protocol) -> None:  # noqa: N802
        """Deliver an empty body."""
        protocol.connectionLost()


class _Sink:
    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data


@implementer(IAgent)
class MemoryAgent:
    """Keeps requests until a test answers them. With `status` set, all are answered at once."""

    def __init__(self, status: int | None = None) -> None:
        self.status = status
        self.requests: list[Posted] = []

    def request(
        self,
        method: bytes,
        uri: bytes,
        headers: Headers | None = None,
        bodyProducer: IBodyProducer | None = None,  # noqa: N803
    ) -> Deferred[Any]:
        sink = _Sink()
        assert bodyProducer is not None
        bodyProducer.startProducing(cast(Any, sink))

        def cancel(_: Deferred[Any]) -> None:
            posted.cancelled = True

        posted = Posted(method, uri.decode(), headers or Headers(), sink.data, Deferred(cancel))
        assert len(sink.data) == bodyProducer.length
        self.requests.append(posted)
        if self.status is not None:
            posted.answer(self.status)
        return posted.answered


class RawHttp(Protocol):
    """One connection to a `RawHttpServer`."""

    factory: RawHttpServer

    def __init__(self) -> None:
        self.received = b""

    @override
    def connectionMade(self) -> None:
        self.factory.connections += 1
        self.factory.open_connections.add(self)

    @override
    def dataReceived(self, data: bytes) -> None:
        self.received += data
        head, separator, body = self.received.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
        if separator and len(body) >= size:
            self.received = body[size:]
            self.factory.requests.append((head, body[:size]))
            answer = self.factory.answers.pop(0) if self.factory.answers else self.factory.otherwise
            if answer is None:
                return
            if answer == b"close":
                cast(Any, self.transport).abortConnection()
            else:
                cast(Any, self.transport).write(answer)

    @override
    def connectionLost(self, reason: object = None) -> None:
        self.factory.open_connections.discard(self)


def plain(status: int, body: bytes = b"", *headers: bytes) -> bytes:
    """An HTTP response."""
    lines = [b"HTTP/1.1 %d X" % status, b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


class RawHttpServer(Factory):
    """Answers each request with the next of `answers`, or with `otherwise`.

    None leaves the request without an answer, and `close` cuts the connection.
    """

    protocol = RawHttp  # type: ignore[assignment]
    noisy = False

    def __init__(self) -> None:
        self.requests: list[tuple[bytes, bytes]] = []
        self.answers: list[bytes | None] = []
        self.otherwise: bytes | None = plain(204)
        self.connections = 0
        self.open_connections: set[RawHttp] = set()
        self._port: Any = None
        self._scheme = "http"

    def listen(self, certificate: tuple[bytes, bytes] | None = None) -> RawHttpServer:
        """Listen on a free port; with a key and a certificate, for TLS."""
        reactor = the_reactor()
        if certificate is None:
            self._port = reactor.listenTCP(0, self, interface="127.0.0.1")
        else:
            private, signed = certificate
            options = PrivateCertificate.fromCertificateAndKeyPair(
                _certificate(signed), KeyPair.load(private, 1)
            ).options()
            self._scheme = "https"
            self._port = reactor.listenSSL(0, self, options, interface="127.0.0.1")
        return self

    def url(self, path: str = "/check") -> str:
        """The URL of a path on this server."""
        return f"{self._scheme}://127.0.0.1:{self._port.getHost().port}{path}"

    async def stop(self) -> None:
        """Close the port and all connections."""
        await self._port.stopListening()
        for connection in list(self.open_connections):
            cast(Any, connection.transport).abortConnection()
        await until(lambda: not self.open_connections, "the end of the connections")

    def json(self, index: int = -1) -> Any:
        """The body of a request."""
        return json.loads(self.requests[index][1])


def _certificate(pem: bytes) -> Any:
    from twisted.internet.ssl import Certificate

    return Certificate.loadPEM(pem)
