"""A look inside Twisted's transports: what is still here, and a shorter way out.

Everything that depends on how Twisted keeps its buffers is in this file.
"""

from __future__ import annotations

import fcntl
import sys
import termios
from typing import Any, Protocol, cast

from twisted.internet.abstract import FileDescriptor
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.tcp import Connection
from twisted.logger import Logger
from twisted.protocols.policies import ProtocolWrapper

_log = Logger()


class Writable(Protocol):
    """Any transport."""

    def write(self, data: bytes) -> None:
        """Take bytes to send."""


def lowest_transport(transport: object) -> object:
    """The transport that has the socket."""
    while isinstance(transport, ProtocolWrapper):
        # TLS and the like hand on what they are given at once; it waits in the transport below.
        transport = transport.transport
    return transport


def unsent_bytes(transport: object) -> int | None:
    """How many written bytes the kernel has not taken yet; None if this kind of transport does not tell."""
    transport = lowest_transport(transport)
    if isinstance(transport, FileDescriptor):
        return len(transport.dataBuffer) - transport.offset + transport._tempDataLen
    return None


def untaken_bytes(transport: object) -> int | None:
    """How many written bytes the peer has not acknowledged, here or in the kernel; None if that is not known.

    The kernel takes from us in lumps of megabytes; what the peer acknowledges flows evenly.
    """
    unsent = unsent_bytes(transport)
    if unsent is None:
        return None
    try:
        waiting = fcntl.ioctl(lowest_transport(transport).fileno(), termios.TIOCOUTQ, bytes(4))  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):
        # Closed just now, or a system that does not tell: then what is here has to do.
        return unsent
    return unsent + int.from_bytes(waiting, sys.byteorder)


def write_at_once(transport: Writable, data: bytes) -> None:
    """Write, and give the bytes to the kernel now if nothing waits before them.

    An ordinary write copies into a buffer, waits for the reactor to say that the socket is ready, and sends then.
    For most frames the socket is ready already: sending at once costs a third of that. What the kernel does not
    take goes the ordinary way, and so does everything on transports other than plain sockets.
    """
    if (
        isinstance(transport, Connection)
        and transport.offset == len(transport.dataBuffer)
        and not transport._tempDataLen
        and transport.connected
        and not transport.disconnecting
        and not transport.TLS
    ):
        try:
            sent = transport.socket.send(data)
        except OSError:
            # Full, or lost: the ordinary way finds out, and tells the protocol.
            sent = 0
        if sent == len(data):
            return
        if sent:
            data = data[sent:]
    transport.write(data)


def is_ending(transport: Connection) -> bool:
    """Whether the connection is being closed from our side: then the reactor does not read from it any more."""
    return bool(transport.disconnecting or transport._aborting)


def has_unsent(transport: Connection) -> bool:
    """Whether the reactor waits for the socket to take more."""
    return bool(transport._tempDataLen or transport.dataBuffer)


def read_as_usual(transport: Connection) -> ConnectionDone | ConnectionLost | None:
    """Read as a transport of this kind does, although its `doRead` was replaced."""
    result: ConnectionDone | ConnectionLost | None = type(transport).doRead(transport)
    return result


def read_now(transport: Connection) -> None:
    """Read what has come, as the reactor does when it is told that something has."""
    try:
        why: Exception | None = read_as_usual(transport)
    except Exception as error:
        _log.failure("A bug in reading from a connection: it is closed")
        why = error
    if why is not None:
        cast(Any, transport.reactor)._disconnectSelectable(transport, why, True)
