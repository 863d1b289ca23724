"""Connecting to another server: DNS, TCP, TLS and RTMP, up to the answer to `publish` or `play`."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import attrs
from OpenSSL import SSL
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.internet.ssl import (
    CertificateOptions,
    optionsForClientTLS,
    trustRootFromCertificates,
)
from twisted.protocols.tls import TLSMemoryBIOProtocol
from zope.interface import implementer

from rtmprelay.files.pem import read_certificates
from rtmprelay.rtmp.client import (
    AuthenticationWantedError,
    ClientSettings,
    RtmpClientFactory,
    RtmpClientProtocol,
    RtmpPublisherProtocol,
)
from rtmprelay.session.adobe import AdobeAuthentication
from rtmprelay.wire.url import RtmpUrl

#: Seconds for each attempt to connect to an address of the host by TCP. TLS is part of the negotiation, which has its
#: own timeout.
CONNECT_TIMEOUT = 10.0

_P = TypeVar("_P", bound=RtmpClientProtocol)


@attrs.frozen
class TlsTrust:
    """Certificates that prove the server's identity."""

    verify: bool = True
    #: Certificates to trust instead of the system's.
    ca_file: str | None = None


@implementer(IOpenSSLClientConnectionCreator)
class _UnverifiedTls:
    """TLS without verification, for private servers: the name is sent (SNI), the certificate is not checked."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._context = CertificateOptions().getContext()

    def clientConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:  # noqa: N802, N803
        """Called by Twisted."""
        connection = SSL.Connection(self._context, None)
        connection.set_tlsext_host_name(self._host.encode("idna"))
        return connection


def _tls_creator(host: str, trust: TlsTrust) -> IOpenSSLClientConnectionCreator:
    if not trust.verify:
        return _UnverifiedTls(host)
    if trust.ca_file is None:
        return optionsForClientTLS(host)
    roots = trustRootFromCertificates(read_certificates(trust.ca_file))
    return optionsForClientTLS(host, trustRoot=roots)


def transport_endpoint(reactor: Any, url: RtmpUrl, trust: TlsTrust | None = None) -> IStreamClientEndpoint:
    """The endpoint of TCP or TLS to a server. The name is looked up on each attempt."""
    endpoint: Any = HostnameEndpoint(reactor, url.host, url.port, timeout=CONNECT_TIMEOUT)
    if url.secure:
        endpoint = wrapClientTLS(_tls_creator(url.host, trust or TlsTrust()), endpoint)
    return cast(IStreamClientEndpoint, endpoint)


async def negotiate(
    make: type[_P],
    url: RtmpUrl,
    endpoint: IStreamClientEndpoint,
    clock: IReactorTime,
    settings: ClientSettings,
) -> _P:
    """Connect, and request to publish or play. Adobe's authentication takes up to three connections for that."""
    authentication = AdobeAuthentication(url.user, url.password)
    while True:
        query = authentication.query
        factory = RtmpClientFactory(lambda query=query: make(url, clock, settings, query))  # type: ignore[misc]
        protocol = cast(_P, await endpoint.connect(factory))
        try:
            await protocol.when_accepted
        except AuthenticationWantedError as wanted:
            authentication.refused(str(wanted))
        else:
            return protocol


@implementer(IStreamClientEndpoint)
class RtmpPublishEndpoint:
    """An endpoint whose `connect` fires when the server has accepted the publish, not when TCP is there.

    The protocol that it builds gets an `RtmpPublisherProtocol` as its transport; `loseConnection` on that says
    goodbye first.
    """

    def __init__(
        self,
        url: RtmpUrl,
        transport: IStreamClientEndpoint,
        clock: IReactorTime,
        settings: ClientSettings | None = None,
    ) -> None:
        self._url = url
        self._transport = transport
        self._clock = clock
        self._settings = settings or ClientSettings()

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:  # noqa: N803
        """Connect, negotiate, and only then build the protocol."""
        return Deferred.fromCoroutine(self._connect(protocolFactory))

    async def _connect(self, factory: IProtocolFactory) -> IProtocol:
        publisher = await negotiate(
            RtmpPublisherProtocol, self._url, self._transport, self._clock, self._settings
        )
        upper = factory.buildProtocol(None)  # type: ignore[arg-type]
        if upper is None:
            publisher.end()
            raise ConnectionAbortedError("the protocol factory refused the connection")
        upper.makeConnection(publisher)  # type: ignore[arg-type]
        publisher.when_lost.addCallback(lambda _: upper.connectionLost(publisher.loss))
        return upper
