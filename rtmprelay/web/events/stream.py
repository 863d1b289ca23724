"""Server-sent events: each event, and once a second the status. Encoded once, the same bytes for every client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from rtmprelay import __version__
from rtmprelay.web.api.machine_use import MachineUse
from rtmprelay.web.api.sampling import INTERVAL, RateSampler
from rtmprelay.web.api.status import StatusDocuments
from rtmprelay.web.events.recent import RecentEvents
from rtmprelay.web.server.quota import AddressQuota
from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.server.responses import (
    API_VERSION,
    HttpError,
    entry_pieces,
    json_bytes,
    list_pieces,
    object_pieces,
    small_fields,
)
from rtmprelay.web.server.scheduling import CachedDocument, HttpScheduler
from rtmprelay.web.settings import HttpSettings

#: Clients that are written to in a row, and seconds until the next ones: two hundred writes in a row would delay the
#: live streams.
_CLIENTS_AT_ONCE = 8
_PAUSE = 0.01

#: Seconds for which events are collected: when a hundred viewers arrive together, each client still gets one write.
_COLLECTING = 0.1

#: Tells browsers to reconnect after this many milliseconds.
_RETRY = b"retry: 2000\n"


def message(kind: bytes, content: bytes) -> bytes:
    """One server-sent event. The JSON in it has no line breaks."""
    return b"event: %s\ndata: %s\n\n" % (kind, content)


class Round:
    """What is sent to all clients next: events, and possibly the status.

    Args:
        first: How many events there were before these.
    """

    def __init__(self, first: int, events: Sequence[bytes], status: bytes) -> None:
        self._first = first
        self._events = events
        self._all = b"".join(events)
        self.last = first + len(events)
        self.status = status

    def events_after(self, received: int) -> bytes:
        """The events for a client that has received so many events before."""
        return self._all if received <= self._first else b"".join(self._events[received - self._first :])


def set_headers(request: RelayRequest) -> None:
    request.setHeader(b"Content-Type", b"text/event-stream; charset=utf-8")
    request.setHeader(b"Cache-Control", b"no-store")
    # Keeps nginx from buffering the events.
    request.setHeader(b"X-Accel-Buffering", b"no")
    request.site.cors.allow_reading(request)


@implementer(IPushProducer)
class EventClient:
    """Writes events to one client. A client that does not read is disconnected; browsers reconnect by themselves."""

    def __init__(self, request: RelayRequest, settings: HttpSettings, clock: IReactorTime) -> None:
        self._request = request
        self._settings = settings
        self._clock = clock
        self._buffer_full = False
        self._unread = 0
        self._unread_timeout: IDelayedCall | None = None
        self._finished = False
        #: How many events the client has received; None until the greeting is sent.
        self.received: int | None = None

    def start(self, on_finish: Callable[[EventClient], None]) -> None:
        """Send the headers. `on_finish` is called when the connection is closed."""
        request = self._request
        request.notifyFinish().addBoth(self._finish, on_finish)
        set_headers(request)
        request.registerProducer(self, True)

    def _finish(self, result: object, on_finish: Callable[[EventClient], None]) -> None:
        self._finished = True
        self._cancel_timeout()
        on_finish(self)

    def send_round(self, current: Round) -> None:
        """Send events and status. A client that lags behind does not get the status."""
        if self.received is None:
            # The greeting is still being generated and will contain this.
            return
        data = current.events_after(self.received)
        self.received = max(self.received, current.last)
        if not self._buffer_full:
            data += current.status
        if data:
            self.send(data)

    def send(self, data: bytes) -> None:
        if self._finished:
            return
        if self._buffer_full:
            self._unread += len(data)
            if self._unread > self._settings.unread_events:
                self._abort()
                return
        self._request.write(data)

    def close(self) -> None:
        """End the response because the server stops."""
        if not self._finished:
            self._request.unregisterProducer()
            self._request.finish()

    def _abort(self) -> None:
        self._request.channel.abort()

    # -- called by the transport -----------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        self._buffer_full = True
        if self._unread_timeout is None:
            self._unread_timeout = self._clock.callLater(self._settings.unread_timeout, self._abort)

    def resumeProducing(self) -> None:
        self._buffer_full = False
        self._unread = 0
        self._cancel_timeout()

    def stopProducing(self) -> None:
        """Does nothing: `notifyFinish` reports the end, too."""

    def _cancel_timeout(self) -> None:
        if self._unread_timeout is not None and self._unread_timeout.active():
            self._unread_timeout.cancel()
        self._unread_timeout = None


class EventStream:
    """All clients of the event stream. They are served in rounds, one after the other."""

    _log = Logger()

    def __init__(
        self,
        settings: HttpSettings,
        status: StatusDocuments,
        sampler: RateSampler,
        recent: RecentEvents,
        scheduler: HttpScheduler,
        clock: IReactorTime,
        quota: AddressQuota,
        machine: MachineUse,
    ) -> None:
        self._settings = settings
        self._quota = quota
        self._machine = machine
        self._status = status
        self._sampler = sampler
        self._recent = recent
        self._clock = clock
        self._clients: dict[EventClient, None] = {}
        # How many events have been sent to everybody.
        self._sent = 0
        self._status_due = 0.0
        self._timer: IDelayedCall | None = None
        self._timer_due = 0.0
        self._in_round = False
        # A round is dropped if the last client has left since it began.
        self._generation = 0
        self._scheduler = scheduler
        self._hello = CachedDocument(
            self._hello_pieces, scheduler, clock, INTERVAL, lambda: (sampler.samples, recent.count)
        )
        recent.add_listener(self._event_happened)

    @property
    def client_count(self) -> int:
        return len(self._clients)

    # -- new clients -----------------------------------------------------------------------------------------

    def add(self, request: RelayRequest) -> None:
        """Answer a request with events for as long as the client stays; for HEAD, with the headers only."""
        if request.method == b"HEAD":
            set_headers(request)
            request.write(b"")
            request.finish()
            return
        limit = self._settings.max_event_readers
        if len(self._clients) >= limit:
            raise HttpError(503, f"there are already {limit} readers of the event stream: try again later")
        give_back = self._quota.take(request.client_host)
        request.notifyFinish().addBoth(lambda _: give_back())
        if not self._clients:
            self._sent = self._recent.count
            self._status_due = self._clock.seconds() + INTERVAL
        client = EventClient(request, self._settings, self._clock)
        self._clients[client] = None
        client.start(self._remove)
        Deferred.fromCoroutine(self._greet(client)).addErrback(self._report_bug)
        self._schedule_round()

    async def _greet(self, client: EventClient) -> None:
        included = self._recent.count
        hello = await self._hello.get()
        status = await self._status.everything()
        client.send(_RETRY + message(b"hello", hello) + message(b"status", status))
        # What was sent to the others while the greeting was generated.
        for event in self._recent.between(included, self._sent):
            client.send(message(b"event", json_bytes(event)))
        client.received = max(included, self._sent)

    def _hello_pieces(self) -> Iterator[bytes]:
        events = list_pieces(self._recent.between(0, self._recent.count))
        streams, destinations = self._sampler.histories()
        head = {
            "api_version": API_VERSION,
            "version": __version__,
            "changes_allowed": self._settings.token is not None,
            "interval": INTERVAL,
            "rtmp": self._status.rtmp_ports(),
        }
        history = object_pieces(
            [
                *small_fields({"interval": INTERVAL}),
                ("streams", entry_pieces(streams.items())),
                ("destinations", entry_pieces(destinations.items())),
                ("machine", entry_pieces(self._machine_history())),
            ]
        )
        ended = list_pieces(self._recent.ended())
        return object_pieces(
            [*small_fields(head), ("history", history), ("ended", ended), ("events", events)]
        )

    def _machine_history(self) -> Iterator[tuple[str, object]]:
        yield "cpu_percent", list(self._machine.cpu_history)
        yield "memory_bytes", list(self._machine.memory_history)

    def _remove(self, client: EventClient) -> None:
        self._clients.pop(client, None)
        if not self._clients:
            self._cancel_rounds()

    # -- rounds ----------------------------------------------------------------------------------------------

    def _event_happened(self) -> None:
        if self._clients:
            self._schedule_round()

    def _schedule_round(self) -> None:
        """Set the timer for the next round: soon if there are events, otherwise when the next status is due."""
        if self._in_round:
            return
        now = self._clock.seconds()
        due = self._status_due
        if self._sent < self._recent.count:
            due = min(due, now + _COLLECTING)
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._clock.callLater(max(0.0, due - now), self._begin_round)

    def _cancel_rounds(self) -> None:
        """There are no clients: cancel the next round and drop the current one."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._in_round = False
        self._generation += 1

    def _begin_round(self) -> None:
        self._timer = None
        self._in_round = True
        Deferred.fromCoroutine(self._run_round(self._generation)).addErrback(self._report_bug)

    async def _run_round(self, generation: int) -> None:
        now = self._clock.seconds()
        status = b""
        if now >= self._status_due:
            # Only one, even if more than a second has passed.
            self._status_due = max(self._status_due + INTERVAL, now)
            status = message(b"status", await self._status.everything())
        last = self._recent.count
        new = self._recent.between(self._sent, last)
        events = await self._scheduler.collect(message(b"event", json_bytes(event)) for event in new)
        if generation == self._generation:
            self._sent = last
            self._send_to_some(Round(last - len(events), events, status), iter(list(self._clients)))

    def _send_to_some(self, current: Round, clients: Iterator[EventClient]) -> None:
        self._timer = None
        for number, client in enumerate(clients, 1):
            client.send_round(current)
            if number == _CLIENTS_AT_ONCE:
                self._timer = self._clock.callLater(_PAUSE, self._send_to_some, current, clients)
                return
        self._in_round = False
        if self._clients:
            self._schedule_round()

    def _report_bug(self, failure: Failure) -> None:
        """Log an exception of our own and disconnect the clients, who will reconnect."""
        self._log.failure("A bug in sending events over HTTP", failure)
        self.stop()

    def stop(self) -> None:
        """Disconnect all clients."""
        self._cancel_rounds()
        for client in list(self._clients):
            client.close()
