"""Posts JSON to one address, for authorizers and hooks.

Certificates are verified and redirects are not followed. Only the status of the answer matters.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import attrs
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
from rtmprelay.errors import ConfigError
from rtmprelay.files.pem import read_certificates
from rtmprelay.files.secret_file import read_secret
from rtmprelay.plugin_factories import PluginOptions, split_options
from rtmprelay.secret import Secret

#: Options that may follow any address.
COMMON_OPTIONS = frozenset({"timeout", "ca-file", "token-file"})

_URL = re.compile(
    r"""(?P<scheme>https?)://
        (?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)
        (?::(?P<port>[0-9]{1,5}))?
        (?P<path>/[^?]*)?
        (?P<query>\?.*)?""",
    re.VERBOSE | re.IGNORECASE,
)

#: Bytes of an answer that are read so that its connection can be used again. After a longer answer it is closed.
_MAX_ANSWER = 65_536

#: Seconds that an idle connection is kept: most servers close theirs later.
_KEEP_ALIVE = 4


@attrs.frozen
class HttpAddress:
    """An address to post to, with its TLS certificates and its token."""

    #: The whole address. Its query may contain a secret.
    url: Secret
    #: The address without its query, for the log.
    shown: str
    #: Certificates to trust instead of the system's.
    ca_file: str | None = None
    #: Sent as `Authorization: Bearer`.
    token: Secret | None = None


def read_address(argument: str, options: Collection[str] = ()) -> tuple[HttpAddress, PluginOptions]:
    """Parse `URL[#name=value&name=value]`. Error messages do not contain the query.

    Args:
        options: The names of options besides the common ones.
    """
    if argument.startswith("//"):
        # `--auth http://host` was written, and `http` was taken for the name of the plugin.
        argument = f"http:{argument}"
    text, given = split_options(argument, {*COMMON_OPTIONS, *options})
    if not text:
        raise ConfigError("the address is missing: https://HOST/PATH is expected")
    if "@" in text.partition("://")[2].partition("/")[0]:
        raise ConfigError(
            "a user or a password in the address would be seen by everybody on this machine:"
            " put a token in a file, and write #token-file=PATH after the address"
        )
    parts = _URL.fullmatch(text)
    if parts is None or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError("this is not an address: http://HOST/PATH or https://HOST/PATH is expected")
    port = parts["port"]
    if port is not None and not 1 <= int(port) <= 65535:
        raise ConfigError(f"the port of the address is {port}: a number from 1 to 65535 is expected")
    shown = f"{parts['scheme'].lower()}://{parts['host']}{f':{port}' if port else ''}{parts['path'] or '/'}"
    token_file = given.text("token-file")
    address = HttpAddress(
        url=Secret(shown + (parts["query"] or "")),
        shown=shown,
        ca_file=given.text("ca-file"),
        token=None if token_file is None else _read_token(Path(token_file)),
    )
    return address, given


def _read_token(path: Path) -> Secret:
    token = read_secret(path, "the token file")
    if not token.reveal().isascii():
        raise ConfigError(f"the token file {str(path)!r} must contain one line of printable ASCII characters")
    return token


class _QuietFactory(_HTTP11ClientFactory):
    noisy = False


@implementer(IBodyProducer)
class _Body:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.length = len(data)

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:
        consumer.write(self._data)
        return succeed(None)

    def pauseProducing(self) -> None:
        """There is nothing to pause."""

    def resumeProducing(self) -> None:
        """There is nothing to resume."""

    def stopProducing(self) -> None:
        """There is nothing to stop."""


class _DiscardBody(Protocol):
    """Reads the body of an answer and throws it away. `finished` fires at its end, or when it is too long."""

    def __init__(self) -> None:
        self.finished: Deferred[None] = Deferred(lambda _: self._close())
        self._size = 0

    def _close(self) -> None:
        if self.transport is not None:
            self.transport.loseConnection()

    @override
    def dataReceived(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > _MAX_ANSWER and not self.finished.called:
            self._close()
            self.finished.callback(None)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        # Even if the body was cut off: only the status matters.
        if not self.finished.called:
            self.finished.callback(None)


class HttpPoster:
    """Posts to one address.

    Args:
        connections: How many idle connections are kept.
        agent: Used instead of a real HTTP client.
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
        """The address without its query, for the log."""
        return self._address.shown

    def post(self, body: bytes) -> Deferred[int]:
        """Fires with the status of the answer, and fails if there is none. Cancelling it closes the connection."""
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
                # We cancelled it: the server did not fail.
                raise CancelledError from None
            raise
        body_reader = _DiscardBody()
        response.deliverBody(body_reader)
        await body_reader.finished
        return int(response.code)

    def close(self) -> Deferred[None]:
        """Close the idle connections."""
        if self._pool is None:
            return succeed(None)
        closed: Deferred[Any] = self._pool.closeCachedConnections()
        return closed.addBoth(lambda _: None)


def _pool(reactor: Any, connections: int) -> HTTPConnectionPool:
    pool = HTTPConnectionPool(reactor)
    pool.maxPersistentPerHost = connections
    pool.cachedConnectionTimeout = _KEEP_ALIVE
    pool._factory = _QuietFactory
    return pool


def _agent(reactor: Any, address: HttpAddress, pool: HTTPConnectionPool) -> IAgent:
    roots = None if address.ca_file is None else trustRootFromCertificates(read_certificates(address.ca_file))
    policy = BrowserLikePolicyForHTTPS() if roots is None else BrowserLikePolicyForHTTPS(trustRoot=roots)
    return Agent(reactor, contextFactory=policy, pool=pool)


def describe_failure(failure: Failure) -> str:
    """Why there was no answer, in a few words and without the address."""
    # Twisted wraps the error in lists of reasons.
    reasons = getattr(failure.value, "reasons", None)
    if reasons:
        return describe_failure(reasons[0])
    text = failure.getErrorMessage()
    return f"{failure.type.__name__ if failure.type is not None else 'error'}: {text[:200]}"
