"""The part of an RTMP connection on a Twisted transport that servers and clients share."""

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

#: Seconds between two checks of a connection, at most.
_CHECK_INTERVAL = 10.0

#: Seconds that a polite close may take before the connection is aborted.
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
        """Free the memory of unfinished messages: the connection is gone."""


class _Transport(TypingProtocol):
    """The methods of several Twisted interfaces that every transport of a connection has."""

    def write(self, data: bytes) -> None: ...
    def registerProducer(self, producer: IPushProducer, streaming: bool) -> None: ...  # noqa: N802
    def unregisterProducer(self) -> None: ...  # noqa: N802
    def loseConnection(self) -> None: ...  # noqa: N802
    def abortConnection(self) -> None: ...  # noqa: N802


_S = TypeVar("_S", bound=Session)


@implementer(IPushProducer)
class RtmpConnection(Protocol, Generic[_S]):
    """Moves bytes between a transport and a session, enforces deadlines, and passes back-pressure to the consumers.

    Subclasses act on the reports of the session, and on the beginning and the end of the connection.

    Attributes:
        loss: Why the connection ended; meaningful after the end.
        limit_exceeded: The limit that the peer exceeded, if the connection closes for that.
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
        """Called when the transport is there."""

    def handle(self, report: SessionReport, now: float) -> None:
        """Act on a report of the session."""
        raise NotImplementedError

    def closed(self, reason: str) -> None:
        """Called when the transport is gone."""

    def consumers(self) -> Iterable[Consumer]:
        """The consumers that write media to this transport."""
        return ()

    def do_due_work(self, now: float) -> float:
        """Do what is due from time to time. Returns the time at which something is due again."""
        return now + _CHECK_INTERVAL

    def most_unread_replies(self) -> tuple[str, int]:
        """How many bytes of our answers the peer may leave unread now, with the name of that limit."""
        return "unread_replies", self._limits.unread_replies

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closed or closing."""
        return self._closing is not None

    # -- bytes -----------------------------------------------------------------------------------------------

    @property
    def _wire(self) -> _Transport:
        return cast(_Transport, self.transport)

    @property
    def bytes_out(self) -> int:
        return self._writer.bytes_out

    @property
    def write_media(self) -> Callable[[bytes], None]:
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
        self._arm_timer(self.do_due_work(self._clock.seconds()))

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
        """Close the connection: the peer broke the protocol, or there is a bug here, which is logged."""
        if isinstance(failure.value, RemoteProtocolError):
            self._abort(failure.value)
        else:
            self._log.failure(
                "A bug in handling {connection}: it is closed", failure, connection=self.connection_id
            )
            self.close_now("an internal error")

    def flush(self) -> None:
        """Send what the session has queued. A peer that sends requests but does not read the answers is cut off."""
        data = self.session.bytes_to_send()
        if not data or self._closing is not None:
            return
        if self._transport_full:
            self._unread_replies += len(data)
            limit, most = self.most_unread_replies()
            if self._unread_replies > most:
                self._abort(LimitExceededError(limit, f"over {most} bytes of answers were left unread"))
                return
        self._writer.write_buffered(data)

    # -- back-pressure ---------------------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        self._transport_full = True
        self._writer.transport_full()
        self._stall.transport_full(self._writer, self._clock.seconds())
        for consumer in self.consumers():
            consumer.transport_full()

    def resumeProducing(self) -> None:
        self._transport_full = False
        self._stall.transport_ready()
        if not self._writer.transport_ready():
            # The rest of a large frame has filled it again.
            return
        self._unread_replies = 0
        for consumer in list(self.consumers()):
            if self._transport_full:
                # An earlier consumer has filled it again: the others wait until it is empty the next time.
                return
            consumer.transport_ready()

    def stopProducing(self) -> None:
        """Do nothing: `connectionLost` follows."""

    # -- time ------------------------------------------------------------------------------------------------

    def _arm_timer(self, due: float) -> None:
        if self.is_closing:
            # `close_politely` has set its own timer.
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
        """Close the connection if the peer has missed a deadline."""
        self._timer = None
        now = self._clock.seconds()
        try:
            self.session.check_deadline(now)
            self._check_stall(now)
        except RemoteProtocolError as error:
            self._abort(error)
            return
        self._arm_timer(self.do_due_work(now))

    def _check_stall(self, now: float) -> None:
        self._stall.look(self._writer, now)
        deadline = self._stall_deadline()
        if deadline is not None and now >= deadline:
            seconds = self._limits.stall_timeout
            raise LimitExceededError("stall_timeout", f"the peer took no byte for {seconds:g} s")

    # -- closing ---------------------------------------------------------------------------------------------

    def _abort(self, error: RemoteProtocolError) -> None:
        """Cut the connection because the peer broke the protocol, and keep the error for `loss`."""
        if isinstance(error, LimitExceededError):
            self.limit_exceeded = error.limit
        # Without its traceback, whose frames refer to the data that was read and to this connection: a cycle.
        self._error = error.with_traceback(None)
        self.close_now(str(error))

    def close_now(self, reason: str) -> None:
        """Close at once, without sending what is queued."""
        if self._closing is None:
            self._closing = reason
        self._cancel_timer()
        self.release_consumers()
        self._wire.abortConnection()

    def release_consumers(self) -> None:
        """Detach the consumers before the connection closes: no media may follow the last message."""
        for consumer in list(self.consumers()):
            consumer.detach()

    def close_politely(self, reason: str) -> None:
        """Send what is queued, then close. A peer that does not read it in time is cut off."""
        if self._closing is not None:
            return
        self.flush()
        self._closing = reason
        self._cancel_timer()
        self.release_consumers()
        # TLS does not close while a producer is registered.
        self._wire.unregisterProducer()
        self._writer.finish()
        self._wire.loseConnection()
        self._timer = self._clock.callLater(_POLITE_CLOSE, self._wire.abortConnection)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._cancel_timer()
        why = self._closing or _how_it_ended(reason)
        self.loss = reason if self._error is None else Failure(self._error)
        self._closing = why
        # Unfinished messages may be many megabytes, and the garbage collector may find this connection late.
        self.session.forget()
        self.closed(why)
