"""When a client's socket is read: not while an answer is awaited, and seldom if one read can return several frames.

A read costs more CPU than handling the few frames that it returns. Where a stream may be delayed (see
`streams.merging`), its publisher's socket is not read for that long: frames gather in the kernel at no cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IDelayedCall, IReactorTime, ISSLTransport
from twisted.internet.tcp import Connection
from twisted.logger import Logger

from rtmprelay.rtmp.transport_buffers import (
    has_unsent,
    is_ending,
    lowest_transport,
    read_as_usual,
    read_now,
)

if TYPE_CHECKING:
    from rtmprelay.rtmp.publishing import Publishing
    from rtmprelay.rtmp.server import RtmpServerProtocol

#: A read of this size or more is followed by another one at once: the peer has more to send, and its reads are large
#: already.
ENOUGH_BYTES = 49152


class UnreadSocket:
    """Leaves the socket of a client unread while the answer to its `connect` or `publish` is awaited.

    The client may send media at once. It waits in the kernel then, costs nothing here, and is all there if the answer is
    yes. The session holds what arrives nevertheless, within its limits.
    """

    __slots__ = ("_connection", "_publishing", "_transport")

    def __init__(self, connection: RtmpServerProtocol, publishing: Publishing) -> None:
        self._connection = connection
        self._publishing = publishing
        # The transport, while it is not read.
        self._transport: Any = None

    def pause_for(self, request_id: int) -> None:
        """Do not read until this request is answered, unless the connection publishes already."""
        connection = self._connection
        awaited = connection.session.requests.awaited == request_id
        if awaited and not self._publishing.publications and self._transport is None:
            self._transport = connection.transport
            self._transport.pauseProducing()

    def resume(self) -> None:
        """A request has been answered. Take what is held now, unless `dataReceived` is about to do that."""
        connection = self._connection
        transport, self._transport = self._transport, None
        if transport is None or connection.is_closing:
            return
        if connection.session.has_held_data:
            connection.dataReceived(b"")
        if not connection.is_closing:
            transport.resumeProducing()


class Reading:
    """Decides when one connection is read, in place of the transport's `doRead`, which the reactor calls.

    Attributes:
        waited: How many seconds the data of this read may have waited in the socket.
    """

    def __init__(self, pace: ReadingPace, transport: object) -> None:
        self.waited = 0.0
        self._pace = pace
        self._pause = 0.0
        self._after_arrival = True
        self._bytes = 0
        # Whether the reactor does not watch the socket.
        self._unwatched = False
        # Whether the next read does not wait.
        self._reads_at_once = True
        lowest = lowest_transport(transport)
        # Transports in memory have no socket in which data could gather. TLS delivers one read in pieces, so waiting
        # would gain nothing.
        gathers = isinstance(lowest, Connection) and not ISSLTransport.providedBy(transport)
        self._transport = cast(Connection, lowest) if gathers else None
        if self._transport is not None:
            self._transport.doRead = self._readable  # type: ignore[method-assign]

    def note_read(self, size: int, pause: float, after_arrival: bool) -> None:
        """Called after a read of `size` bytes. The next read may wait for `pause` seconds.

        Args:
            after_arrival: Whether the wait begins when something has arrived, so that a lone frame is joined with those
                after it. Otherwise it begins at once, which saves a call of the reactor.
        """
        self._bytes += size
        self._after_arrival = after_arrival
        self._pause = pause
        self.waited = pause if self._transport is not None else 0.0

    def _readable(self) -> ConnectionDone | ConnectionLost | None:
        """Called by the reactor when there is something to read."""
        assert self._transport is not None
        self._unwatched = False
        # While something is unsent the reactor watches the socket for writing. It would notice that the peer has closed
        # and end the connection before the gathered data is read: the last frames and the peer's goodbye.
        if self._pause and not self._reads_at_once and not has_unsent(self._transport):
            self._wait()
            return None
        self._bytes = 0
        result = read_as_usual(self._transport)
        if result is None and self._may_wait_at_once():
            self._wait()
        return result

    def _may_wait_at_once(self) -> bool:
        self._reads_at_once = self._bytes >= ENOUGH_BYTES
        if not self._pause or self._reads_at_once or self._after_arrival:
            return False
        return self._transport is not None and not has_unsent(self._transport)

    def _wait(self) -> None:
        if self._transport is None or is_ending(self._transport):
            return
        self._pace.pause(self, self._pause)
        if not self._unwatched:
            self._unwatched = True
            self._transport.pauseProducing()

    def resume(self) -> None:
        """Read what has gathered: the pause is over."""
        transport = self._transport
        if transport is None or is_ending(transport):
            # A read could find that the peer has closed, and end the connection before our last bytes are sent.
            return
        self._bytes = 0
        # The read may find the end of the connection. Then resuming does nothing.
        read_now(transport)
        if self._may_wait_at_once() and self._bytes:
            self._wait()
        else:
            self._unwatched = False
            transport.resumeProducing()

    def ended(self) -> None:
        """Give the transport its own `doRead` back: the connection is gone."""
        self._pace.forget(self)
        if self._transport is not None:
            vars(self._transport).pop("doRead", None)
            self._transport = None


class ReadingPace:
    """Ends the pauses of all connections of a server together, with one timer."""

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._paused: dict[Reading, None] = {}
        self._timer: IDelayedCall | None = None
        self._due = 0.0

    def pause(self, reading: Reading, seconds: float) -> None:
        """Resume this connection in so many seconds, or a little earlier."""
        self._paused[reading] = None
        due = self._clock.seconds() + seconds
        if self._timer is None:
            self._due = due
            self._timer = self._clock.callLater(seconds, self._resume_all)
        elif due < self._due:
            self._due = due
            self._timer.reset(seconds)

    def forget(self, reading: Reading) -> None:
        self._paused.pop(reading, None)
        if not self._paused and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _resume_all(self) -> None:
        self._timer = None
        paused, self._paused = self._paused, {}
        for reading in paused:
            try:
                reading.resume()
            except Exception:
                # Go on, or the other connections would never be read again.
                self._log.failure("A bug in reading from a publisher")
