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

from rtmprelay.event_log.instance import new_instance
from rtmprelay.event_log.lines import encode_line
from rtmprelay.events import Event, EventsLost, ServerStarted
from rtmprelay.hooks.event_choice import chosen_events
from rtmprelay.hooks.event_queue import EventQueue, QueuedEvent
from rtmprelay.http_client.poster import HttpPoster, describe_failure, read_address
from rtmprelay.interfaces import IEventSink

#: Seconds for which an answer is waited for, attempts for one event, and events that wait, unless options say otherwise.
DEFAULT_TIMEOUT = 5.0
DEFAULT_ATTEMPTS = 8
DEFAULT_QUEUE = 1000

#: Seconds before the second attempt; doubled each time, up to the second value.
FIRST_DELAY = 1.0
LONGEST_DELAY = 60.0

#: Seconds that a stopping relay waits for what is left to be told.
STOP_TIMEOUT = 2.0

#: Of all 4xx, these two may be others a moment later.
_NOT_NOW = (408, 429)


@attrs.frozen
class WebhookSettings:
    """What is told, and how often it is tried."""

    events: frozenset[str]
    timeout: float = DEFAULT_TIMEOUT
    attempts: int = DEFAULT_ATTEMPTS
    queue: int = DEFAULT_QUEUE


@implementer(IEventSink)
class Webhook(Service):
    """Posts events in their order. Whoever is told does not slow anybody down: what finds no room is lost, and counted.

    Args:
        jitter: A number from 0 to 1, by chance.
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
        self._told_lost = 0
        self._failing = False
        # What is being done now: one event is told at a time.
        self._working: Deferred[None] | None = None
        self._waiting_for_end: Deferred[None] | None = None

    def event_happened(self, time: float, event: Event) -> None:
        """Put it in line."""
        if isinstance(event, ServerStarted):
            self._instance = event.instance
        if event.name in self._settings.events:
            self._queue.put(time, event)
            if self._working is None and self.running:
                self._work()

    @override
    def startService(self) -> None:
        super().startService()
        self._work()

    # -- telling ---------------------------------------------------------------------------------------------

    def _work(self) -> None:
        working = self._working = Deferred.fromCoroutine(self._tell_all())
        working.addErrback(self._failed)
        working.addCallback(lambda _: self._idle())

    def _idle(self) -> None:
        self._working = None
        waiting, self._waiting_for_end = self._waiting_for_end, None
        if waiting is not None:
            waiting.callback(None)

    async def _tell_all(self) -> None:
        while len(self._queue):
            queued = self._queue.take()
            lost = self._queue.lost - self._told_lost
            if lost:
                # Whoever listens shall know that something is missing here.
                self._told_lost += lost
                await self._tell(QueuedEvent(queued.time, EventsLost(count=lost), queued.number - 1))
            try:
                reason = await self._tell(queued)
            except CancelledError:
                self._queue.dropped("the relay stops")
                raise
            if reason is not None:
                self._queue.dropped(reason)

    async def _tell(self, queued: QueuedEvent) -> str | None:
        """Post one event, again and again if need be; why it was not taken after all."""
        body = encode_line(queued.time, queued.event, self._instance, queued.number)
        for attempt in range(1, self._settings.attempts + 1):
            reason, again = await self._post(body)
            if reason is None:
                self._recovered()
                return None
            self._tell_failure(reason)
            if not again:
                break
            if attempt < self._settings.attempts:
                await deferLater(self._clock, self._delay(attempt))
        return reason

    async def _post(self, body: bytes) -> tuple[str | None, bool]:
        """Why it was not taken, if so, and whether another attempt may help."""
        try:
            status = await self._poster.post(body).addTimeout(self._settings.timeout, self._clock)
        except CancelledError:
            raise
        except TimeoutError:
            return f"no answer within {self._settings.timeout:g} s", True
        except Exception:
            return describe_failure(Failure()), True
        if 200 <= status < 300:
            return None, False
        return f"it answered with status {status}", status >= 500 or status in _NOT_NOW

    def _delay(self, attempt: int) -> float:
        longest: float = min(FIRST_DELAY * 2 ** (attempt - 1), LONGEST_DELAY)
        return longest * (0.5 + self._jitter() / 2)

    def _tell_failure(self, reason: str) -> None:
        if not self._failing:
            self._failing = True
            self._log.warn("{url} does not take events: {reason}", url=self._poster.shown, reason=reason)

    def _recovered(self) -> None:
        if self._failing:
            self._failing = False
            self._log.info("{url} takes events again", url=self._poster.shown)

    def _failed(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self._log.failure("A bug in telling events to {url}", failure, url=self._poster.shown)

    # -- the end ---------------------------------------------------------------------------------------------

    @override
    def stopService(self) -> Deferred[None]:
        """Tell what is left, but not for long."""
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        working = self._working
        if working is not None:
            self._waiting_for_end = Deferred()
            timer = self._clock.callLater(STOP_TIMEOUT, working.cancel)
            await self._waiting_for_end
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
    return Webhook(HttpPoster(reactor, address), settings, reactor)
