"""People at the door of the server that is attacked, and what they bring."""

from __future__ import annotations

import random
import select
import socket
import time

from rtmprelay.amf import amf0
from rtmprelay.wire.chunk_writer import encode_standalone
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.messages import MessageType
from tests.hostile.conversations import HANDSHAKE, beyond_greeting, greeting, mutate
from tests.hostile.process import AttackedServer

#: What a server says to a client that may go on.
_WELCOME = b"NetConnection.Connect.Success"


def connected(server: AttackedServer) -> socket.socket:
    """A connection whose handshake and connect are over."""
    stranger = server.connect()
    stranger.sendall(greeting())
    received = b""
    while _WELCOME not in received:
        data = stranger.recv(65536)
        assert data, "the server closed the connection"
        received += data
    return stranger


def publishing(server: AttackedServer, name: str) -> socket.socket:
    """A connection that publishes, and has sent some media."""
    stranger = connected(server)
    stranger.sendall(beyond_greeting(name))
    received = b""
    while b"NetStream.Publish.Start" not in received:
        data = stranger.recv(65536)
        assert data, "the server closed the connection"
        received += data
    return stranger


def behave_oddly(server: AttackedServer, original: bytes, chance: random.Random) -> None:
    """One mutated conversation. Whether the server cuts us off does not matter.

    Most of them are connected first: what is wrong after that gets further. Some leave without reading.
    """
    listens = chance.random() < 0.7
    try:
        if chance.random() < 0.25:
            first = 0 if chance.random() < 0.5 else HANDSHAKE
            stranger, odd = server.connect(), mutate(original, chance, first)
        else:
            stranger, odd = connected(server), mutate(original[len(greeting()) :], chance)
        with stranger:
            middle = chance.randrange(len(odd) + 1)
            stranger.sendall(odd[:middle])
            stranger.sendall(odd[middle:])
            if listens:
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(65536):
                    pass
    except OSError:
        return


def is_cut_off(stranger: socket.socket, seconds: float = 20.0) -> bool:
    """Whether the server ends the connection; what it says before does not matter."""
    deadline = time.monotonic() + seconds
    stranger.settimeout(seconds)
    try:
        while time.monotonic() < deadline:
            if not stranger.recv(65536):
                return True
    except TimeoutError:
        return False
    except OSError:
        return True
    return False


def send_until_cut_off(stranger: socket.socket, data: bytes, times: int, read: bool) -> bool:
    """Send data again and again; whether the server closed the connection.

    Args:
        read: Whether to read what the server answers meanwhile.
    """
    try:
        for _ in range(times):
            stranger.sendall(data)
            while read and select.select([stranger], [], [], 0)[0]:
                if not stranger.recv(65536):
                    return True
    except OSError:
        return True
    return is_cut_off(stranger)


# -- what they bring -----------------------------------------------------------------------------------------


def message(
    kind: MessageType, payload: bytes, stream_id: int = 0, chunk_stream: int = 3, chunk_size: int = 128
) -> bytes:
    """A whole message. After the greeting chunks are larger, which matters for long ones."""
    return encode_standalone(RawMessage(kind, 0, stream_id, payload), chunk_stream, chunk_size)


def command(name: str, *values: object, stream_id: int = 0) -> bytes:
    """A command."""
    return message(MessageType.COMMAND_AMF0, amf0.encode(name, *values), stream_id)  # type: ignore[arg-type]


def control(kind: MessageType, payload: bytes) -> bytes:
    """A control message."""
    return message(kind, payload, chunk_stream=2)


def announced(chunk_stream: int, length: int, chunk_size: int = 128) -> bytes:
    """The first chunk of a message that claims to be long."""
    header = bytes([chunk_stream]) + bytes(3) + length.to_bytes(3) + b"\x09" + (1).to_bytes(4, "little")
    return header + bytes(chunk_size)
