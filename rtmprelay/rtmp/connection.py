"""What every RTMP connection on a Twisted transport does, on a server and on a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Generic, TypeVar, cast
from typing import Protocol as TypingProtocol

from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime, ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.errors import LimitExceededError, RemoteProtocolError
from rtmprelay.rtmp.transport_buffers import DirectWriter, StallWatch
from rtmprelay.session.reports import SessionReport
from rtmprelay.streams.consumer import Consumer
from rtmprelay.wire.limits import ConnectionLimits

#: The longest time between two checks of a connection.
_CHECK_INTERVAL = 10.0

#: How long a connection that was closed politely may take to end.
_POLITE_CLOSE = 2.0


def _how_it_ended(reason: Failure) -> str:
    if reason.check(ConnectionDone):
        return "the peer closed it"
    if reason.type is ConnectionLost:
        return "the peer broke it off"
    return reason.getErrorMessage()


class Session(TypingProtocol):
    """What a connection needs of its session."""

    #: What `bytes_to_send` would return, in parts: empty if there is nothing to send.
    outgoing: list[bytes]

    def receive_data(self, data: bytes, now: float) -> list[SessionReport]:
        """Bytes in, reports out."""

    def bytes_to_send(self) -> bytes:
        """Bytes out."""

    def next_deadline(self) -> float | None:
        """When to call `check_deadline`."""

    def check_deadline(self, now: float) -> None:
        """Raise if the peer was too slow."""

    def forget(self) -> None:
        """The connection is gone: let go of partly received messages."""


class _Transport(TypingProtocol):
    """A transport as Twisted really makes them: it writes, consumes and can be aborted."""

    def write(self, data: bytes) -> None: ...
    def registerProducer(self, producer: IPushProducer, streaming: bool) -> None: ...  # noqa: N802
    def unregisterProducer(self) -> None: ...  # noqa: N802
    def loseConnection(self) -> None: ...  # noqa: N802
    def abortConnection(self) -> None: ...  # noqa: N802


_S = TypeVar("_S", bound=Session)


@implementer(IPushProducer)
class RtmpConnection(Protocol, Generic[_S]):
    """Moves bytes between a transport and a session, watches the time, and passes back-pressure on.

    Subclasses say what the session's reports mean and what to do when the connection opens and closes.

    Attributes:
        loss: How the connection ended, once it has.
        limit_exceeded: The limit that the peer exceeded, if that is why the connection closes.
    """

    _log = Logger()
    _writer: DirectWriter

    def __init__(
        self, session: _S, clock: IReactorTime, limits: ConnectionLimits, connection_id: str
    ) -> None:
        self.session = session
        self.connection_id = connection_id
        self.loss: Failure = connectionDone
        self.limit_exceeded: str | None = None
        self._clock = clock
        self._limits = limits
        self._stall = StallWatch()
        self._transport_full = False
        self._unread_replies = 0
        self._timer: IDelayedCall | None = None
        self._closing: str | None = None
        self._error: RemoteProtocolError | None = None

    # -- for subclasses --------------------------------------------------------------------------------------

    def opened(self) -> None:
        """The transport is there."""

    def handle(self, report: SessionReport, now: float) -> None:
        """The session reports something."""
        raise NotImplementedError

    def closed(self, reason: str) -> None:
        """The transport is gone."""

    def consumers(self) -> Iterable[Consumer]:
        """The consumers that write media to this transport."""
        return ()

    def checked(self, now: float) -> float:
        """Do what is due from time to time; the time of the next check."""
        return now + _CHECK_INTERVAL

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._closing is not None

    # -- bytes -----------------------------------------------------------------------------------------------

    @property
    def _wire(self) -> _Transport:
        return cast(_Transport, self.transport)

    @property
    def bytes_out(self) -> int:
        """How many bytes were written to the peer."""
        return self._writer.bytes_out

    @property
    def write_media(self) -> Callable[[bytes], None]:
        """The function that sends media to the peer."""
        return self._writer.write

    @override
    def connectionMade(self) -> None:
        if ITCPTransport.providedBy(self.transport):
            # A peer that has closed already has no socket to set options on.
            with suppress(OSError):
                self.transport.setTcpNoDelay(True)
                self.transport.setTcpKeepAlive(True)
        self._writer = DirectWriter(self._wire)
        self._wire.registerProducer(self, True)
        self.opened()
        self.flush()
        self._arm_timer(self.checked(self._clock.seconds()))

    @override
    def dataReceived(self, data: bytes) -> None:
        if self._closing is not None:
            return
        now = self._clock.seconds()
        try:
            for report in self.session.receive_data(data, now):
                self.handle(report, now)
                if self.is_closing:
                    return
        except Exception:
            self.handling_failed(Failure())
        else:
            self.flush()

    def handling_failed(self, failure: Failure) -> None:
        """What the peer sent could not be handled: the peer broke the rules, or there is a bug here."""
        if isinstance(failure.value, RemoteProtocolError):
            self._abort(failure.value)
        else:
            self._log.failure(
                "A bug in handling {connection}: it is closed", failure, connection=self.connection_id
            )
            self.close_now("an internal error")

    def flush(self) -> None:
        """Send what the session has to say. A peer that keeps asking but does not read is cut off."""
        data = self.session.bytes_to_send()
        if not data or self._closing is not None:
            return
        if self._transport_full:
            self._unread_replies += len(data)
            most = self._limits.unread_replies
            if self._unread_replies > most:
                self._abort(
                    LimitExceededError("unread_replies", f"over {most} bytes of answers were left unread")
                )
                return
        self._writer.write_buffered(data)

    # -- back-pressure ---------------------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        self._transport_full = True
        self._stall.transport_full(self._writer, self._clock.seconds())
        for consumer in self.consumers():
            consumer.transport_full()

    def resumeProducing(self) -> None:
        """The transport's buffer is empty."""
        self._transport_full = False
        self._unread_replies = 0
        self._stall.transport_ready()
        for consumer in list(self.consumers()):
            if self._transport_full:
                # An earlier one has filled it again: the others wait for the next time.
                return
            consumer.transport_ready()

    def stopProducing(self) -> None:
        """The transport is gone; `connectionLost` follows."""

    # -- time ------------------------------------------------------------------------------------------------

    def _arm_timer(self, due: float) -> None:
        if self.is_closing:
            # Closing has its own timer.
            return
        now = self._clock.seconds()
        times = [now + _CHECK_INTERVAL]
        for time in (due, self.session.next_deadline(), self._stall_deadline()):
            if time is not None:
                times.append(time)
        self._timer = self._clock.callLater(max(0.0, min(times) - now), self._check)

    def _stall_deadline(self) -> float | None:
        stuck_since = self._stall.stuck_since
        return None if stuck_since is None else stuck_since + self._limits.stall_timeout

    def _cancel_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _check(self) -> None:
        """Close the connection if the peer is too slow in any way."""
        self._timer = None
        now = self._clock.seconds()
        try:
            self.session.check_deadline(now)
            self._check_stall(now)
        except RemoteProtocolError as error:
            self._abort(error)
            return
        self._arm_timer(self.checked(now))

    def _check_stall(self, now: float) -> None:
        self._stall.look(self._writer, now)
        deadline = self._stall_deadline()
        if deadline is not None and now >= deadline:
            seconds = self._limits.stall_timeout
            raise LimitExceededError("stall_timeout", f"the peer took no byte for {seconds:g} s")

    # -- closing ---------------------------------------------------------------------------------------------

    def _abort(self, error: RemoteProtocolError) -> None:
        """The peer broke the rules: the connection is cut, and the reason kept for `loss`."""
        if isinstance(error, LimitExceededError):
            self.limit_exceeded = error.limit
        # Without its traceback: the frames there hold what was read, and this connection, which holds the error.
        self._error = error.with_traceback(None)
        self.close_now(str(error))

    def close_now(self, reason: str) -> None:
        """Cut the connection."""
        if self._closing is None:
            self._closing = reason
        self._cancel_timer()
        self.release_consumers()
        self._wire.abortConnection()

    def release_consumers(self) -> None:
        """The connection is about to close: nothing may be written after a goodbye."""
        for consumer in list(self.consumers()):
            consumer.detach()

    def close_politely(self, reason: str) -> None:
        """Send what there is to send, then close; a peer that does not take it in time is cut off."""
        if self._closing is not None:
            return
        self.flush()
        self._closing = reason
        self._cancel_timer()
        self.release_consumers()
        # TLS does not close while a producer is registered.
        self._wire.unregisterProducer()
        self._wire.loseConnection()
        self._timer = self._clock.callLater(_POLITE_CLOSE, self._wire.abortConnection)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._cancel_timer()
        why = self._closing or _how_it_ended(reason)
        self.loss = reason if self._error is None else Failure(self._error)
        self._closing = why
        # Partly received messages may be many megabytes, and the collector may take its time to find this connection.
        self.session.forget()
        self.closed(why)
