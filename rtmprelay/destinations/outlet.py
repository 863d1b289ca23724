"""One stream on its way to one destination: connection, retries, account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
from twisted.application.internet import ClientService
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import (
    IDelayedCall,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer

from rtmprelay import events
from rtmprelay.destinations.failures import CANCELLATIONS, DestinationFailure, FailureClass, classify
from rtmprelay.destinations.link import CurrentAddress, Link
from rtmprelay.destinations.missed import Missed
from rtmprelay.destinations.reports import DeliveryReporter
from rtmprelay.destinations.resumption import not_sent_before
from rtmprelay.destinations.retry import LONGEST_DELAY, RetryPolicy
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationState, OutletStatus
from rtmprelay.event_bus import EventBus
from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.media import MediaKind
from rtmprelay.rtmp.client import RtmpPublisherProtocol
from rtmprelay.rtmp.encoding import shared_encoder
from rtmprelay.streams.accounting import DropReason
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.frames import FrameBatch, FrameRole, LiveFrame
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.merging import Pace
from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.streams.summary import DeliveryRecord, FrameSummary
from rtmprelay.wire.url import RtmpUrl

#: Makes the way to a server; tests have one without a network.
EndpointMaker = Callable[[RtmpUrl, DestinationSettings], IStreamClientEndpoint]


@attrs.frozen
class Surroundings:
    """What an outlet works with."""

    clock: IReactorTime
    events: EventBus
    registry: StreamRegistry
    endpoint_for: EndpointMaker
    new_policy: Callable[[int], RetryPolicy] = RetryPolicy


@implementer(IFrameSubscriber)
class Outlet(Consumer):
    """Keeps one stream published at one destination for as long as the stream lives.

    Without a connection, frames are dropped and counted: what comes back is live, not late.
    """

    observes_sending = True
    _log = Logger()

    def __init__(
        self,
        settings: DestinationSettings,
        stream: LiveStream,
        surroundings: Surroundings,
        ended: Callable[[Outlet], None],
    ) -> None:
        super().__init__()
        self.settings = settings
        self.stream = stream
        self._surroundings = surroundings
        self._tell_ended = ended
        self._clock = surroundings.clock
        app, _, name = stream.key.rpartition("/")
        self._addresses = tuple(address.filled_in(app, name) for address in settings.addresses)
        self._address = 0
        self._policy = surroundings.new_policy(settings.max_retries)
        self._failure: DestinationFailure | None = None
        self._link: RtmpPublisherProtocol | None = None
        self._state = DestinationState.CONNECTING
        self._next_attempt: float | None = None
        self._given_up = False
        self._connect_time: float | None = None
        self._connections = 0
        self._record = DeliveryRecord()
        # The kinds of media whose decoder configuration is to be compared with what the server has been given.
        self._comparing: set[MediaKind] = set()
        self._holding: IDelayedCall | None = None
        self._ending = False
        # Whether the client service has called us: then it cannot be stopped or started.
        self._inside_service = False
        self._ended: Deferred[None] | None = None
        self._missed = Missed()
        self._reporter = DeliveryReporter(self, self._tell, self._clock)
        self._service = ClientService(
            CurrentAddress(self), Factory.forProtocol(lambda: Link(self)), self._delay, self._clock
        )

    @property
    def address(self) -> RtmpUrl:
        """Where it goes now."""
        return self._addresses[self._address]

    @property
    def target(self) -> RtmpUrl:
        """Where it goes at first: two outlets with the same target would mix their streams."""
        return self._addresses[0]

    def _tell(self, event: type[events.DestinationEvent], **fields: Any) -> None:
        self._surroundings.events.publish(
            event(destination=self.settings.name, stream=self.stream.key, **fields)
        )

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin: subscribe, and connect."""
        self._reporter.start()
        self.stream.subscribe(self, Pace.SERVER)
        self._service.startService()

    def end(self, reason: str) -> Deferred[None]:
        """End for good: say goodbye to the server; fires when the connection has gone."""
        if self._ended is None:
            self._ending = True
            self._ended = Deferred()
            Deferred.fromCoroutine(self._end(reason)).chainDeferred(self._ended)
        return self._ended

    async def _end(self, reason: str) -> None:
        self._stop_holding()
        self._reporter.stop()
        self._surroundings.registry.leave(self.stream, self)
        await self._stop_service()
        self.close()
        self._settle_missed()
        self._reporter.report_drops()
        account = self.account
        self._tell(
            events.DestinationClosed,
            reason=reason,
            messages=account.messages_sent,
            bytes=account.bytes_sent,
            dropped=account.messages_dropped,
            digest=self._record.digest,
        )
        self._tell_ended(self)

    def reconnect(self) -> None:
        """Break the connection off, or wait no longer, and try now."""
        self._policy.reset()
        self._given_up = False
        self._let_go()
        Deferred.fromCoroutine(self._restart()).addErrback(self._restart_failed)

    def update(self, settings: DestinationSettings) -> None:
        """Go on with other settings, on the connection that there is."""
        self.settings = settings
        self._policy.max_retries = settings.max_retries
        if self._given_up and not self._policy.is_exhausted():
            self.reconnect()

    def _let_go(self) -> None:
        """Send nothing more on this connection: it is about to say goodbye."""
        if self._link is not None:
            self._link.consumer = None
            self._link = None
            self._connect_time = None
            self._state = DestinationState.CONNECTING
            self.detach()

    async def _restart(self) -> None:
        await self._stop_service()
        if not self._ending:
            self._service.startService()

    async def _stop_service(self) -> None:
        if self._inside_service:
            # Somebody who was told an event wants us to stop because of it.
            await deferLater(self._clock, 0)
        await self._service.stopService()

    def _restart_failed(self, failure: Failure) -> None:
        self._log.failure("Restarting {name} failed", failure, name=self.settings.name)

    # -- attempts --------------------------------------------------------------------------------------------

    def attempt(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Make one attempt to reach the server."""
        self._next_attempt = None
        self._state = DestinationState.CONNECTING
        with self._called_by_service():
            self._tell(events.DestinationConnecting, address=str(self.address))
            try:
                attempt = self._surroundings.endpoint_for(self.address, self.settings).connect(factory)
            except Exception:
                # A certificate file that has gone, say: the client service does not bear errors here.
                attempt = fail(Failure())
            return attempt.addErrback(self._attempt_failed)

    def _attempt_failed(self, failure: Failure) -> Failure:
        if not failure.check(*CANCELLATIONS):
            # We cancel attempts ourselves; that is no error of the destination.
            self._failure = classify(failure)
        return failure

    @contextmanager
    def _called_by_service(self) -> Iterator[None]:
        before, self._inside_service = self._inside_service, True
        try:
            yield
        finally:
            self._inside_service = before

    def _delay(self, _attempts: float) -> float:
        """How long the client service is to wait after what has just failed."""
        with self._called_by_service():
            return self._delay_after_failure()

    def _delay_after_failure(self) -> float:
        now = self._clock.seconds()
        nothing_known = DestinationFailure(FailureClass.NETWORK, "the connection was lost")
        failure = self._policy.failed(self._failure or nothing_known, now)
        self._failure = failure
        self._state = DestinationState.ERROR
        self._tell(events.DestinationFailed, error_class=failure.kind.value, reason=failure.sentence)
        if self._policy.is_exhausted():
            self._given_up = True
            self._tell(events.DestinationGivenUp, failures=self._policy.failures)
            # The service cannot be stopped from inside its own question.
            self._clock.callLater(0, self._stop_if_given_up)
            return LONGEST_DELAY
        self._move_to_backup()
        delay = self._policy.delay(failure.kind)
        self._next_attempt = now + delay
        attempt = self._policy.failures + 1
        self._tell(events.DestinationReconnecting, attempt=attempt, delay=delay, address=str(self.address))
        return delay

    def _stop_if_given_up(self) -> None:
        if self._given_up:
            self._service.stopService()

    def _move_to_backup(self) -> None:
        """After so many failures in a row, the next address; the one that works is stayed with."""
        if len(self._addresses) > 1 and self._policy.failures % self.settings.failures_before_backup == 0:
            self._address = (self._address + 1) % len(self._addresses)

    def accepted(self, link: RtmpPublisherProtocol) -> None:
        """The server accepted the publish."""
        with self._called_by_service():
            self._linked(link)

    def _linked(self, link: RtmpPublisherProtocol) -> None:
        self._comparing = set()
        # What waits in the stream came before the connection: it is missed, and made good for by the startup frames.
        self.stream.flush()
        self._link = link
        self._policy.accepted(self._clock.seconds())
        self._failure = None
        self._record.headers = {}
        self._state = DestinationState.CONNECTED
        self._connect_time = self._clock.seconds()
        self._connections += 1
        self._tell(events.DestinationConnected, address=str(self.address))
        session = link.session
        link.consumer = self
        self.attach(link.write_media, shared_encoder(session.channel.chunk_size, session.stream_id, True))
        startup, wait_for_keyframe = not_sent_before(self._record.newest, *self.stream.startup())
        if any(frame.role is FrameRole.KEYFRAME for frame in startup):
            self._missed.made_good()
        self._settle_missed()
        self.begin(startup, wait_for_keyframe)

    def _settle_missed(self) -> None:
        """What was missed is lost for good now."""
        missed, self._missed = self._missed, Missed()
        self.account.messages_in += missed.messages
        if missed.messages:
            self.account.dropped(DropReason.NOT_CONNECTED, missed.size, missed.messages)
            self._reporter.report_drops()

    def unlinked(self, reason: Failure) -> None:
        """The connection has gone."""
        if self._link is not None and not self._ending:
            self._failure = classify(reason)
        self._link = None
        self._connect_time = None
        self.detach()
        if self._holding is not None:
            # Nothing is there to be sent; the next source begins anew.
            self.end("the server was lost while the publisher was away")

    # -- frames ----------------------------------------------------------------------------------------------

    @override
    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        # What the stream hands out while there is no connection is asked for again when there is one.
        if self._link is not None:
            super().begin(startup, wait_for_keyframe)

    @override
    def frames_arrived_indirectly(self, batch: FrameBatch) -> None:
        if self._comparing:
            self._compare_headers(batch)
        if self._link is None:
            self._missed.add(batch)
        else:
            super().frames_arrived_indirectly(batch)

    @override
    def sent(self, summary: FrameSummary) -> None:
        self._record.add(summary, self._clock.seconds())

    # -- the source ------------------------------------------------------------------------------------------

    def publisher_left(self) -> None:
        """Told by the stream; what to do follows from how it left, which `source_stopped` says."""

    def source_stopped(self, clean: bool) -> None:
        """The publisher has gone: for good, or perhaps to come back."""
        if clean or self._link is None or self.settings.linger <= 0:
            self.end("the publisher ended the stream" if clean else "the publisher was lost")
            return
        self._holding = self._clock.callLater(self.settings.linger, self._waited_enough)
        self._tell(events.DestinationHeld, linger=self.settings.linger)

    def _waited_enough(self) -> None:
        self._holding = None
        self.end("the publisher was lost and did not return")

    def _stop_holding(self) -> None:
        if self._holding is not None and self._holding.active():
            self._holding.cancel()
        self._holding = None

    def publisher_returned(self) -> None:
        """Go on, if what comes is encoded as what has been."""
        self._stop_holding()
        # What was queued and is not sent yet counts as well.
        record = self._record
        record.headers = {**self.stream.previous_headers, **record.headers}
        self._comparing = {MediaKind.AUDIO, MediaKind.VIDEO} if record.headers else set()
        self.update_direct()

    @override
    def looks_at_frames(self) -> bool:
        return bool(self._comparing)

    def _compare_headers(self, batch: FrameBatch) -> None:
        for frame in batch.frames:
            if frame.role <= FrameRole.AUDIO:
                # From here on a new configuration is the encoder's own wish.
                self._comparing.discard(frame.frame.kind)
            elif (
                frame.role is FrameRole.STARTUP
                and frame.frame.kind in self._comparing
                and self._record.headers.get(frame.startup_key) != frame.frame.payload
            ):
                # A platform would decode garbage: it gets a broadcast of its own.
                self._comparing = set()
                self.reconnect()
                return

    # -- status ----------------------------------------------------------------------------------------------

    def status(self) -> OutletStatus:
        """How it is now."""
        account = self.account
        failure = self._failure
        missed = self._missed.messages
        reasons = Counter(account.reasons())
        if missed:
            reasons[DropReason.NOT_CONNECTED.value] += missed
        return OutletStatus(
            stream=self.stream.key,
            state=self._state,
            address=str(self.address),
            last_error=failure.sentence if failure else None,
            error_class=failure.kind.value if failure else None,
            next_attempt_time=self._next_attempt,
            given_up=self._given_up,
            lingering=self._holding is not None,
            messages_in=account.messages_in + missed,
            messages_sent=account.messages_sent,
            messages_dropped=account.messages_dropped + missed,
            messages_queued=self.messages_queued,
            dropped_by_reason=dict(reasons),
            bytes_sent=account.bytes_sent,
            last_sent_time=self._record.last_time,
            connect_time=self._connect_time,
            reconnect_count=max(0, self._connections - 1),
            digest=self._record.digest,
        )
