"""One client of the event stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from zope.interface import implementer

from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.settings import HttpSettings


class Round:
    """What all readers are sent next: events, and perhaps how everything is.

    Args:
        first: How many events there were before these.
    """

    def __init__(self, first: int, events: Sequence[bytes], status: bytes) -> None:
        self._first = first
        self._events = events
        self._all = b"".join(events)
        self.last = first + len(events)
        self.status = status

    def events_after(self, heard: int) -> bytes:
        """The events that one who has heard so many does not know."""
        return self._all if heard <= self._first else b"".join(self._events[heard - self._first :])


def set_headers(request: RelayRequest) -> None:
    """Say what comes: events, without an end."""
    request.setHeader(b"Content-Type", b"text/event-stream; charset=utf-8")
    request.setHeader(b"Cache-Control", b"no-store")
    # Else nginx would collect events before it passes them on.
    request.setHeader(b"X-Accel-Buffering", b"no")
    request.site.sharing.allow(request)


@implementer(IPushProducer)
class EventReader:
    """Writes events to a client. One that does not read is sent away; browsers come back by themselves."""

    def __init__(self, request: RelayRequest, settings: HttpSettings, clock: IReactorTime) -> None:
        self._request = request
        self._settings = settings
        self._clock = clock
        self._full = False
        self._unread = 0
        self._patience: IDelayedCall | None = None
        self._over = False
        #: How many events it has been told, once it was greeted.
        self.heard: int | None = None

    def start(self, gone: Callable[[EventReader], None]) -> None:
        """Begin; `gone` is called when it is over."""
        request = self._request
        request.notifyFinish().addBoth(self._finished, gone)
        set_headers(request)
        request.registerProducer(self, True)

    def _finished(self, result: object, gone: Callable[[EventReader], None]) -> None:
        self._over = True
        self._stop_waiting()
        gone(self)

    def send_round(self, current: Round) -> None:
        """Send what happened, and how everything is: that is left out while the reader lags behind."""
        if self.heard is None:
            # The greeting is still being made, and tells this too.
            return
        data = current.events_after(self.heard)
        self.heard = max(self.heard, current.last)
        if not self._full:
            data += current.status
        if data:
            self.send(data)

    def send(self, data: bytes) -> None:
        """Send something."""
        if self._over:
            return
        if self._full:
            self._unread += len(data)
            if self._unread > self._settings.unread_events:
                self._abort()
                return
        self._request.write(data)

    def close(self) -> None:
        """The server stops."""
        if not self._over:
            self._request.unregisterProducer()
            self._request.finish()

    def _abort(self) -> None:
        self._request.channel.abort()

    # -- from the transport ----------------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        self._full = True
        if self._patience is None:
            self._patience = self._clock.callLater(self._settings.unread_timeout, self._abort)

    def resumeProducing(self) -> None:
        """The transport's buffer is empty."""
        self._full = False
        self._unread = 0
        self._stop_waiting()

    def stopProducing(self) -> None:
        """The transport has gone."""

    def _stop_waiting(self) -> None:
        if self._patience is not None and self._patience.active():
            self._patience.cancel()
        self._patience = None
