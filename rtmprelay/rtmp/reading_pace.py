"""Leaves the sockets of publishers to fill for a moment, so that one read takes several frames.

A read costs more than the few frames that it takes. Where a stream may wait (see `streams.merging`), its publisher's
socket is left alone for that long: what arrives meanwhile gathers in the kernel, which costs nothing.
"""

from __future__ import annotations

from typing import cast

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

#: A peer that sends so much at once has more to send: its reads are large already, and waiting would only slow it down.
ENOUGH_BYTES = 49152


class Reading:
    """When one connection is read. It stands between the reactor and the transport.

    Attributes:
        waited: How many seconds what is read now may have been left in the socket.
    """

    def __init__(self, pace: ReadingPace, transport: object) -> None:
        self.waited = 0.0
        self._pace = pace
        self._pause = 0.0
        self._after_arrival = True
        self._bytes = 0
        # Whether the reactor was told not to look.
        self._unwatched = False
        # Whether the next read is not to wait.
        self._open = True
        lowest = lowest_transport(transport)
        # Transports in memory have no socket in which anything could gather. TLS passes on piece by piece what was read
        # at once, so nothing would be gained.
        gathers = isinstance(lowest, Connection) and not ISSLTransport.providedBy(transport)
        self._transport = cast(Connection, lowest) if gathers else None
        if self._transport is not None:
            self._transport.doRead = self._readable  # type: ignore[method-assign]

    def took(self, size: int, pause: float, after_arrival: bool) -> None:
        """A read brought so many bytes; the next one may wait for `pause` seconds.

        Args:
            after_arrival: Whether the wait begins when something has arrived, so that a lone frame is joined with those
                after it; or at once, which saves the look whether something has arrived.
        """
        self._bytes += size
        self._after_arrival = after_arrival
        self._pause = pause
        self.waited = pause if self._transport is not None else 0.0

    def _readable(self) -> ConnectionDone | ConnectionLost | None:
        """The reactor says that there is something to read."""
        assert self._transport is not None
        self._unwatched = False
        # While something is unsent the reactor goes on looking at the socket. It would notice that the peer has closed,
        # and end the connection before what has gathered is read: the last frames, and the peer's goodbye.
        if self._pause and not self._open and not has_unsent(self._transport):
            self._wait()
            return None
        self._bytes = 0
        result = read_as_usual(self._transport)
        if result is None and self._may_wait_at_once():
            self._wait()
        return result

    def _may_wait_at_once(self) -> bool:
        self._open = self._bytes >= ENOUGH_BYTES
        if not self._pause or self._open or self._after_arrival:
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
        """The pause is over: read what has gathered."""
        transport = self._transport
        if transport is None or is_ending(transport):
            # What this side still has to send is not cut short because the peer has closed already.
            return
        self._bytes = 0
        # This may be the end; then nothing is left to wait for, and resuming does nothing.
        read_now(transport)
        if self._may_wait_at_once() and self._bytes:
            self._wait()
        else:
            self._unwatched = False
            transport.resumeProducing()

    def ended(self) -> None:
        """The connection is gone."""
        self._pace.forget(self)
        if self._transport is not None:
            vars(self._transport).pop("doRead", None)
            self._transport = None


class ReadingPace:
    """Ends the pauses of all connections of a server together: one timer, and one look at all sockets."""

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._paused: dict[Reading, None] = {}
        self._timer: IDelayedCall | None = None
        self._due = 0.0

    def pause(self, reading: Reading, seconds: float) -> None:
        """Let this connection be read again in so many seconds, or a little less."""
        self._paused[reading] = None
        due = self._clock.seconds() + seconds
        if self._timer is None:
            self._due = due
            self._timer = self._clock.callLater(seconds, self._resume_all)
        elif due < self._due:
            self._due = due
            self._timer.reset(seconds)

    def forget(self, reading: Reading) -> None:
        """The connection is gone: there is nothing to read."""
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
                # Without this the others would never be read again.
                self._log.failure("A bug in reading from a publisher")
