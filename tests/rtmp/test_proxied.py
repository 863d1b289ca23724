"""Headers of the PROXY protocol: what no proxy sends closes the connection, and is no error of the server."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import random
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import StringTransport
from typing_extensions import override

from rtmprelay.rtmp.proxied import ProxiedFactory

V2 = b"\r\n\r\n\x00\r\nQUIT\n"


class Server(Protocol):
    """Remembers what came."""

    def __init__(self) -> None:
        self.received = b""

    @override
    def dataReceived(self, data: bytes) -> None:
        self.received += data


def connect(*pieces: bytes) -> tuple[Any, Server, StringTransport]:
    server = Server()
    factory = ProxiedFactory(Factory.forProtocol(lambda: server))
    proxy = IPv4Address("TCP", "192.0.2.1", 40000)
    connection: Any = factory.buildProtocol(proxy)
    transport = StringTransport(peerAddress=proxy)
    connection.makeConnection(transport)
    for piece in pieces:
        if not transport.disconnecting:
            connection.dataReceived(piece)
    return connection, server, transport


@pytest.mark.parametrize("cut", [20, 44])
def test_client_has_the_address_that_the_proxy_names(cut: int) -> None:
    header = b"PROXY TCP4 203.0.113.7 192.0.2.9 5555 1935\r\n"
    connection, server, _ = connect(header[:cut], header[cut:] + b"hello")
    assert connection.getPeer().host == "203.0.113.7"
    assert server.received == b"hello"
    connection.dataReceived(b" again")
    assert server.received == b"hello again"


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 a b c d\r\n",
        b"PROXY TCP4 \xff\xfe 192.0.2.9 1 1\r\n",
        b"PROXY TCP4 203.0.113.7\r\n",
        V2 + b"\x21\x21\x00\x05abcde",
        b"x" * 100_000,
    ],
)
def test_header_that_no_proxy_sends_ends_the_connection(header: bytes) -> None:
    _, server, transport = connect(header)
    assert transport.disconnecting
    assert server.received == b""


def test_name_that_is_no_address_is_not_taken_for_the_client() -> None:
    connection, _, _ = connect(b"PROXY TCP4 \x1b[31m<b> 192.0.2.9 1 1\r\n")
    assert connection.getPeer().host == "192.0.2.1"


def test_headers_by_chance_raise_nothing() -> None:
    chance = random.Random(18)
    pieces = [
        b"PROXY ",
        b"TCP4 ",
        b"TCP6 ",
        b"1.2.3.4 ",
        b"::1 ",
        b"99999 ",
        b"-1",
        b"\r\n",
        V2,
        b"\x21\x11\x00\x0c",
    ]
    for _ in range(3000):
        parts = [chance.choice([*pieces, chance.randbytes(5)]) for _ in range(chance.randint(1, 8))]
        connect(chance.choice((b"", V2, b"PROXY TCP4 ")) + b"".join(parts), b"more")
