"""Joins the parts that answer HTTP requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IReactorTime

from rtmprelay.access.gate import Gate
from rtmprelay.access.refusals import RefusalReports
from rtmprelay.access.refused_addresses import RefusedAddresses
from rtmprelay.hls.signing import UriSigner
from rtmprelay.outputs.hls.service import Hls
from rtmprelay.outputs.http_viewer import LiveMediaSettings
from rtmprelay.web.api.control import Control, ControllableRelay
from rtmprelay.web.api.machine_use import MachineUse
from rtmprelay.web.api.routes import Routes
from rtmprelay.web.api.sampling import RateSampler
from rtmprelay.web.api.status import RelayView, StatusDocuments
from rtmprelay.web.clips import Clips
from rtmprelay.web.events.recent import RecentEvents
from rtmprelay.web.events.stream import EventStream
from rtmprelay.web.hls import HlsMedia
from rtmprelay.web.live_media import LiveMedia
from rtmprelay.web.media_gate import MediaGate
from rtmprelay.web.media_routes import MediaRoutes
from rtmprelay.web.metrics.collector import HttpFigures, RelayCollector
from rtmprelay.web.metrics.measurements import EventCounts, ReactorLag, StreamLabels
from rtmprelay.web.metrics.page import MetricsPage
from rtmprelay.web.page import Pages
from rtmprelay.web.recordings.library import RecordingLibrary
from rtmprelay.web.recordings.routes import RecordedMedia
from rtmprelay.web.server.access import ControlAccess
from rtmprelay.web.server.quota import AddressQuota
from rtmprelay.web.server.request import RelayRequest, Result
from rtmprelay.web.server.responses import Response
from rtmprelay.web.server.scheduling import HttpScheduler
from rtmprelay.web.server.site import RelaySite
from rtmprelay.web.server.threads import InThread, at_once
from rtmprelay.web.server.unread import MOST_UNREAD, SHARE_OF_BUDGET, UnreadResponses
from rtmprelay.web.settings import HttpSettings
from rtmprelay.web.stills import Stills


class Relay(RelayView, ControllableRelay, Protocol):
    """What the HTTP part reads and changes in the relay."""


class HttpPart:
    """Everything that a relay serves over HTTP.

    Args:
        clock: A clock that never jumps.
        hls: The streams that can be watched as HLS, if any can.
        recordings: The folder of recordings that viewers may watch; None if they are not served.
        in_thread: Calls a function that waits for a disk or takes long.
        folders: Those that the relay writes to, by what they are for.

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
        recordings: Path | None = None,
        in_thread: InThread = at_once,
        folders: Mapping[str, Path] | None = None,
    ) -> None:
        scheduler = HttpScheduler(clock)
        self._sampler = RateSampler(relay.registry, relay.destination_bytes, clock)
        machine = MachineUse(clock, folders, in_thread)
        self._sampler.add_listener(machine.sample)
        recent = RecentEvents()
        relay.events.add_sink(recent)
        self._status = StatusDocuments(
            relay,
            self._sampler,
            scheduler,
            clock,
            wall_clock,
            lambda key: hls is not None and hls.settings.wants(key),
            machine,
        )
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
            settings, self._status, self._sampler, recent, scheduler, clock, event_readers, machine
        )
        media = media or LiveMediaSettings()
        media_gate = MediaGate(gate, refusals, media.stream_name_size)
        media_readers = AddressQuota(
            "max_media_readers_per_address", settings.max_media_readers_per_address, refused_addresses.note
        )
        self._relay = relay
        self._recorded: RecordedMedia | None = None
        if recordings is not None:
            library = RecordingLibrary(recordings, in_thread, self._growing)
            signer = UriSigner(None, 0) if hls is None else hls.signer
            self._recorded = RecordedMedia(library, media_gate, signer, wall_clock)
        self.media = LiveMedia(relay.registry, relay.events, media, media_gate, clock, media_readers)
        pages = Pages()
        media_routes = MediaRoutes(
            self.media.respond,
            None if hls is None else HlsMedia(hls, media_gate, in_thread),
            None if hls is None else Clips(hls, media_gate, in_thread),
            self._recorded,
            pages,
            Stills(relay.registry, media_gate),
        )
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
            relay, self._sampler, counts, self._lag, lambda: self._status.uptime, figures, labels, machine
        )
        self._routes = Routes(
            self._status,
            Control(relay, self._status, access),
            page=pages.page,
            asset=pages.asset,
            events=self._events.add,
            metrics=MetricsPage(collector, scheduler, clock).respond,
            find_media=media_routes.find,
            access=access,
            recordings=self._recordings,
        )
        unread = UnreadResponses(min(MOST_UNREAD, int(relay.memory.most * SHARE_OF_BUDGET)))
        relay.memory.add_output(lambda: unread.used)
        self.site = RelaySite(
            settings, self._routes.respond, scheduler, clock, refused_addresses, guard, unread
        )
        self.media_site = RelaySite(
            settings, media_routes.respond, scheduler, clock, refused_addresses, guard, unread, 0
        )

        for site in (self.site, self.media_site):
            site.refusals = refusals

    def _growing(self) -> set[str]:
        """The names of the files that are being recorded."""
        return {Path(status.path).name for status in self._relay.recording_statuses() if status.path}

    def _recordings(self, request: RelayRequest) -> Result:
        """What is being recorded, and the files that can be watched."""
        if self._recorded is None:
            return self._status.recordings().addCallback(Response)
        return Deferred.fromCoroutine(self._recordings_with_files(self._recorded))

    async def _recordings_with_files(self, recorded: RecordedMedia) -> Response:
        files, _ = await recorded.listing()
        return Response(await self._status.recordings_with(files))

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
