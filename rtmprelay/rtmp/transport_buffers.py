"""The buffers of Twisted's transports: a shorter way past them, what waits in them, and whether the peer takes it.

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


class DirectWriter:
    """Writes to a transport, and gives the bytes to the kernel now if nothing waits before them.

    An ordinary write copies into a buffer, waits for the reactor to say that the socket is ready, and sends then. For
    most frames the socket is ready already: sending at once costs a third of that. What the kernel does not take goes
    the ordinary way, and so does everything on transports other than plain sockets.

    Attributes:
        bytes_out: Everything that was ever written here.
    """

    __slots__ = ("_socket_transport", "bytes_out", "transport")

    def __init__(self, transport: Writable) -> None:
        self.transport = transport
        self.bytes_out = 0
        self._socket_transport = transport if isinstance(transport, Connection) else None

    def write(self, data: bytes) -> None:
        """Write media. This is the frame path."""
        self.bytes_out += len(data)
        transport = self._socket_transport
        if (
            transport is not None
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
        self.transport.write(data)

    def write_buffered(self, data: bytes) -> None:
        """Write the ordinary way."""
        self.bytes_out += len(data)
        self.transport.write(data)


def lowest_transport(transport: object) -> object:
    """The transport that has the socket."""
    while isinstance(transport, ProtocolWrapper):
        # TLS and the like pass everything on at once; it waits in the transport below.
        transport = transport.transport
    return transport


def unsent_bytes(transport: object) -> int | None:
    """How many written bytes the kernel has not taken yet; None if this kind of transport does not say."""
    transport = lowest_transport(transport)
    if isinstance(transport, FileDescriptor):
        return len(transport.dataBuffer) - transport.offset + transport._tempDataLen
    return None


def untaken_bytes(transport: object) -> int | None:
    """How many written bytes the peer has not acknowledged, here or in the kernel; None if that is not known.

    The kernel takes megabytes from us at a time; what the peer acknowledges flows evenly.
    """
    unsent = unsent_bytes(transport)
    if unsent is None:
        return None
    try:
        waiting = fcntl.ioctl(lowest_transport(transport).fileno(), termios.TIOCOUTQ, bytes(4))  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):
        # Closed just now, or a system that does not say: then what is here has to do.
        return unsent
    return unsent + int.from_bytes(waiting, sys.byteorder)


class StallWatch:
    """Knows since when a peer has taken no byte although some wait for it.

    Judged by progress, not by the socket being open.
    """

    def __init__(self) -> None:
        #: The time of the last progress, while bytes wait; None while all is well.
        self.stuck_since: float | None = None
        self._taken: int | None = None

    def transport_full(self, writer: DirectWriter, now: float) -> None:
        """The transport's buffer has filled up."""
        if self.stuck_since is None:
            self.stuck_since = now
            self._taken = _taken_bytes(writer)

    def transport_ready(self) -> None:
        """The transport's buffer is empty."""
        self.stuck_since = None

    def look(self, writer: DirectWriter, now: float) -> None:
        """Compare with the last look: if the peer has taken more since, that is progress."""
        if self.stuck_since is None:
            return
        taken = _taken_bytes(writer)
        if taken is not None and self._taken is not None and taken > self._taken:
            self.stuck_since = now
        self._taken = taken


def _taken_bytes(writer: DirectWriter) -> int | None:
    untaken = untaken_bytes(writer.transport)
    return None if untaken is None else writer.bytes_out - untaken


# -- reading -------------------------------------------------------------------------------------------------


def is_ending(transport: Connection) -> bool:
    """Whether our side is closing the connection: then the reactor does not read from it any more."""
    return bool(transport.disconnecting or transport._aborting)


def has_unsent(transport: Connection) -> bool:
    """Whether the reactor waits for the socket to take more."""
    return bool(transport._tempDataLen or transport.dataBuffer)


def read_as_usual(transport: Connection) -> ConnectionDone | ConnectionLost | None:
    """Read as a transport of this kind does, although its `doRead` was replaced."""
    result: ConnectionDone | ConnectionLost | None = type(transport).doRead(transport)
    return result


def read_now(transport: Connection) -> None:
    """Read what has arrived, as the reactor does when the socket is readable."""
    try:
        why: Exception | None = read_as_usual(transport)
    except Exception as error:
        _log.failure("A bug in reading from a connection: it is closed")
        why = error
    if why is not None:
        cast(Any, transport.reactor)._disconnectSelectable(transport, why, True)
