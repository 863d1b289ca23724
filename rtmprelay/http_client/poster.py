"""Posts JSON to one address. Certificates are verified, redirects are not followed, and of the answer only the status counts."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IConsumer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import trustRootFromCertificates
from twisted.python.failure import Failure
from twisted.web.client import (
    Agent,
    BrowserLikePolicyForHTTPS,
    HTTPConnectionPool,
    ResponseFailed,
    _HTTP11ClientFactory,
)
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IBodyProducer, IResponse
from typing_extensions import override
from zope.interface import implementer

from rtmprelay import __version__
from rtmprelay.http_client.address import HttpAddress
from rtmprelay.rtmp.endpoint import read_certificates

#: Bytes of an answer that are read, so that its connection can be used again; for more of them it is closed.
LARGEST_ANSWER = 65_536

#: Seconds that a connection waits for its next use: less than most servers wait.
_KEEP_CONNECTION = 4.0


class _QuietFactory(_HTTP11ClientFactory):
    """Does not log each connection."""

    noisy = False


@implementer(IBodyProducer)
class _Body:
    """Some bytes to send."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.length = len(data)

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:
        """Send all of it."""
        consumer.write(self._data)
        return succeed(None)

    def pauseProducing(self) -> None:
        """There is nothing to pause."""

    def resumeProducing(self) -> None:
        """There is nothing to resume."""

    def stopProducing(self) -> None:
        """There is nothing to stop."""


class _Discarding(Protocol):
    """Reads the body of an answer, but not all of a long one. `over` fires at its end, or when it is too long."""

    def __init__(self) -> None:
        self.over: Deferred[None] = Deferred(lambda _: self._close())
        self._size = 0

    def _close(self) -> None:
        if self.transport is not None:
            self.transport.loseConnection()

    @override
    def dataReceived(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > LARGEST_ANSWER and not self.over.called:
            self._close()
            self.over.callback(None)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        # However it ended: the status is known.
        if not self.over.called:
            self.over.callback(None)


class HttpPoster:
    """Posts to one address.

    Args:
        connections: How many connections are kept for the next time.
        agent: What speaks HTTP, for tests.
    """

    def __init__(
        self, reactor: Any, address: HttpAddress, connections: int = 2, agent: IAgent | None = None
    ) -> None:
        self._pool: HTTPConnectionPool | None = None
        if agent is None:
            self._pool = _pool(reactor, connections)
            agent = _agent(reactor, address, self._pool)
        self._agent = agent
        self._address = address

    @property
    def shown(self) -> str:
        """The address as it can be shown to anyone."""
        return self._address.shown

    def post(self, body: bytes) -> Deferred[int]:
        """The status of the answer. Fails if there is none; cancelling closes the connection."""
        return Deferred.fromCoroutine(self._post(body))

    async def _post(self, body: bytes) -> int:
        headers = Headers(
            {
                b"Content-Type": [b"application/json"],
                b"User-Agent": [f"rtmprelay/{__version__}".encode()],
            }
        )
        if self._address.token is not None:
            headers.setRawHeaders(b"Authorization", [b"Bearer " + self._address.token.reveal().encode()])
        url = self._address.url.reveal().encode("ascii")
        try:
            response: IResponse = await self._agent.request(b"POST", url, headers, _Body(body))
        except ResponseFailed as failed:
            if any(reason.check(CancelledError) for reason in failed.reasons):
                # It is not the server that failed.
                raise CancelledError from None
            raise
        discarding = _Discarding()
        response.deliverBody(discarding)
        await discarding.over
        return int(response.code)

    def close(self) -> Deferred[None]:
        """Close the connections that are kept."""
        if self._pool is None:
            return succeed(None)
        closed: Deferred[Any] = self._pool.closeCachedConnections()
        return closed.addBoth(lambda _: None)


def _pool(reactor: Any, connections: int) -> HTTPConnectionPool:
    pool = HTTPConnectionPool(reactor)
    pool.maxPersistentPerHost = connections
    pool.cachedConnectionTimeout = cast(Any, _KEEP_CONNECTION)
    pool._factory = _QuietFactory
    return pool


def _agent(reactor: Any, address: HttpAddress, pool: HTTPConnectionPool) -> IAgent:
    roots = None if address.ca_file is None else trustRootFromCertificates(read_certificates(address.ca_file))
    policy = BrowserLikePolicyForHTTPS() if roots is None else BrowserLikePolicyForHTTPS(trustRoot=roots)
    return Agent(reactor, contextFactory=policy, pool=pool)


def describe_failure(failure: Failure) -> str:
    """Why there was no answer, in a few words and without the address."""
    # Twisted wraps what really happened in lists of reasons.
    reasons = getattr(failure.value, "reasons", None)
    if reasons:
        return describe_failure(reasons[0])
    text = failure.getErrorMessage()
    return f"{failure.type.__name__ if failure.type is not None else 'error'}: {text[:200]}"
