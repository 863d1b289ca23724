"""Joins the parts of HTTP: what answers, what measures, what listens to events."""

from __future__ import annotations

import time
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from rtmprelay.access.gate import Gate
from rtmprelay.outputs.media_reader import LiveMediaSettings
from rtmprelay.web.api.control import Control
from rtmprelay.web.api.routes import Routes
from rtmprelay.web.api.sampling import RateSampler
from rtmprelay.web.api.status import StatusDocuments
from rtmprelay.web.events.recent import RecentEvents
from rtmprelay.web.events.stream import EventStream
from rtmprelay.web.live_media import LiveMedia
from rtmprelay.web.media_gate import MediaGate
from rtmprelay.web.metrics.collector import HttpFigures, RelayCollector
from rtmprelay.web.metrics.event_counts import EventCounts
from rtmprelay.web.metrics.page import MetricsPage
from rtmprelay.web.metrics.reactor_lag import ReactorLag
from rtmprelay.web.metrics.stream_series import StreamSeries
from rtmprelay.web.page.pages import Pages
from rtmprelay.web.relay_view import Relay
from rtmprelay.web.server.access import Access
from rtmprelay.web.server.site import RelaySite
from rtmprelay.web.server.turns import Turns
from rtmprelay.web.settings import HttpSettings


class HttpPart:
    """Everything that a relay shows over HTTP. `site` is the factory to listen with.

    Args:
        clock: One that never jumps.
    """

    def __init__(
        self,
        relay: Relay,
        settings: HttpSettings,
        clock: IReactorTime,
        media: LiveMediaSettings | None = None,
        wall_clock: Callable[[], float] = time.time,
        gate: Gate | None = None,
    ) -> None:
        turns = Turns(clock)
        self._sampler = RateSampler(relay.registry, relay.destination_bytes, clock)
        self._recent = RecentEvents()
        relay.events.add_sink(self._recent)
        self._status = StatusDocuments(relay, self._sampler, turns, clock, wall_clock)
        self._recent.add_listener(self._status.changed)
        self._access = Access(settings.token, relay.events, clock)
        self._events = EventStream(settings, self._status, self._sampler, self._recent, turns, clock)
        self.media = LiveMedia(relay.registry, relay.events, media or LiveMediaSettings(), clock)
        self._counts = EventCounts()
        relay.events.add_sink(self._counts)
        self._lag = ReactorLag(clock)
        series = StreamSeries(relay.registry)
        self._sampler.add_listener(series.look)
        figures = HttpFigures(
            lambda: self.site.connections,
            lambda: self._events.readers,
            lambda: self.site.responses,
            lambda: self._access.refused,
        )
        collector = RelayCollector(
            relay, self._sampler, self._counts, self._lag, lambda: self._status.uptime, figures, series
        )
        metrics = MetricsPage(collector, turns, clock)
        routes = Routes(
            self._status,
            Control(relay, self._status, self._access),
            self._events,
            Pages(),
            metrics.answer,
            MediaGate(gate or Gate((), clock), self.media, relay.events).answer,
        )
        self.site = RelaySite(settings, routes, turns, clock)

    def start(self) -> None:
        """Measure from now on."""
        self._status.restart()
        self._sampler.start()
        self._lag.start()

    def stop(self) -> Deferred[None]:
        """End everything that is open; fires when the last connection has gone."""
        self._sampler.stop()
        self._lag.stop()
        self._events.stop()
        self.media.stop()
        return self.site.shut_down()
