"""`http`: each event is posted to another server, one after the other."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.clock import steady
from rtmprelay.events import Event, EventsLost, ServerStarted
from rtmprelay.events.lines import encode_line, new_instance
from rtmprelay.files.backoff import Backoff
from rtmprelay.hooks.event_queue import EventQueue, QueuedEvent, chosen_events
from rtmprelay.http_client.poster import HttpPoster, describe_failure, read_address
from rtmprelay.interfaces import IEventSink

#: Defaults of the options: seconds for an answer, attempts for one event, events that wait.
DEFAULT_TIMEOUT = 5.0
DEFAULT_ATTEMPTS = 8
DEFAULT_QUEUE = 1000

#: Seconds before the second attempt; doubled each time, up to the second value.
FIRST_DELAY = 1.0
LONGEST_DELAY = 60.0

#: Seconds that the events which wait have when the relay stops.
STOP_TIMEOUT = 2.0

#: Request Timeout and Too Many Requests: unlike other 4xx, another attempt may succeed.
_TEMPORARY = (408, 429)


@attrs.frozen
class WebhookSettings:
    """Which events are posted, and how often each is tried."""

    events: frozenset[str]
    timeout: float = DEFAULT_TIMEOUT
    attempts: int = DEFAULT_ATTEMPTS
    queue: int = DEFAULT_QUEUE


@attrs.frozen
class _Refusal:
    """Why a server did not take an event."""

    reason: str
    #: Whether another attempt may succeed.
    temporary: bool


@implementer(IEventSink)
class Webhook(Service):
    """Posts events in their order. A slow server slows nothing down: events that find no room are lost and counted.

    Args:
        jitter: A random number from 0 to 1.
    """

    _log = Logger()

    def __init__(
        self,
        poster: HttpPoster,
        settings: WebhookSettings,
        clock: IReactorTime,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._poster = poster
        self._settings = settings
        self._clock = clock
        self._jitter = jitter
        self._instance = new_instance()
        self._queue = EventQueue(settings.queue, clock, poster.shown)
        self._lost_posted = 0
        self._failing = False
        # Runs while events wait: one is posted at a time.
        self._posting: Deferred[None] | None = None
        self._stopping: Deferred[None] | None = None

    def event_happened(self, time: float, event: Event) -> None:
        if isinstance(event, ServerStarted):
            self._instance = event.instance
        if event.name in self._settings.events:
            self._queue.put(time, event)
            if self._posting is None and self.running:
                self._start_posting()

    @override
    def startService(self) -> None:
        super().startService()
        self._start_posting()

    # -- posting ---------------------------------------------------------------------------------------------

    def _start_posting(self) -> None:
        posting = self._posting = Deferred.fromCoroutine(self._post_all())
        posting.addErrback(self._log_bug)
        posting.addCallback(lambda _: self._posting_ended())

    def _posting_ended(self) -> None:
        self._posting = None
        stopping, self._stopping = self._stopping, None
        if stopping is not None:
            stopping.callback(None)

    async def _post_all(self) -> None:
        while len(self._queue):
            queued = self._queue.take()
            lost = self._queue.lost - self._lost_posted
            if lost:
                # The receiver learns of the gap in the place of the gap.
                self._lost_posted += lost
                await self._post_event(QueuedEvent(queued.time, EventsLost(count=lost), queued.number - 1))
            try:
                refusal = await self._post_event(queued)
            except CancelledError:
                self._queue.count_lost("the relay stops")
                raise
            if refusal is not None:
                self._queue.count_lost(refusal.reason)

    async def _post_event(self, queued: QueuedEvent) -> _Refusal | None:
        """Post one event, as often as necessary. Returns why the server did not take it, or None."""
        body = encode_line(queued.time, queued.event, self._instance, queued.number)
        backoff = Backoff(FIRST_DELAY, LONGEST_DELAY)
        attempt = 1
        while True:
            refusal = await self._post(body)
            self._log_change(refusal)
            if refusal is None or not refusal.temporary or attempt >= self._settings.attempts:
                return refusal
            attempt += 1
            await deferLater(self._clock, backoff.next_delay() * (0.5 + self._jitter() / 2))

    async def _post(self, body: bytes) -> _Refusal | None:
        try:
            status = await self._poster.post(body).addTimeout(self._settings.timeout, self._clock)
        except CancelledError:
            raise
        except TimeoutError:
            return _Refusal(f"no answer within {self._settings.timeout:g} s", temporary=True)
        except Exception:
            return _Refusal(describe_failure(Failure()), temporary=True)
        if 200 <= status < 300:
            return None
        return _Refusal(f"it answered with status {status}", status >= 500 or status in _TEMPORARY)

    def _log_change(self, refusal: _Refusal | None) -> None:
        """Log when the server begins to fail and when it works again, not each attempt."""
        if refusal is not None and not self._failing:
            self._log.warn(
                "{url} does not take events: {reason}", url=self._poster.shown, reason=refusal.reason
            )
        elif refusal is None and self._failing:
            self._log.info("{url} takes events again", url=self._poster.shown)
        self._failing = refusal is not None

    def _log_bug(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self._log.failure("A bug in posting events to {url}", failure, url=self._poster.shown)

    # -- the end ---------------------------------------------------------------------------------------------

    @override
    def stopService(self) -> Deferred[None]:
        """Post the events that wait, but not for long."""
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        posting = self._posting
        if posting is not None:
            self._stopping = Deferred()
            timer = self._clock.callLater(STOP_TIMEOUT, posting.cancel)
            await self._stopping
            if timer.active():
                timer.cancel()
        self._queue.clear("the relay stops")
        await self._poster.close()


def make_webhook(argument: str, reactor: Any) -> Webhook:
    """The sink for `URL[#events=publish_*,...&timeout=5&attempts=8&queue=1000&token-file=PATH&ca-file=PATH]`."""
    address, options = read_address(argument, {"events", "attempts", "queue"})
    settings = WebhookSettings(
        events=chosen_events(options.texts("events")),
        timeout=options.number("timeout", DEFAULT_TIMEOUT, 0.1, 60),
        attempts=options.count("attempts", DEFAULT_ATTEMPTS, 1, 100),
        queue=options.count("queue", DEFAULT_QUEUE, 1, 100_000),
    )
    return Webhook(HttpPoster(reactor, address), settings, steady(reactor))
