"""What is no TLS, breaks it in the middle, or wants it negotiated anew, is nobody's problem but its sender's."""

from __future__ import annotations

import random
import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from OpenSSL import SSL

from tests.helpers import wait_for
from tests.hostile.conversations import greeting
from tests.hostile.process import AttackedServer

#: The beginning of a ClientHello.
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"

#: Records: an alert that closes, one that warns, a change of cipher, and application data that nobody can read.
RECORDS = (
    b"\x15\x03\x03\x00\x02\x02\x28",
    b"\x15\x03\x03\x00\x02\x01\x64",
    b"\x14\x03\x03\x00\x01\x01",
    b"\x17\x03\x03\x00\x20" + bytes(32),
    b"\x16\x03\x03\x00\x04\x00\x00\x00\x00",
    b"\x17\x03\x03\xff\xff" + bytes(200),
)


class TlsServer(AttackedServer):
    """The server that is attacked, with another port that speaks TLS."""

    def __init__(self, folder: Path, key: Path, certificate: Path) -> None:
        super().__init__(
            folder, "--listen", f"ssl:0:interface=127.0.0.1:privateKey={key}:certKey={certificate}"
        )
        (self.tls_port,) = self.ports("RTMPS")

    def knock(self) -> socket.socket:
        """A connection to that port."""
        return socket.create_connection(("127.0.0.1", self.tls_port), 20)

    def shake(self, plain: socket.socket, version: int = SSL.TLS1_2_VERSION) -> SSL.Connection:
        """Do a correct TLS handshake."""
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_max_proto_version(version)
        # Sockets of pyOpenSSL that have a timeout raise instead of waiting.
        plain.settimeout(None)
        connection = SSL.Connection(context, plain)
        connection.set_connect_state()
        connection.do_handshake()
        return connection


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]) -> Iterator[TlsServer]:
    attacked = TlsServer(tmp_path_factory.mktemp("tls"), *certificate)
    yield attacked
    attacked.stop()


def assert_as_before(server: TlsServer, files: int, memory: int) -> None:
    """Everybody has gone, and each has one line."""
    server.wait_until_alone(files)
    server.assert_unharmed()
    wait_for(lambda: server.figure("rtmprelay_connections") == 0, "the end of all connections")
    opened = [line for line in server.lines() if line.get("event") == "connection_opened"]
    assert len(opened) == len(server.closings()), "one end for each beginning"
    server.assert_no_larger(memory)


def test_noise_instead_of_a_handshake(server: TlsServer) -> None:
    server.assert_works()
    files, memory, chance = server.files(), server.memory(), random.Random(7)
    for number in range(60):
        with server.knock() as stranger, suppress(OSError):
            noise = chance.randbytes(chance.choice((1, 50, 5000)))
            stranger.sendall(noise if number % 2 else HELLO + noise)
    assert_as_before(server, files, memory)


@pytest.mark.parametrize("version", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION], ids=["1.2", "1.3"])
def test_noise_after_a_handshake_is_cut_off(server: TlsServer, version: int) -> None:
    """Records that do not belong there, in a connection that was sound until then."""
    server.assert_works()
    files, memory, chance = server.files(), server.memory(), random.Random(8)
    for number in range(60):
        plain = server.knock()
        connection = server.shake(plain, version)
        if number % 3:
            connection.sendall(greeting())
        # Past the library, onto the wire itself.
        with suppress(OSError):
            plain.sendall(RECORDS[number % len(RECORDS)] * chance.choice((1, 2, 200)))
            plain.sendall(chance.randbytes(chance.choice((1, 50, 5000))))
        plain.close()
    assert_as_before(server, files, memory)


def test_negotiating_again_and_again(server: TlsServer) -> None:
    """It costs a server much and a client little, and nobody needs it: a client gains nothing by it."""
    server.assert_works()
    files, memory = server.files(), server.memory()
    tried = anew = 0
    for _ in range(20):
        plain = server.knock()
        connection = server.shake(plain)
        connection.sendall(greeting())
        with suppress(SSL.Error, OSError):
            for _ in range(50):
                if not connection.renegotiate():
                    break
                tried += 1
                connection.do_handshake()
                anew += connection.total_renegotiations()
        plain.close()
    assert tried >= 20
    assert anew == 0
    assert_as_before(server, files, memory)


def test_a_flood_of_hellos(server: TlsServer) -> None:
    """A client that sends hellos and reads nothing does not keep the server busy for ever."""
    server.assert_works()
    files, memory = server.files(), server.memory()
    plain = server.knock()
    server.shake(plain)
    flood = (HELLO + bytes(0x200)) * 200
    with suppress(OSError):
        for _ in range(100):
            plain.sendall(flood)
            if select.select([plain], [], [], 0)[0] and not plain.recv(65536):
                break
    plain.close()
    assert_as_before(server, files, memory)
