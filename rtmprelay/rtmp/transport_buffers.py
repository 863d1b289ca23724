"""The buffers of Twisted's transports: writing past them, their fill, and whether the peer reads.

This is the only module that uses private attributes of transports and of their TLS.
"""

from __future__ import annotations

import fcntl
import socket
import sys
import termios
from collections import deque
from typing import Any, Protocol, TypeGuard, cast

from OpenSSL import SSL
from twisted.internet.abstract import FileDescriptor
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.tcp import Connection
from twisted.logger import Logger
from twisted.protocols.policies import ProtocolWrapper
from twisted.protocols.tls import BufferingTLSTransport

_log = Logger()

#: A transport gets this much at a time of what the kernel refuses: it copies everything, for each peer.
_PIECE = 65536

#: The most that one record of TLS holds, and more than enough room for what is around it.
_RECORD = 16384
_RECORD_EXTRA = 4096


class Writable(Protocol):
    """Any transport."""

    def write(self, data: bytes) -> None: ...


class DirectWriter:
    """Writes to a transport; sends to the socket at once if the transport's buffer is empty.

    `transport.write` copies into a buffer, waits until the reactor finds the socket writable, and sends then. For most
    frames the socket is writable already, and sending at once costs a third of that. Bytes that the kernel does not
    take go through `transport.write`, and so does everything on transports other than plain sockets.

    A transport copies what it cannot send. So it gets a large frame in pieces, and the rest stays here as it is: a
    keyframe of 2 MB costs 2 MB for all stalled players together, not for each of them. The owner reports when the
    transport is full and when it is ready again; without that, the transport gets everything at once.

    Attributes:
        bytes_out: All bytes that were written.
    """

    __slots__ = ("_is_full", "_rest", "_socket_transport", "_tls_transport", "bytes_out", "transport")

    def __init__(self, transport: Writable) -> None:
        self.transport = transport
        self.bytes_out = 0
        self._socket_transport = transport if isinstance(transport, Connection) else None
        self._tls_transport = transport if is_tls_over_socket(transport) else None
        self._is_full = False
        # Views of bytes that other peers share, in the order in which the transport gets them.
        self._rest: deque[memoryview] = deque()

    @property
    def bytes_kept(self) -> int:
        """How many bytes were written here that the transport has not been given yet."""
        return sum(map(len, self._rest))

    def write(self, data: bytes | memoryview) -> None:
        """Write media. This is the frame path."""
        self.bytes_out += len(data)
        transport = self._socket_transport
        if (
            transport is not None
            and not self._rest
            and transport.offset == len(transport.dataBuffer)
            and not transport._tempDataLen
            and transport.connected
            and not transport.disconnecting
            and not transport.TLS
        ):
            try:
                sent = transport.socket.send(data)
            except OSError:
                # The socket is full or lost: `transport.write` finds out which, and notifies the protocol.
                sent = 0
            if sent == len(data):
                return
            if sent:
                self._hand_over(memoryview(data)[sent:])
                return
        elif self._tls_transport is not None and not self._rest and not self._is_full:
            done = encrypt_and_send(self._tls_transport, data)
            if done == len(data):
                return
            data = memoryview(data)[done:]
        if self._rest or len(data) > _PIECE:
            self._hand_over(memoryview(data))
        else:
            self.transport.write(bytes(data))

    def write_buffered(self, data: bytes) -> None:
        """Write through the transport's buffer."""
        self.bytes_out += len(data)
        if self._rest or len(data) > _PIECE:
            self._hand_over(memoryview(data))
        else:
            self.transport.write(data)

    def _hand_over(self, data: memoryview) -> None:
        self._rest.append(data)
        self._hand_over_rest()

    def _hand_over_rest(self) -> None:
        """Give the transport one piece after the other until it is full."""
        rest = self._rest
        while rest and not self._is_full:
            data = rest.popleft()
            if len(data) > _PIECE:
                rest.appendleft(data[_PIECE:])
                data = data[:_PIECE]
            self.transport.write(bytes(data))

    def transport_full(self) -> None:
        """The transport's buffer is full."""
        self._is_full = True

    def transport_ready(self) -> bool:
        """The transport's buffer is empty. Returns whether it still has room after it got the rest."""
        self._is_full = False
        self._hand_over_rest()
        return not self._is_full

    def finish(self) -> None:
        """Nothing more will be written: the transport gets everything, even if it is full."""
        rest, self._rest = self._rest, deque()
        for data in rest:
            self.transport.write(bytes(data))


def is_tls_over_socket(transport: object) -> TypeGuard[BufferingTLSTransport]:
    """Whether this is Twisted's TLS with nothing but a socket below it."""
    return isinstance(transport, BufferingTLSTransport) and isinstance(transport.transport, Connection)


def encrypt_and_send(transport: BufferingTLSTransport, data: bytes | memoryview) -> int:
    """Encrypt and send for as long as nothing waits and the kernel takes everything. The result says how much was taken.

    Twisted's TLS makes a timer for each write, joins and cuts it, hands over one record after the other, and has the
    reactor watch the socket until they are sent: 30 microseconds for 13 kB and 62 for 40 kB. This takes 18 and 27, of
    which 8 and 9 are the kernel's send, and most of the rest is the encryption.
    """
    below = cast(Connection, transport.transport)
    connection: Any = transport._tlsConnection
    # What was written before comes first: while shaking hands, for a moment in Twisted's own way, or what a peer leaves.
    if (
        not transport._handshakeDone
        or transport._lostTLSConnection
        or transport.disconnecting
        or transport._appSendBuffer
        or getattr(transport._aggregator, "_buffer", True)
        or has_unsent(below)
        or not below.connected
        or below.disconnecting
    ):
        return 0
    plain = memoryview(data)
    done = 0
    while done < len(plain):
        # A piece at a time: what is encrypted can be sent to this peer only, and is kept if the kernel refuses it.
        records = []
        for begin in range(done, min(done + _PIECE, len(plain)), _RECORD):
            try:
                done += connection.send(plain[begin : begin + _RECORD])
            except SSL.Error:
                # It waits for something or is broken: the transport finds out which when it gets the rest.
                break
            # After each record, or a buffer of the largest write would stay with each peer.
            records.append(connection.bio_read(_RECORD + _RECORD_EXTRA))
        if not records:
            return done
        encrypted = records[0] if len(records) == 1 else b"".join(records)
        try:
            sent = below.socket.send(encrypted)
        except OSError:
            # The socket is full or lost: the transport finds out which, and tells the protocol.
            sent = 0
        if sent < len(encrypted):
            below.write(encrypted[sent:])
            return done
    return done


def lowest_transport(transport: object) -> object:
    """The transport that has the socket."""
    while isinstance(transport, ProtocolWrapper):
        # TLS and the like pass everything on at once: it waits in the transport below.
        transport = transport.transport
    return transport


def unsent_bytes(transport: object) -> int | None:
    """How many written bytes the kernel has not taken yet; None if the transport does not know."""
    transport = lowest_transport(transport)
    if isinstance(transport, FileDescriptor):
        return len(transport.dataBuffer) - transport.offset + transport._tempDataLen
    return None


def untaken_bytes(transport: object) -> int | None:
    """How many written bytes the peer has not acknowledged, here or in the kernel; None if that is not known.

    This shows progress more evenly than `unsent_bytes`: the kernel takes megabytes at a time.
    """
    unsent = unsent_bytes(transport)
    if unsent is None:
        return None
    try:
        waiting = fcntl.ioctl(lowest_transport(transport).fileno(), termios.TIOCOUTQ, bytes(4))  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):
        # The socket has just been closed, or the system does not know.
        return unsent
    return unsent + int.from_bytes(waiting, sys.byteorder)


class StallWatch:
    """Measures since when a peer has taken no byte although some wait for it."""

    def __init__(self) -> None:
        #: The time of the last progress while bytes wait; None while none wait.
        self.stuck_since: float | None = None
        self._taken: int | None = None

    def transport_full(self, writer: DirectWriter, now: float) -> None:
        if self.stuck_since is None:
            self.stuck_since = now
            self._taken = _taken_bytes(writer)

    def transport_ready(self) -> None:
        self.stuck_since = None

    def look(self, writer: DirectWriter, now: float) -> None:
        """Note the time if the peer has taken bytes since the last call."""
        if self.stuck_since is None:
            return
        taken = _taken_bytes(writer)
        if taken is not None and self._taken is not None and taken > self._taken:
            self.stuck_since = now
        self._taken = taken


def _taken_bytes(writer: DirectWriter) -> int | None:
    untaken = untaken_bytes(writer.transport)
    return None if untaken is None else writer.bytes_out - writer.bytes_kept - untaken


# -- reading -------------------------------------------------------------------------------------------------


def is_ending(transport: Connection) -> bool:
    """Whether this side is closing the connection: then the reactor does not read from it any more."""
    return bool(transport.disconnecting or transport._aborting)


def has_unsent(transport: Connection) -> bool:
    """Whether the reactor waits for the socket to become writable."""
    return bool(transport._tempDataLen or transport.dataBuffer)


def read_as_usual(transport: Connection) -> ConnectionDone | ConnectionLost | None:
    """Call the `doRead` of the transport's class, although the instance has another one."""
    result: ConnectionDone | ConnectionLost | None = type(transport).doRead(transport)
    return result


def read_now(transport: Connection) -> None:
    """Read what has arrived, and handle the end of the connection as the reactor does."""
    try:
        why: Exception | None = read_as_usual(transport)
    except Exception as error:
        _log.failure("A bug in reading from a connection: it is closed")
        why = error
    if why is not None:
        cast(Any, transport.reactor)._disconnectSelectable(transport, why, True)


def set_low_water(transport: Connection, size: int) -> bool:
    """Let the kernel report a socket as readable only when so many bytes are there, or the end. Whether it can.

    A read takes what is there all the same.
    """
    sock = transport.socket
    # Linux looks at it for TCP alone.
    if sys.platform != "linux" or sock.family == socket.AF_UNIX:
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
    except OSError:
        return False
    return True
