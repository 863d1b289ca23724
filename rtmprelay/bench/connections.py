"""Sockets of the load generator, and the conversations on them."""

from __future__ import annotations

import socket
import time
from typing import Protocol

from rtmprelay.errors import RemoteProtocolError
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import ConnectAccepted, SessionEvent, StatusReceived
from rtmprelay.session.server import ServerSession

HOST = "127.0.0.1"
APP = "live"

#: Seconds that a server may take to accept.
_PATIENCE = 5.0


class RefusedError(Exception):
    """The other side does not want to."""


def dial(port: int) -> socket.socket:
    """A socket that is connected. On one machine that takes no time, unless the server accepts nobody."""
    sock = socket.socket()
    sock.settimeout(_PATIENCE)
    try:
        sock.connect((HOST, port))
    except OSError as error:
        sock.close()
        raise RefusedError(f"no connection to port {port}: {error}") from error
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Conversation(Protocol):
    """What a connection needs of its session."""

    def receive_data(self, data: bytes, now: float) -> list[SessionEvent]:
        """Bytes in, events out."""

    def bytes_to_send(self) -> bytes:
        """Bytes out."""


class Connection:
    """A socket that does not block, what waits to be sent on it, and its session."""

    def __init__(self, sock: socket.socket, session: Conversation) -> None:
        self.sock = sock
        self.session = session
        self.outgoing = bytearray()
        self.is_open = True

    def events(self, data: bytes) -> list[SessionEvent]:
        """What the bytes mean; answers are sent."""
        try:
            events = self.session.receive_data(data, time.monotonic())
        except RemoteProtocolError as error:
            raise RefusedError(f"the server sent nonsense: {error}") from error
        self.flush()
        return events

    def receive(self) -> bytes:
        """What has come; empty if nothing has, or if that was the end."""
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
        """Send what can be sent."""
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
        """The end."""
        self.is_open = False
        self.sock.close()


def client(port: int, chunk_size: int = 65536) -> tuple[Connection, ClientSession]:
    """A client that is about to connect."""
    session = ClientSession(APP, f"rtmp://{HOST}:{port}/{APP}", chunk_size=chunk_size, use_digest=False)
    return Connection(dial(port), session), session


def refuse_to_be_refused(event: SessionEvent) -> None:
    """Raise if the server said no."""
    if isinstance(event, StatusReceived) and event.level == "error":
        raise RefusedError(f"refused with {event.code}: {event.description}")


def asks_on(event: SessionEvent) -> bool:
    """Whether the server is ready to be asked for a stream."""
    refuse_to_be_refused(event)
    return isinstance(event, ConnectAccepted)


def server_side(sock: socket.socket) -> tuple[Connection, ServerSession]:
    """The server's end of an accepted socket."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    session = ServerSession(time.monotonic(), chunk_size=4096)
    return Connection(sock, session), session
