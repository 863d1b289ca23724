"""When a client's socket is read: not while an answer is awaited, and seldom if one read can return several frames.

A read costs more CPU than handling the few frames that it returns. Where a stream may be delayed (see
`streams.merging`), its publisher's socket is not read for that long: frames gather in the kernel at no cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    set_low_water,
)

if TYPE_CHECKING:
    from rtmprelay.rtmp.publishing import Publishing
    from rtmprelay.rtmp.server import RtmpServerProtocol

#: A read of this size or more is followed by another one at once: the peer has more to send, and its reads are large
#: already.
ENOUGH_BYTES = 49152

#: What gathers in a pause is much, and read at once, from this size on and from so many times the read before.
_LEAST_MUCH = 24576
_MUCH_MORE = 3

#: Seconds; 20 Mbit/s gather `ENOUGH_BYTES` in it. Reads of faster streams are large without a pause.
_SHORTEST_PAUSE = 0.02


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
        # When the last pause began, and the bytes that have come since.
        self._gathering_since = pace.seconds()
        self._gathered = 0
        self._bytes = 0
        # Whether the reactor does not watch the socket.
        self._unwatched = False
        # Whether the reactor watches it, and the kernel wakes it only when much has gathered.
        self._waits_for_much = False
        # Whether the next read does not wait.
        self._reads_at_once = True
        lowest = lowest_transport(transport)
        # Transports in memory have no socket in which data could gather.
        self._transport = lowest if isinstance(lowest, Connection) else None
        # TLS delivers one read in pieces: viewers would get each in a write of its own. Where nobody watches, fewer reads
        # are worth it all the same.
        self._in_pieces = ISSLTransport.providedBy(transport)
        if self._transport is not None:
            self._transport.doRead = self._readable  # type: ignore[method-assign]

    def note_read(self, size: int, pause: float, after_arrival: bool) -> None:
        """Called after a read of `size` bytes. The next read may wait for `pause` seconds.

        Args:
            after_arrival: Whether the wait begins when something has arrived, so that a lone frame is joined with those
                after it. Otherwise it begins at once, which saves a call of the reactor.
        """
        self._bytes += size
        self._gathered += size
        self._after_arrival = after_arrival
        in_pieces = self._in_pieces
        self._pause = 0.0 if in_pieces and after_arrival else pause
        self.waited = pause if self._transport is not None and not in_pieces else 0.0

    def _readable(self) -> ConnectionDone | ConnectionLost | None:
        """Called by the reactor when there is something to read."""
        assert self._transport is not None
        self._unwatched = False
        if self._waits_for_much:
            return self._read_early(self._transport)
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

    def _read_early(self, transport: Connection) -> ConnectionDone | ConnectionLost | None:
        """A keyframe has come, or the end: it waits for no pause, and neither does the rest of it."""
        self._pace.forget(self)
        self._wait_for_much(transport, 0)
        self._bytes = 0
        result = read_as_usual(transport)
        self._reads_at_once = True
        return result

    def _wait_for_much(self, transport: Connection, size: int) -> bool:
        """Let the kernel wake the reactor for so many bytes, or for each; whether it can."""
        if size or self._waits_for_much:
            self._waits_for_much = set_low_water(transport, max(size, 1)) and size > 0
        return self._waits_for_much

    def _may_wait_at_once(self) -> bool:
        self._reads_at_once = self._bytes >= ENOUGH_BYTES
        if not self._pause or self._reads_at_once or self._after_arrival:
            return False
        return self._transport is not None and not has_unsent(self._transport)

    def _wait(self) -> None:
        if self._transport is None or is_ending(self._transport):
            return
        self._pace.pause(self, self._pause if self._after_arrival else self._fitting_pause())
        # Somebody watches: a keyframe, which is many times what a pause brings, does not wait for the end of it.
        much = max(_LEAST_MUCH, _MUCH_MORE * self._bytes) if self._after_arrival else 0
        if not self._wait_for_much(self._transport, much) and not self._unwatched:
            self._unwatched = True
            self._transport.pauseProducing()

    def _fitting_pause(self) -> float:
        """A pause in which no more gathers than one read takes: a full socket would hold the publisher up."""
        now = self._pace.seconds()
        # By the time that passed: a server that is late with everything must not read more often for that.
        fits = (now - self._gathering_since) * ENOUGH_BYTES / max(self._gathered, 1)
        self._gathering_since = now
        self._gathered = 0
        return min(self._pause, max(_SHORTEST_PAUSE, fits))

    def resume(self) -> None:
        """Read what has gathered: the pause is over."""
        transport = self._transport
        if transport is None or is_ending(transport):
            # A read could find that the peer has closed, and end the connection before our last bytes are sent.
            return
        self._wait_for_much(transport, 0)
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
    """Ends the pauses of all connections of a server with one timer, and together those of which half is over."""

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self.seconds = clock.seconds
        # When each pause may end, and when it must.
        self._paused: dict[Reading, tuple[float, float]] = {}
        self._timer: IDelayedCall | None = None
        self._due = 0.0

    def pause(self, reading: Reading, seconds: float) -> None:
        """Resume this connection in so many seconds, or a little earlier."""
        now = self._clock.seconds()
        self._paused[reading] = (now + seconds / 2, now + seconds)
        self._wake_up_at(now + seconds, now)

    def _wake_up_at(self, due: float, now: float) -> None:
        if self._timer is None:
            self._due = due
            self._timer = self._clock.callLater(max(0.0, due - now), self._resume_some)
        elif due < self._due:
            self._due = due
            self._timer.reset(max(0.0, due - now))

    def forget(self, reading: Reading) -> None:
        self._paused.pop(reading, None)
        if not self._paused and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _resume_some(self) -> None:
        self._timer = None
        now = self._clock.seconds()
        paused = self._paused
        ready = [reading for reading, (earliest, _) in paused.items() if earliest <= now]
        for reading in ready:
            # What is read from one may end another.
            if paused.pop(reading, None) is None:
                continue
            try:
                reading.resume()
            except Exception:
                # Go on, or the other connections would never be read again.
                self._log.failure("A bug in reading from a publisher")
        if paused:
            self._wake_up_at(min([due for _, due in paused.values()]), now)
