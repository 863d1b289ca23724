"""Joins the parts that answer HTTP requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IReactorTime

from rtmprelay.access.gate import Gate
from rtmprelay.access.refusals import RefusalReports
from rtmprelay.access.refused_addresses import RefusedAddresses
from rtmprelay.outputs.hls.service import Hls
from rtmprelay.outputs.http_viewer import LiveMediaSettings
from rtmprelay.web.api.control import Control, RelayControl
from rtmprelay.web.api.routes import Routes
from rtmprelay.web.api.sampling import RateSampler
from rtmprelay.web.api.status import RelayView, StatusDocuments
from rtmprelay.web.events.recent import RecentEvents
from rtmprelay.web.events.stream import EventStream
from rtmprelay.web.hls import HlsMedia
from rtmprelay.web.live_media import LiveMedia
from rtmprelay.web.media_gate import MediaGate
from rtmprelay.web.media_routes import MediaRoutes
from rtmprelay.web.metrics.collector import HttpFigures, MetricsPage, RelayCollector
from rtmprelay.web.metrics.measurements import EventCounts, ReactorLag, StreamLabels
from rtmprelay.web.page import Pages
from rtmprelay.web.server.access import ControlAccess
from rtmprelay.web.server.quota import AddressQuota
from rtmprelay.web.server.scheduling import HttpScheduler
from rtmprelay.web.server.site import RelaySite
from rtmprelay.web.settings import HttpSettings


class Relay(RelayView, RelayControl, Protocol):
    """What the HTTP part reads and changes in the relay."""


class HttpPart:
    """Everything that a relay serves over HTTP.

    Args:
        clock: A clock that never jumps.
        hls: The streams that can be watched as HLS, if any can.

    Attributes:
        site: The factory for the listener of operators, which has everything.
        media_site: The factory for the listener of viewers, which has media and nothing else.
    """

    def __init__(
        self,
        relay: Relay,
        settings: HttpSettings,
        clock: IReactorTime,
        media: LiveMediaSettings | None = None,
        wall_clock: Callable[[], float] = time.time,
        gate: Gate | None = None,
        refusals: RefusalReports | None = None,
        refused_addresses: RefusedAddresses | None = None,
        hls: Hls | None = None,
    ) -> None:
        scheduler = HttpScheduler(clock)
        self._sampler = RateSampler(relay.registry, relay.destination_bytes, clock)
        recent = RecentEvents()
        relay.events.add_sink(recent)
        self._status = StatusDocuments(relay, self._sampler, scheduler, clock, wall_clock)
        recent.add_listener(self._status.invalidate)
        refusals = refusals or RefusalReports(relay.events, clock)
        refused_addresses = refused_addresses or RefusedAddresses(clock)
        gate = gate or Gate((), clock)
        guard = gate.guard
        self.access = access = ControlAccess(settings.token, refusals, guard, settings.read_token)
        event_readers = AddressQuota(
            "max_event_readers_per_address", settings.max_event_readers_per_address, refused_addresses.note
        )
        self._events = EventStream(
            settings, self._status, self._sampler, recent, scheduler, clock, event_readers
        )
        media = media or LiveMediaSettings()
        media_gate = MediaGate(gate, refusals, media.stream_name_size)
        media_readers = AddressQuota(
            "max_media_readers_per_address", settings.max_media_readers_per_address, refused_addresses.note
        )
        self.media = LiveMedia(relay.registry, relay.events, media, media_gate, clock, media_readers)
        media_routes = MediaRoutes(self.media.respond, None if hls is None else HlsMedia(hls, media_gate))
        counts = EventCounts()
        relay.events.add_sink(counts)
        self._lag = ReactorLag(clock)
        labels = StreamLabels(relay.registry)
        self._sampler.add_listener(labels.update)
        figures = HttpFigures(
            lambda: self.site.connections + self.media_site.connections,
            lambda: self._events.client_count,
            lambda: self.site.responses + self.media_site.responses,
            lambda: access.refused,
            lambda: 0 if guard is None else guard.wrong,
            lambda: 0 if guard is None else guard.unchecked,
        )
        collector = RelayCollector(
            relay, self._sampler, counts, self._lag, lambda: self._status.uptime, figures, labels
        )
        pages = Pages()
        self._routes = Routes(
            self._status,
            Control(relay, self._status, access),
            page=pages.page,
            asset=pages.asset,
            events=self._events.add,
            metrics=MetricsPage(collector, scheduler, clock).respond,
            find_media=media_routes.find,
            access=access,
        )
        self.site = RelaySite(settings, self._routes.respond, scheduler, clock, refused_addresses, guard)
        self.media_site = RelaySite(
            settings, media_routes.respond, scheduler, clock, refused_addresses, guard
        )

    def start(self) -> None:
        """Start measuring."""
        self._status.restart()
        self._sampler.start()
        self._lag.start()

    def stop(self) -> Deferred[None]:
        """End all responses and close all connections; fires when the last one is closed."""
        self._sampler.stop()
        self._lag.stop()
        self._events.stop()
        self.media.stop()
        closed = [self.site.shut_down(), self.media_site.shut_down()]
        return gatherResults(closed).addCallback(lambda _: None)
