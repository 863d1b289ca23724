"""Reports refusals: at most one a second for each address and kind, with the exact number in between."""

from __future__ import annotations

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from rtmprelay.addresses import address_group
from rtmprelay.event_bus import EventBus
from rtmprelay.events import ConnectionRefused, ConnectRefused, ControlRefused, PlayRefused, PublishRefused

#: Seconds between two reports about the same address.
_INTERVAL = 1.0

#: Addresses that are reported one by one at the same time; all others share one report.
_MOST_ADDRESSES = 1_000

Refusal = ConnectionRefused | ConnectRefused | ControlRefused | PlayRefused | PublishRefused


@attrs.define(eq=False)
class _Held:
    """The latest refusal to an address that is not reported yet, and how many there are."""

    reported_at: float
    last: Refusal | None = None
    count: int = 0


class RefusalReports:
    """The first refusal is reported at once. Those in the second after it are counted and reported together at its end."""

    def __init__(self, events: EventBus, clock: IReactorTime) -> None:
        self._events = events
        self._clock = clock
        self._held: dict[tuple[str, str], _Held] = {}
        self._timer: IDelayedCall | None = None

    def report(self, host: str, refusal: Refusal) -> None:
        """Count a refusal to a client at this address, and report it if it is the first."""
        now = self._clock.seconds()
        key = (address_group(host), refusal.name)
        if key not in self._held and len(self._held) >= _MOST_ADDRESSES:
            key = ("", refusal.name)
        held = self._held.get(key)
        if held is None:
            self._held[key] = _Held(now)
            self._events.publish(refusal)
        else:
            held.last = refusal
            held.count += 1
        if self._timer is None:
            self._timer = self._clock.callLater(_INTERVAL, self._report_due)

    def _report_due(self) -> None:
        self._timer = None
        now = self._clock.seconds()
        for key, held in list(self._held.items()):
            if now - held.reported_at < _INTERVAL:
                continue
            if held.last is None:
                del self._held[key]
            else:
                self._publish(held)
                held.reported_at = now
        if self._held:
            oldest = min(held.reported_at for held in self._held.values())
            self._timer = self._clock.callLater(max(0.0, oldest + _INTERVAL - now), self._report_due)

    def _publish(self, held: _Held) -> None:
        last, count, held.last, held.count = held.last, held.count, None, 0
        if last is not None:
            self._events.publish(attrs.evolve(last, others=count - 1))

    def flush(self) -> None:
        """Report the rest: the server stops."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for held in self._held.values():
            self._publish(held)
        self._held.clear()
