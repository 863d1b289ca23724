"""One configured destination: the streams that are sent there, and their status added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import attrs
from twisted.internet.defer import Deferred, gatherResults, succeed

from rtmprelay import events
from rtmprelay.destinations.outlet import Outlet, OutletContext
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationStatus, OutletStatus, joint_state
from rtmprelay.streams.live_stream import LiveStream, StreamOrigin
from rtmprelay.wire.url import RtmpUrl


@attrs.define(eq=False)
class _EndedOutlets:
    """What outlets that have ended delivered: totals never go down."""

    messages_sent: int = 0
    messages_dropped: int = 0
    bytes_sent: int = 0
    reconnect_count: int = 0
    dropped_by_reason: Counter[str] = attrs.field(factory=Counter)
    last_sent_time: float | None = None
    last_error: str | None = None
    error_class: str | None = None

    def add(self, outlet: OutletStatus) -> None:
        self.messages_sent += outlet.messages_sent
        self.messages_dropped += outlet.messages_dropped
        self.bytes_sent += outlet.bytes_sent
        self.reconnect_count += outlet.reconnect_count
        self.dropped_by_reason.update(outlet.dropped_by_reason)
        self.last_sent_time = outlet.last_sent_time or self.last_sent_time
        self.last_error, self.error_class = outlet.last_error, outlet.error_class


class Destination:
    """Has an outlet for each stream that is sent there.

    Args:
        on_released: Called when a target has become free.
    """

    def __init__(
        self, settings: DestinationSettings, context: OutletContext, on_released: Callable[[], None]
    ) -> None:
        self.settings = settings
        self._context = context
        self._on_released = on_released
        self._outlets: dict[str, Outlet] = {}
        # The streams whose target was taken, and what held it when that was reported.
        self._reported_refusals: dict[str, str] = {}
        self._ended = _EndedOutlets()

    @property
    def name(self) -> str:
        return self.settings.name

    def target_of(self, stream: LiveStream) -> RtmpUrl:
        """The address that a stream would be sent to."""
        app, _, name = stream.key.rpartition("/")
        return self.settings.url.filled_in(app, name)

    # -- streams ---------------------------------------------------------------------------------------------

    def should_take(self, stream: LiveStream) -> bool:
        """Whether a stream is to be sent here, and is not yet."""
        return (
            self.settings.enabled
            and self.settings.wants(stream.key)
            and stream.key not in self._outlets
            # The node that owns the stream sends it.
            and stream.origin is not StreamOrigin.CLUSTER
        )

    def holder_of(self, target: RtmpUrl) -> str | None:
        """The key of the stream that is sent to this address, or is just saying goodbye to it."""
        place = target.identity
        return next((key for key, outlet in self._outlets.items() if outlet.target.identity == place), None)

    def take(self, stream: LiveStream) -> None:
        """Send a stream; its target must be free."""
        self._reported_refusals.pop(stream.key, None)
        outlet = Outlet(self.settings, stream, self._context, self._outlet_ended)
        self._outlets[stream.key] = outlet
        outlet.start()

    def report_refusal(self, stream: LiveStream, holder: str) -> None:
        """Say once why a stream is not sent, however often it is offered."""
        if self._reported_refusals.get(stream.key) != holder:
            self._reported_refusals[stream.key] = holder
            self._context.events.publish(
                events.DestinationSourceRefused(destination=self.name, stream=stream.key, holder=holder)
            )

    def source_stopped(self, stream: LiveStream, clean: bool) -> None:
        self._reported_refusals.pop(stream.key, None)
        outlet = self._outlets.get(stream.key)
        if outlet is not None:
            outlet.source_stopped(clean)

    def _outlet_ended(self, outlet: Outlet) -> None:
        del self._outlets[outlet.stream.key]
        self._ended.add(outlet.status())
        self._on_released()

    # -- changes ---------------------------------------------------------------------------------------------

    def set_enabled(self, enabled: bool) -> Deferred[None]:
        """Send streams here, or send none; fires when the connections that end are closed."""
        self.settings = attrs.evolve(self.settings, enabled=enabled)
        if enabled:
            self._on_released()
            return succeed(None)
        return self.end("the destination was disabled")

    def update(self, settings: DestinationSettings) -> None:
        """Use other settings on the same connections, as `DestinationSettings.connects_like` allows."""
        self.settings = settings
        for outlet in list(self._outlets.values()):
            outlet.update(settings)

    def reconnect(self) -> None:
        """End all connections, or the waiting for the next attempt, and connect now."""
        for outlet in list(self._outlets.values()):
            outlet.reconnect()

    def end_stream(self, key: str, reason: str) -> Deferred[None]:
        """End the outlet of one stream; fires when its connection is closed."""
        outlet = self._outlets.get(key)
        return succeed(None) if outlet is None else outlet.end(reason)

    def end(self, reason: str) -> Deferred[None]:
        """End all outlets; fires when their connections are closed."""
        ended = [outlet.end(reason) for outlet in list(self._outlets.values())]
        return gatherResults(ended).addCallback(lambda _: None)

    # -- status ----------------------------------------------------------------------------------------------

    @property
    def bytes_sent(self) -> int:
        """Bytes of media that were sent here, over all connections."""
        return self._ended.bytes_sent + sum(
            outlet.delivery.account.bytes_sent for outlet in self._outlets.values()
        )

    @property
    def streams(self) -> tuple[str, ...]:
        """The keys of the streams that are sent here."""
        return tuple(self._outlets)

    def outlet_status(self, key: str) -> OutletStatus | None:
        """The status of one stream on its way here; None if it is not sent."""
        outlet = self._outlets.get(key)
        return None if outlet is None else outlet.status()

    def status(self) -> DestinationStatus:
        outlets = tuple(outlet.status() for outlet in self._outlets.values())
        ended = self._ended
        reasons = Counter(ended.dropped_by_reason)
        for outlet in outlets:
            reasons.update(outlet.dropped_by_reason)
        failed = next((outlet for outlet in outlets if outlet.last_error is not None), None)
        connected = [outlet.connect_time for outlet in outlets if outlet.connect_time is not None]
        sent = [
            time for time in (ended.last_sent_time, *(o.last_sent_time for o in outlets)) if time is not None
        ]
        attempts = [outlet.next_attempt_time for outlet in outlets if outlet.next_attempt_time is not None]
        if outlets:
            last_error = failed.last_error if failed else None
            error_class = failed.error_class if failed else None
        else:
            last_error, error_class = ended.last_error, ended.error_class
        return DestinationStatus(
            name=self.name,
            url=str(self.settings.url),
            match=self.settings.match,
            enabled=self.settings.enabled,
            state=joint_state(outlets, self.settings.enabled),
            last_error=last_error,
            error_class=error_class,
            next_attempt_time=min(attempts, default=None),
            messages_sent=ended.messages_sent + sum(outlet.messages_sent for outlet in outlets),
            messages_dropped=ended.messages_dropped + sum(outlet.messages_dropped for outlet in outlets),
            messages_queued=sum(outlet.messages_queued for outlet in outlets),
            dropped_by_reason=dict(reasons),
            bytes_sent=ended.bytes_sent + sum(outlet.bytes_sent for outlet in outlets),
            last_sent_time=max(sent, default=None),
            connect_time=min(connected, default=None),
            reconnect_count=ended.reconnect_count + sum(outlet.reconnect_count for outlet in outlets),
            failures=max((outlet.failures for outlet in outlets), default=0),
            metadata=self.settings.metadata,
            outlets=outlets,
        )
