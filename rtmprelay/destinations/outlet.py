"""One stream on its way to one destination: connects, retries, holds and ends, as `lifecycle.py` says."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from twisted.python.failure import Failure
from typing_extensions import override

from rtmprelay import events
from rtmprelay.destinations.delivery import Delivery
from rtmprelay.destinations.failures import DestinationFailure, RetryPolicy, classify
from rtmprelay.destinations.lifecycle import OutletLifecycle, build_machine
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationState, OutletStatus
from rtmprelay.event_bus import EventBus
from rtmprelay.rtmp.client import ClientSettings, RtmpPublisherProtocol
from rtmprelay.rtmp.endpoint import negotiate
from rtmprelay.rtmp.link import Link
from rtmprelay.secret import Secret
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.merging import Pace
from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.wire.url import RtmpUrl

#: Makes the endpoint of one attempt to reach a server, up to TLS; tests make one without a network.
EndpointMaker = Callable[[RtmpUrl, DestinationSettings], IStreamClientEndpoint]


@attrs.frozen
class OutletContext:
    """What all outlets of a relay share."""

    #: A steady clock, for everything that is measured.
    clock: IReactorTime
    #: Seconds since 1970, for times that are shown.
    wall_clock: Callable[[], float]
    events: EventBus
    registry: StreamRegistry
    endpoint_for: EndpointMaker
    new_retry_policy: Callable[[int], RetryPolicy] = RetryPolicy
    #: What this relay shows to a destination, for a stream that has come through these other relays.
    node_pass: Callable[[tuple[str, ...]], Secret] = lambda chain: Secret("")


class OutletPhase(enum.Enum):
    """How far an outlet has come, as its status shows it."""

    CONNECTING = enum.auto()
    CONNECTED = enum.auto()
    #: Connected, without a publisher, for as long as the destination lingers.
    HELD = enum.auto()
    WAITING = enum.auto()
    GIVEN_UP = enum.auto()


_STATES = {
    OutletPhase.CONNECTING: DestinationState.CONNECTING,
    OutletPhase.CONNECTED: DestinationState.CONNECTED,
    OutletPhase.HELD: DestinationState.CONNECTED,
    OutletPhase.WAITING: DestinationState.ERROR,
    OutletPhase.GIVEN_UP: DestinationState.ERROR,
}


class Outlet(Link[RtmpPublisherProtocol]):
    """Keeps one stream published at one destination for as long as the stream lives."""

    _lifecycle: OutletLifecycle
    # Until the attempt that follows a failure.
    _delay: float

    def __init__(
        self,
        settings: DestinationSettings,
        stream: LiveStream,
        context: OutletContext,
        on_ended: Callable[[Outlet], None],
    ) -> None:
        super().__init__(context.clock, context.wall_clock, f"sending to {settings.name}")
        self.settings = settings
        self.stream = stream
        self._context = context
        self._on_ended = on_ended
        app, _, name = stream.key.rpartition("/")
        self._addresses = tuple(address.filled_in(app, name) for address in settings.addresses)
        self._address = 0
        self._policy = context.new_retry_policy(settings.max_retries)
        self._phase = OutletPhase.CONNECTING
        self._failure: DestinationFailure | None = None
        self._lifecycle = _new_lifecycle(self)
        self.delivery = Delivery(
            stream,
            context.clock,
            self._report,
            self._lifecycle.publisher_returned,
            # A decoder cannot follow: the old broadcast ends and a new one begins.
            self._lifecycle.reconnect,
        )

    @property
    def address(self) -> RtmpUrl:
        """The address in use."""
        return self._addresses[self._address]

    @property
    def target(self) -> RtmpUrl:
        """The preferred address: two outlets with the same target would mix their streams."""
        return self._addresses[0]

    def update(self, settings: DestinationSettings) -> None:
        """Use other settings on the existing connection."""
        self.settings = settings
        self._policy.max_retries = settings.max_retries
        if self._phase is OutletPhase.GIVEN_UP and not self._policy.is_exhausted():
            self.reconnect()

    def source_stopped(self, clean: bool) -> None:
        """The publisher has gone: for good, or perhaps to return."""
        if clean:
            self._lifecycle.end("the publisher ended the stream")
        elif self.settings.linger > 0:
            self._lifecycle.publisher_lost("the publisher was lost")
        else:
            self._lifecycle.end("the publisher was lost")

    def status(self) -> OutletStatus:
        delivery, account, failure = self.delivery, self.delivery.account, self._failure
        missed = delivery.messages_missed
        return OutletStatus(
            stream=self.stream.key,
            state=_STATES[self._phase],
            address=str(self.address),
            last_error=failure.sentence if failure else None,
            error_class=failure.kind.value if failure else None,
            next_attempt_time=self._wall_time(self._next_attempt_at),
            given_up=self._phase is OutletPhase.GIVEN_UP,
            lingering=self._phase is OutletPhase.HELD,
            messages_in=account.messages_in + missed,
            messages_sent=account.messages_sent,
            messages_dropped=account.messages_dropped + missed,
            messages_queued=delivery.messages_queued,
            dropped_by_reason=delivery.dropped_by_reason(),
            bytes_sent=account.bytes_sent,
            last_sent_time=self._wall_time(delivery.record.last_time),
            connect_time=self._wall_time(self._connected_at),
            reconnect_count=self.reconnect_count,
            failures=self._policy.failures,
            digest=delivery.record.digest,
        )

    def _report(self, event: type[events.DestinationEvent], **fields: Any) -> None:
        self._context.events.publish(event(destination=self.settings.name, stream=self.stream.key, **fields))

    # -- what the state machine does: only it calls these ----------------------------------------------------

    def begin(self) -> None:
        self.delivery.start()
        self.stream.subscribe(self.delivery, Pace.SERVER)
        self.connect()

    @override
    def connect(self) -> None:
        self._phase = OutletPhase.CONNECTING
        self._report(events.DestinationConnecting, address=str(self.address))
        self._try(self._reach_server())

    async def _reach_server(self) -> RtmpPublisherProtocol:
        endpoint = self._context.endpoint_for(self.address, self.settings)
        # Only a publisher that is another relay says where the stream has been before.
        shown = self._context.node_pass(getattr(self.stream.publisher, "chain", ()))
        settings = ClientSettings(node_pass=shown)
        return await negotiate(RtmpPublisherProtocol, self.address, endpoint, self._clock, settings)

    def connected(self, publisher: RtmpPublisherProtocol) -> None:
        self._keep(publisher)
        self._phase = OutletPhase.CONNECTED
        self._failure = None
        self._policy.accepted(self._clock.seconds())
        self._report(events.DestinationConnected, address=str(self.address))
        self.delivery.open_gate(publisher)

    def judge(self, reason: Failure) -> None:
        """Say what a failure means, and whether another attempt follows."""
        failure = self._policy.failed(classify(reason), self._clock.seconds())
        self._failure = failure
        self._phase = OutletPhase.WAITING
        # Before the event is published, so that what a program does because of it comes after.
        given_up = failure.is_final or self._policy.is_exhausted()
        if given_up:
            self._lifecycle.give_up()
        else:
            self._delay = self._policy.delay(failure.kind)
            self._lifecycle.wait()
        self._report(
            events.DestinationFailed,
            error_class=failure.kind.value,
            reason=failure.sentence,
            failures=self._policy.failures,
            given_up=given_up,
            next_step="no further attempt" if given_up else f"next attempt in {self._delay:.1f} s",
        )

    def judge_loss(self, reason: Failure) -> None:
        self._disconnected()
        self.judge(reason)

    def _disconnected(self) -> None:
        self._connected_at = None
        self.delivery.close_gate()

    def give_up(self) -> None:
        self._phase = OutletPhase.GIVEN_UP
        self._next_attempt_at = None
        self._report(events.DestinationGivenUp, failures=self._policy.failures)

    def wait(self) -> None:
        failures, delay = self._policy.failures, self._delay
        if failures % self.settings.failures_before_backup == 0:
            self._address = (self._address + 1) % len(self._addresses)
        self._wait(delay)
        self._report(
            events.DestinationReconnecting, attempt=failures + 1, delay=delay, address=str(self.address)
        )

    @override
    def connect_now(self) -> None:
        self._policy.reset()
        super().connect_now()

    @override
    def cancel_attempt(self) -> None:
        self._policy.reset()
        super().cancel_attempt()

    @override
    def end_connection(self) -> None:
        self._policy.reset()
        self._phase = OutletPhase.CONNECTING
        # First the gate, so that nothing is sent after the goodbye.
        self._disconnected()
        self._client.end()

    def hold(self, reason: str) -> None:
        self._phase = OutletPhase.HELD
        linger = self.settings.linger
        too_long = "the publisher was lost and did not return"
        self._timer = self._clock.callLater(linger, self._lifecycle.end, too_long)
        self._report(events.DestinationHeld, linger=linger)

    def resume(self) -> None:
        self._stop_timer()
        self._phase = OutletPhase.CONNECTED

    @override
    def leave(self, reason: str) -> None:
        self._end_reason = reason
        self._stop_timer()
        self.delivery.stop_reporting()
        self._context.registry.leave(self.stream, self.delivery)

    @override
    def leave_connection(self, reason: str) -> None:
        self._phase = OutletPhase.CONNECTED
        super().leave_connection(reason)

    def leave_held(self) -> None:
        self.leave_connection("reconnected while the publisher was away")

    def finish_held(self, reason: Failure) -> None:
        self._failure = classify(reason)
        self.leave_at_once("the server was lost while the publisher was away")

    @override
    def finish(self, reason: Failure | None = None) -> None:
        self._disconnected()
        self.delivery.finish(quietly=self._failure is not None and self._failure.is_final)
        account = self.delivery.account
        self._report(
            events.DestinationClosed,
            reason=self._end_reason,
            messages=account.messages_sent,
            bytes=account.bytes_sent,
            dropped=account.messages_dropped,
            digest=self.delivery.record.digest,
        )
        self._on_ended(self)
        self.confirm_end(self._end_reason)


_new_lifecycle = build_machine(Outlet)
