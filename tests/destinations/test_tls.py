"""TLS to a destination, in memory: which certificates are accepted, and what is shown for the others."""

# Much of Twisted's TLS and of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import PrivateCertificate
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.test.iosim import connectedServerAndClient
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.destinations.failures import FailureClass, classify
from rtmprelay.rtmp.endpoint import (
    TlsTrust,
    _tls_creator,
    transport_endpoint,
)
from rtmprelay.wire.url import RtmpUrl
from tests.certificates import self_signed


class End(Protocol):
    """One end of a TLS connection."""

    def __init__(self) -> None:
        self.received = b""
        self.lost: Failure | None = None

    @override
    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(b"hello")

    @override
    def dataReceived(self, data: bytes) -> None:
        self.received += data

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = reason


class TlsTests(SynchronousTestCase):
    @override
    def setUp(self) -> None:
        self.key, self.certificate = self_signed("host.example")
        self.names: list[bytes | None] = []
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, *certificates: bytes) -> str:
        """A file with these certificates."""
        path = self.folder / "ca.pem"
        path.write_bytes(b"some text before\n" + b"\n".join(certificates) + b"\nand after\n")
        return str(path)

    def connect(self, host: str, trust: TlsTrust) -> End:
        """Shake hands with a server that has the certificate; returns the end of the client."""
        private: Any = PrivateCertificate.loadPEM(self.key + self.certificate)
        options = private.options()
        options.getContext().set_tlsext_servername_callback(
            lambda connection: self.names.append(connection.get_servername())
        )
        creator: Any = _tls_creator(host, trust)
        assert IOpenSSLClientConnectionCreator.providedBy(creator)
        server_end, client_end = End(), End()
        clock = Clock()
        server = TLSMemoryBIOFactory(options, False, Factory.forProtocol(lambda: server_end), clock)
        client = TLSMemoryBIOFactory(creator, True, Factory.forProtocol(lambda: client_end), clock)
        address: Any = None
        _, _, pump = connectedServerAndClient(
            lambda: server.buildProtocol(address), lambda: client.buildProtocol(address)
        )
        pump.flush()
        # Twisted buffers small writes for a moment.
        clock.advance(1)
        pump.flush()
        return client_end

    def assert_failed(self, end: End, reason: str) -> None:
        assert end.lost is not None
        failure = classify(end.lost)
        assert failure.kind is FailureClass.NETWORK
        assert failure.sentence == f"TLS failed: {reason}"
        assert end.received == b""

    def test_trusted_certificate_is_accepted(self) -> None:
        other = self_signed("other.example")[1]
        for certificates in ([self.certificate], [other, self.certificate], [self.certificate, other]):
            end = self.connect("host.example", TlsTrust(ca_file=self.file(*certificates)))
            assert (end.received, end.lost) == (b"hello", None)
        assert set(self.names) == {b"host.example"}

    def test_self_signed_certificate_is_refused(self) -> None:
        self.assert_failed(self.connect("host.example", TlsTrust()), "certificate verify failed")

    def test_certificate_with_another_ca_is_refused(self) -> None:
        trust = TlsTrust(ca_file=self.file(self_signed("host.example")[1]))
        self.assert_failed(self.connect("host.example", trust), "certificate verify failed")

    def test_certificate_for_another_host_is_refused(self) -> None:
        trust = TlsTrust(ca_file=self.file(self.certificate))
        self.assert_failed(self.connect("wrong.example", trust), "the certificate is for another host")

    def test_unverified_connection_is_encrypted_and_sends_the_name(self) -> None:
        end = self.connect("wrong.example", TlsTrust(verify=False))
        assert (end.received, end.lost) == (b"hello", None)
        assert self.names == [b"wrong.example"]

    def test_endpoint_of_an_rtmps_url_uses_tls(self) -> None:
        reactor = MemoryReactorClock()
        plain = transport_endpoint(reactor, RtmpUrl.parse("rtmp://host.example/app/key"))
        secure = transport_endpoint(reactor, RtmpUrl.parse("rtmps://host.example/app/key"))
        assert "HostnameEndpoint" in repr(type(plain))
        assert "Wrapper" in repr(type(secure))
        assert "key" not in repr(plain)

    def test_ip_address_is_not_sent_as_a_name(self) -> None:
        for host in ("192.0.2.1", "2001:db8::1"):
            for trust in (TlsTrust(), TlsTrust(verify=False)):
                creator: Any = _tls_creator(host, trust)
                assert IOpenSSLClientConnectionCreator.providedBy(creator)
        end = self.connect("192.0.2.1", TlsTrust(verify=False))
        assert end.received == b"hello"

    def test_server_that_does_not_speak_tls_is_a_network_failure(self) -> None:
        creator: Any = _tls_creator("host.example", TlsTrust())
        client_end, server_end = End(), End()
        client = TLSMemoryBIOFactory(creator, True, Factory.forProtocol(lambda: client_end), Clock())
        address: Any = None
        _, _, pump = connectedServerAndClient(lambda: server_end, lambda: client.buildProtocol(address))
        pump.flush()
        assert client_end.lost is not None
        assert isinstance(client_end.lost.value, SSL.Error)
        assert classify(client_end.lost).kind is FailureClass.NETWORK
