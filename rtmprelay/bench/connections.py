"""The load generator's sockets, and the RTMP sessions on them."""

from __future__ import annotations

import socket
import ssl
import time
from typing import Any, Protocol

from typing_extensions import override

from rtmprelay.errors import RemoteProtocolError
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import ConnectAccepted, SessionReport, StatusReceived
from rtmprelay.session.server import ServerSession

HOST = "127.0.0.1"
APP = "live"

#: Seconds a server may take to accept a connection.
_TIMEOUT = 5.0


class RefusedError(Exception):
    """The server refused a connection or a request."""


class _TlsSocket(ssl.SSLSocket):
    """Says that it has to wait as plain sockets do."""

    @override
    def recv(self, *arguments: Any) -> bytes:
        try:
            return super().recv(*arguments)
        except ssl.SSLWantReadError as error:
            raise BlockingIOError from error

    @override
    def recv_into(self, *arguments: Any) -> int:
        try:
            return super().recv_into(*arguments)
        except ssl.SSLWantReadError as error:
            raise BlockingIOError from error

    @override
    def send(self, *arguments: Any) -> int:
        try:
            return super().send(*arguments)
        except ssl.SSLWantWriteError as error:
            raise BlockingIOError from error


def _tls_context() -> ssl.SSLContext:
    """The server is one of ours with a certificate that nobody vouches for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.sslsocket_class = _TlsSocket
    return context


_TLS = _tls_context()


def dial(port: int, tls: bool = False) -> socket.socket:
    """Connect to a port of this machine. Blocking is fine: it takes no time unless the server accepts nobody."""
    sock = socket.socket()
    sock.settimeout(_TIMEOUT)
    try:
        sock.connect((HOST, port))
        if tls:
            sock = _TLS.wrap_socket(sock)
    except OSError as error:
        sock.close()
        raise RefusedError(f"no connection to port {port}: {error}") from error
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Conversation(Protocol):
    """The part of a session that a connection drives."""

    def receive_data(self, data: bytes, now: float) -> list[SessionReport]: ...

    def bytes_to_send(self) -> bytes: ...


class LoadConnection:
    """A non-blocking socket, its unsent bytes, and its session."""

    def __init__(self, sock: socket.socket, session: Conversation) -> None:
        self.sock = sock
        self.session = session
        self.outgoing = bytearray()
        self.is_open = True

    def events(self, data: bytes) -> list[SessionReport]:
        """Pass received bytes to the session, and send what it answers."""
        try:
            events = self.session.receive_data(data, time.monotonic())
        except RemoteProtocolError as error:
            raise RefusedError(f"the server sent nonsense: {error}") from error
        self.flush()
        return events

    def receive(self) -> bytes:
        """Received bytes; empty if there are none or the peer has closed."""
        try:
            data = self.sock.recv(262144)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self.close()
        return data

    def flush(self) -> None:
        outgoing = self.outgoing
        outgoing += self.session.bytes_to_send()
        if not outgoing or not self.is_open:
            return
        try:
            sent = self.sock.send(outgoing)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        del outgoing[:sent]

    def close(self) -> None:
        self.is_open = False
        self.sock.close()


def client(port: int, chunk_size: int = 65536, tls: bool = False) -> tuple[LoadConnection, ClientSession]:
    """A client that is about to connect."""
    session = ClientSession(APP, f"rtmp://{HOST}:{port}/{APP}", chunk_size=chunk_size, use_digest=False)
    return LoadConnection(dial(port, tls), session), session


def raise_if_refused(event: SessionReport) -> None:
    if isinstance(event, StatusReceived) and event.level == "error":
        raise RefusedError(f"refused with {event.code}: {event.description}")


def is_connected(event: SessionReport) -> bool:
    """Whether the server accepted the connection, so that streams can be requested."""
    raise_if_refused(event)
    return isinstance(event, ConnectAccepted)


def server_side(sock: socket.socket) -> tuple[LoadConnection, ServerSession]:
    """The server's end of an accepted socket."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    session = ServerSession(time.monotonic(), chunk_size=4096)
    return LoadConnection(sock, session), session
