"""The relay as a Twisted service: what an application embeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from twisted.application.service import MultiService, Service
from twisted.internet.defer import CancelledError, Deferred, gatherResults, maybeDeferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import (
    IAddress,
    IListeningPort,
    IProtocolFactory,
    IReactorFromThreads,
    IReactorTime,
    IStreamClientEndpoint,
    IStreamServerEndpoint,
)
from twisted.logger import Logger
from twisted.python.failure import Failure
from typing_extensions import override

from rtmprelay.config import RelayConfig
from rtmprelay.destinations.manager import DestinationManager
from rtmprelay.destinations.outlet import EndpointMaker, Surroundings
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.event_bus import EventBus, LogSink
from rtmprelay.protocols.publish_endpoint import RtmpPublishEndpoint, TlsTrust, transport_endpoint
from rtmprelay.protocols.server import RtmpServerFactory, ServerSettings, describe_address
from rtmprelay.recording.manager import RecordingManager
from rtmprelay.steady_clock import steady
from rtmprelay.streams.merging import Merging
from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.wire.url import RtmpUrl

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorCore


class Listener(Service):
    """One listening port. A port that cannot be opened is an error at once, not a line in the log."""

    _log = Logger()

    def __init__(self, endpoint: IStreamServerEndpoint, factory: IProtocolFactory) -> None:
        self._endpoint = endpoint
        self._factory = factory
        self._port: Deferred[IListeningPort | None] | None = None
        self.address: IAddress | None = None

    @override
    def privilegedStartService(self) -> None:
        super().privilegedStartService()
        self._listen()

    @override
    def startService(self) -> None:
        super().startService()
        if self._port is None:
            self._listen()

    def _listen(self) -> None:
        failures: list[Failure] = []
        self._port = self._endpoint.listen(self._factory).addCallback(self._opened)
        self._port.addErrback(failures.append)
        if failures:
            self._port = None
            failures[0].raiseException()
        # Some endpoints take their time; then the log is all that is left to tell it.
        self._port.addCallback(lambda port: self._tell_if_failed(port, failures))

    def _tell_if_failed(self, port: IListeningPort | None, failures: list[Failure]) -> IListeningPort | None:
        for failure in failures:
            if not failure.check(CancelledError):
                self._log.failure("Cannot listen", failure)
        return port

    def _opened(self, port: IListeningPort) -> IListeningPort:
        self.address = port.getHost()
        self._log.info("Listening on {address}", address=describe_address(self.address))
        return port

    @override
    def stopService(self) -> Deferred[None]:
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        waiting, self._port = self._port, None
        self.address = None
        if waiting is not None:
            waiting.cancel()
            port = await waiting
            if port is not None:
                await maybeDeferred(port.stopListening)


class RelayService(MultiService):
    """An RTMP server and relay: encoders publish, players watch, destinations get the streams.

    Make it a child of any service. Nothing in it is global, so that a process may have several.

    Attributes:
        registry: The live streams.
        events: What happens; add a sink to be told.
        destinations: Other servers that get the streams; add, remove and steer them while live.
        recordings: What is recorded; start and stop it while live.
        factory: The protocol factory, if you want to listen in your own way.
    """

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
        self.factory = RtmpServerFactory(
            steady(reactor), self.registry, self.events, _server_settings(self.config)
        )
        self._listeners = [
            Listener(serverFromString(cast("IReactorCore", reactor), description), self.factory)
            for description in self.config.listen
        ]
        for listener in self._listeners:
            listener.setServiceParent(self)
        self.destinations = DestinationManager(
            Surroundings(reactor, self.events, self.registry, _publish_endpoint_maker(reactor))
        )
        self.destinations.apply(self.config.destinations)
        self.recordings = RecordingManager(
            self.config.recording, self.registry, self.events, reactor, _caller_from_threads(reactor)
        )

    @property
    def addresses(self) -> list[IAddress]:
        """Where the service listens, once it does; with port 0 this tells which one it got."""
        return [listener.address for listener in self._listeners if listener.address is not None]

    @override
    def startService(self) -> None:
        self.factory.reopen()
        super().startService()
        self.destinations.start()
        self.recordings.start()

    @override
    def stopService(self) -> Deferred[None]:
        """Stop accepting, tell everybody who is connected, and fire when they have gone."""
        return Deferred.fromCoroutine(self._stop(super().stopService()))

    async def _stop(self, listeners_stopped: Deferred[object]) -> None:
        await listeners_stopped
        # All at once: a server or a disk that does not answer must not keep players waiting.
        await gatherResults([self.recordings.stop(), self.destinations.stop(), self.factory.shut_down()])


def _caller_from_threads(reactor: IReactorTime) -> Callable[..., object]:
    """Runs something in the reactor when asked from another thread; a clock in memory has no threads to ask from."""

    def call(function: Callable[..., object], *arguments: object) -> None:
        IReactorFromThreads(reactor).callFromThread(function, *arguments)

    return call


def _publish_endpoint_maker(reactor: IReactorTime) -> EndpointMaker:
    """Makes the way to each destination's server, anew for each attempt."""

    def make(url: RtmpUrl, settings: DestinationSettings) -> IStreamClientEndpoint:
        trust = TlsTrust(settings.verify, settings.ca_file)
        return RtmpPublishEndpoint(url, transport_endpoint(reactor, url, trust), reactor)

    return make


def _server_settings(config: RelayConfig) -> ServerSettings:
    return ServerSettings(
        chunk_size=config.chunk_size,
        limits=config.connection_limits,
        queue=config.queue_limits,
        max_connections=config.max_connections,
        max_unconnected_per_address=config.max_unconnected_per_address,
        statistics_interval=config.statistics_interval,
    )
