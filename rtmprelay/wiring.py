"""What the service hands to its parts: threads, endpoints, and the settings that each of them needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from twisted.application.service import IService, MultiService
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IReactorFromThreads,
    IReactorThreads,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.internet.threads import deferToThreadPool

from rtmprelay.config.relay import RelayConfig
from rtmprelay.control import InThread, at_once
from rtmprelay.destinations.outlet import EndpointMaker
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.event_bus import EventBus
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.rtmp.endpoint import TlsTrust, transport_endpoint
from rtmprelay.rtmp.server_factory import ServerSettings
from rtmprelay.wire.url import RtmpUrl

if TYPE_CHECKING:
    from rtmprelay.event_log.log import EventLog
    from rtmprelay.outputs.http_viewer import LiveMediaSettings

# Parts that only some relays have are imported by those relays: it saves a plain one a third of its start.


def adopt_services(plugins: Iterable[object], parent: MultiService) -> None:
    """Make the plugins that are services children of `parent`, so that they start and stop with it."""
    for plugin in plugins:
        if IService.providedBy(plugin):
            plugin.setServiceParent(parent)


def caller_from_threads(reactor: IReactorTime) -> Callable[..., object]:
    """Runs something in the reactor when asked from another thread; a clock in memory has no threads to ask from."""

    def call(function: Callable[..., object], *arguments: object) -> None:
        IReactorFromThreads(reactor).callFromThread(function, *arguments)

    return call


def event_log(settings: EventLogSettings, events: EventBus, reactor: IReactorTime) -> EventLog | None:
    """The event log; None if the settings name no folder."""
    if settings.folder is None:
        return None
    from rtmprelay.event_log.log import EventLog

    return EventLog(settings.folder, settings, events, reactor, caller_from_threads(reactor))


def thread_caller(reactor: IReactorTime) -> InThread:
    """Runs something that waits for a disk; a clock in memory has no threads, and its disk does not wait."""
    if not IReactorThreads.providedBy(reactor):
        return at_once

    def call(function: Callable[..., object], *arguments: object) -> Deferred[object]:
        return deferToThreadPool(reactor, reactor.getThreadPool(), function, *arguments)

    return call


def destination_endpoint_maker(reactor: IReactorTime) -> EndpointMaker:
    """Makes the endpoint of each attempt to reach a destination: the name of its server is looked up each time."""

    def make(url: RtmpUrl, settings: DestinationSettings) -> IStreamClientEndpoint:
        return transport_endpoint(reactor, url, TlsTrust(settings.verify, settings.ca_file))

    return make


def live_media_settings(config: RelayConfig) -> LiveMediaSettings:
    """Who watches over HTTP is treated as those who watch over RTMP are."""
    from rtmprelay.outputs.http_viewer import LiveMediaSettings

    return LiveMediaSettings(
        stream_name_size=config.connection_limits.stream_name_size,
        max_viewers=config.http.max_media_readers,
        queue=config.queue_limits,
        stall_timeout=config.connection_limits.stall_timeout,
        statistics_interval=config.statistics_interval,
    )


def written_folders(config: RelayConfig) -> dict[str, Path]:
    """The folders that the relay writes to, by what they are for. Any stream may be recorded on request."""
    folders = {"recordings": config.recording.folder}
    if config.hls.folder is not None:
        folders["HLS"] = config.hls.folder
    if config.event_log.folder is not None:
        folders["events"] = config.event_log.folder
    return folders


def server_settings(config: RelayConfig) -> ServerSettings:
    return ServerSettings(
        chunk_size=config.chunk_size,
        limits=config.connection_limits,
        queue=config.queue_limits,
        admission=config.admission_limits,
        max_publisher_kbps=config.max_publisher_kbps,
        statistics_interval=config.statistics_interval,
        keeps_requests=config.recheck is not None,
    )
