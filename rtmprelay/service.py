"""The relay as a Twisted service: what an application embeds."""

from __future__ import annotations

import platform
from functools import partial
from typing import TYPE_CHECKING, cast

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import (
    IAddress,
    IProtocolFactory,
    IReactorTime,
    IStreamServerEndpoint,
)
from twisted.logger import Logger
from typing_extensions import override

from rtmprelay import __version__
from rtmprelay.access.gate import Gate
from rtmprelay.access.guessing import GuessGuard
from rtmprelay.access.refusals import RefusalReports
from rtmprelay.clock import steady
from rtmprelay.config.first_start import start_warnings
from rtmprelay.config.relay import RelayConfig, is_tls
from rtmprelay.control import RelayControl
from rtmprelay.destinations.config_file import RelayFile
from rtmprelay.destinations.manager import DestinationManager
from rtmprelay.destinations.outlet import OutletContext
from rtmprelay.destinations.preflight import DestinationChecks
from rtmprelay.drain import Drain
from rtmprelay.errors import ConfigError
from rtmprelay.event_bus import EventBus, LogSink
from rtmprelay.events import ServerStarted, ServerStopped
from rtmprelay.events.lines import new_instance
from rtmprelay.listener import Listener
from rtmprelay.machine import OpenFiles
from rtmprelay.node import make_cluster, make_pulls, node_identity, start_drain
from rtmprelay.recording.manager import RecordingManager
from rtmprelay.rtmp import proxied
from rtmprelay.rtmp.addresses import host_of
from rtmprelay.rtmp.recheck import Recheck
from rtmprelay.rtmp.server_factory import RtmpServerFactory
from rtmprelay.stream_summaries import StreamSummaries
from rtmprelay.streams.memory_budget import MemoryBudget
from rtmprelay.streams.merging import Merging
from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.wiring import (
    adopt_services,
    caller_from_threads,
    destination_endpoint_maker,
    event_log,
    live_media_settings,
    server_settings,
    thread_caller,
    written_folders,
)

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorCore

    from rtmprelay.outputs.hls.service import Hls
    from rtmprelay.web.http_service import HttpPart


#: Seconds that hooks have for the remaining events when the relay stops; our own need less.
_HOOKS_STOP_WITHIN = 3.0


class RelayService(MultiService):
    """An RTMP server and relay: encoders publish, players watch, destinations get the streams.

    Make it a child of any service. Nothing in it is global, so that a process may have several.

    Attributes:
        registry: The live streams.
        events: Delivers events; add a sink to receive them.
        destinations: Other servers that get the streams; add, remove and change them while live.
        pulls: Other servers that streams are fetched from; add and remove them while live.
        recordings: What is recorded; start and stop it while live.
        gate: Decides who may publish and play.
        factory: The protocol factory, if you want to listen in your own way.
        http: The HTTP part; None if the configuration has no HTTP listener.
        hls: The streams that can be watched as HLS; None if the configuration names none.
        control: What the HTTP part reads and changes; `reload` applies another list of destinations.
    """

    _log = Logger()

    def __init__(self, config: RelayConfig | None = None, reactor: IReactorTime | None = None) -> None:
        super().__init__()
        if reactor is None:
            from twisted.internet import reactor as default_reactor

            reactor = cast(IReactorTime, default_reactor)
        self.config = config or RelayConfig()
        merging = Merging(steady(reactor), self.config.merge_window)
        self.registry = StreamRegistry(self.config.stream_limits, merging)
        self.events = EventBus()
        self.events.add_sink(LogSink())
        self._event_log = event_log(self.config.event_log, self.events, reactor)
        self._instance = ""
        self._started_at = 0.0
        for hook in self.config.hooks:
            self.events.add_sink(hook)
        adopt_services(self.config.authorizers, self)
        # Not among the children: hooks get the event `server_stopped`, so they stop last.
        self._hooks = MultiService()
        adopt_services(self.config.hooks, self._hooks)
        self._clock = reactor
        guard = GuessGuard(steady(reactor), self.events, self.config.guess_limits, self.config.ban)
        self.gate = Gate(self.config.authorizers, reactor, guard=guard)
        self._refusals = RefusalReports(self.events, steady(reactor))
        self.factory = RtmpServerFactory(
            steady(reactor),
            self.registry,
            self.events,
            server_settings(self.config),
            self.gate,
            self._refusals,
        )
        pools = (self.factory.strangers_memory, self.factory.publishers_memory)
        self.memory = MemoryBudget(self.config.memory_limits, self.registry, steady(reactor), pools)
        self.factory.memory = self.memory
        self._listeners = [
            self._listener(description, self.factory, "RTMPS" if is_tls(description) else "RTMP")
            for description in self.config.listen
        ]
        for listener in self._listeners:
            listener.setServiceParent(self)
        self.destinations = DestinationManager(
            OutletContext(
                steady(reactor),
                reactor.seconds,
                self.events,
                self.registry,
                destination_endpoint_maker(reactor),
                node_pass=lambda chain: self.factory.node.issue_for_destination(chain),
            )
        )
        self.summaries = StreamSummaries(
            self.registry, self.destinations, steady(reactor), self.config.statistics_interval
        )
        self.destinations.apply(self.config.destinations)
        self.factory.node = node_identity(self.config)
        self.pulls = make_pulls(self.config.pulls, reactor, self.factory)
        self.cluster = make_cluster(
            self.config.cluster, reactor, self.factory, self.pulls, self.destinations, new_instance()
        )
        self._drain: Drain | None = None
        self.recordings = RecordingManager(
            self.config.recording, self.registry, self.events, reactor, caller_from_threads(reactor)
        )
        self.memory.add_output(self.recordings.bytes_queued)
        relay_config = self.config.relay_config
        self.control = RelayControl(
            self.registry,
            self.events,
            self.destinations,
            self.pulls,
            self.recordings,
            self.factory,
            None if relay_config is None else RelayFile(relay_config),
            thread_caller(reactor),
            self.memory,
            self._rtmp_ports,
            self.cluster,
            self.drain,
            start_warnings(self.config),
            DestinationChecks(reactor),
        )
        self.hls: Hls | None = None
        if self.config.hls.match:
            from rtmprelay.outputs.hls.service import Hls

            self.hls = Hls(
                self.config.hls,
                self.config.hls_limits,
                self.registry,
                self.events,
                steady(reactor),
                call_in_reactor=caller_from_threads(reactor),
            )
            hls = self.hls
            self.memory.add_output(lambda: hls.held_bytes)
        self.control.player_enders.append(self.factory.end_play)
        self.recheck = Recheck(self.gate, self.config.recheck, steady(reactor), [self.factory.granted])
        if self.hls is not None:
            self.hls.viewers.note_refused = self.factory.refused_addresses.note
            self.control.player_enders.append(self.hls.viewers.end)
            self.recheck.add(self.hls.viewers.granted)
        self.http: HttpPart | None = None
        self._http_listener: Listener | None = None
        self._media_listener: Listener | None = None
        settings = self.config.http
        if settings.listen is not None or settings.media_listen is not None:
            from rtmprelay.web.http_service import HttpPart

            self.http = HttpPart(
                self.control,
                settings,
                steady(reactor),
                live_media_settings(self.config),
                gate=self.gate,
                refusals=self._refusals,
                refused_addresses=self.factory.refused_addresses,
                hls=self.hls,
                recordings=self.config.recording.folder if settings.recordings else None,
                in_thread=thread_caller(reactor),
                folders=written_folders(self.config),
            )
            self.control.player_enders.append(self.http.media.end)
            self.recheck.add(self.http.media.granted)
            self._http_listener = self._listen_for_http(settings.listen, self.http.site)
            self._media_listener = self._listen_for_http(settings.media_listen, self.http.media_site)

    def _listen_for_http(self, description: str | None, site: IProtocolFactory) -> Listener | None:
        if description is None:
            return None
        listener = self._listener(description, site, "HTTPS" if is_tls(description) else "HTTP")
        listener.setServiceParent(self)
        return listener

    def _listener(self, description: str, factory: IProtocolFactory, protocol: str) -> Listener:
        if description.startswith(proxied.PREFIX):
            description = description.removeprefix(proxied.PREFIX)
            factory = proxied.ProxiedFactory(factory)

        def make_endpoint() -> IStreamServerEndpoint:
            endpoint: IStreamServerEndpoint = serverFromString(cast("IReactorCore", self._clock), description)
            return endpoint

        again = make_endpoint if description.startswith("ssl:") else None
        return Listener(make_endpoint(), factory, protocol, again)

    def reload_certificates(self) -> list[str]:
        """Read the keys and certificates of all listeners again. Returns why some cannot be used."""
        problems = []
        for listener in (*self._listeners, self._http_listener, self._media_listener):
            try:
                if listener is not None:
                    listener.reload_certificate()
            except ConfigError as error:
                problems.append(str(error))
        return problems

    @property
    def addresses(self) -> list[IAddress]:
        """The addresses of the open RTMP listeners; with port 0 in the configuration, with the port that the system chose."""
        return [listener.address for listener in self._listeners if listener.address is not None]

    @property
    def steering(self) -> RelayControl:
        """The former name of `control`."""
        return self.control

    @property
    def rtmp_listeners(self) -> list[tuple[str, str, int]]:
        """The scheme, the host and the port of each open RTMP listener. A unix socket has none of them."""
        found: list[tuple[str, str, int]] = []
        for description, listener in zip(self.config.listen, self._listeners, strict=True):
            port = getattr(listener.address, "port", None)
            if port is not None:
                scheme = "rtmps" if is_tls(description) else "rtmp"
                found.append((scheme, host_of(listener.address), port))
        return found

    def _rtmp_ports(self) -> list[tuple[str, int]]:
        return [(scheme, port) for scheme, _, port in self.rtmp_listeners]

    @property
    def http_address(self) -> IAddress | None:
        """The address of the HTTP listener for operators; None until it is open."""
        return None if self._http_listener is None else self._http_listener.address

    @property
    def media_address(self) -> IAddress | None:
        """The address of the HTTP listener for viewers; None until it is open."""
        return None if self._media_listener is None else self._media_listener.address

    @override
    def privilegedStartService(self) -> None:
        self._hooks.privilegedStartService()
        super().privilegedStartService()

    @override
    def startService(self) -> None:
        self.factory.reopen()
        self._count_files()
        self._hooks.startService()
        self._publish_start()
        for warning in self.control.warnings:
            self._log.warn("{warning}", warning=warning)
        super().startService()
        self.destinations.start()
        if self.cluster is not None:
            self.cluster.start()
        self.pulls.start()
        self.recordings.start()
        self.summaries.start()
        self.memory.start()
        self.recheck.start()
        if self.hls is not None:
            self.hls.start()
        if self.http is not None:
            self.http.start()

    @override
    def stopService(self) -> Deferred[None]:
        """Stop accepting connections and tell all clients; fires when they have gone."""
        return Deferred.fromCoroutine(self._stop(super().stopService()))

    async def _stop(self, listeners_stopped: Deferred[object]) -> None:
        if self._drain is not None:
            self._drain.stop()
        await listeners_stopped
        self.summaries.stop()
        self.memory.stop()
        self.recheck.stop()
        # All at once: a server or a disk that does not answer must not keep players waiting.
        parts = [
            self.recordings.stop(),
            self.destinations.stop(),
            self.pulls.stop(),
            self.factory.shut_down(),
        ]
        if self.hls is not None:
            parts.append(self.hls.stop())
        if self.http is not None:
            parts.append(self.http.stop())
        await gatherResults(parts)
        # The streams are given up when their publishers have gone.
        if self.cluster is not None:
            await self.cluster.stop()
        self._refusals.flush()
        await self._publish_stop()
        await self._stop_hooks()

    def drain(self) -> Deferred[None]:
        """Accept no new clients, and disconnect the others within `drain_for` seconds; fires when none is left."""
        if self._drain is None:
            for description, listener in zip(self.config.listen, self._listeners, strict=True):
                # Another instance has the same socket: from now on it gets all connections.
                if description.startswith("systemd:"):
                    listener.stopService()
            self._drain = start_drain(
                self.factory,
                None if self.http is None else self.http.media,
                self.cluster,
                self.config.drain_for,
            )
        return self._drain.finished

    async def _stop_hooks(self) -> None:
        """Give the hooks some time for the events that wait."""
        stopping = maybeDeferred(self._hooks.stopService)
        # Not addTimeout: the DeferredList of a MultiService does not fail when it is cancelled.
        timer = self._clock.callLater(_HOOKS_STOP_WITHIN, self._abandon_hooks, stopping)
        await stopping
        if timer.active():
            timer.cancel()

    def _abandon_hooks(self, stopping: Deferred[object]) -> None:
        self._log.warn("A hook did not stop within {seconds:g} s", seconds=_HOOKS_STOP_WITHIN)
        stopping.cancel()

    def _count_files(self) -> None:
        """Connections must not take the files that recordings, destinations and the operator need."""
        files = self.factory.open_files = OpenFiles()
        files.add(lambda: self.factory.connection_count)
        files.add(lambda: len(self.recordings))
        files.add(lambda: len(self.destinations))
        if self.http is not None:
            for site in (self.http.site, self.http.media_site):
                site.open_files = files
                files.add(partial(getattr, site, "connections"))

    def _publish_start(self) -> None:
        """Give this run a name; the event log has it in every line."""
        self._instance = new_instance()
        self._started_at = self.factory.clock.seconds()
        if self._event_log is not None:
            self._event_log.start(self._instance)
        self.events.publish(
            ServerStarted(
                instance=self._instance,
                version=__version__,
                host=platform.node(),
                node=self.config.node_name,
            )
        )

    async def _publish_stop(self) -> None:
        """Publish the last event, and complete the event log."""
        duration = self.factory.clock.seconds() - self._started_at
        self.events.publish(ServerStopped(instance=self._instance, duration=duration))
        if self._event_log is not None:
            await self._event_log.stop()
