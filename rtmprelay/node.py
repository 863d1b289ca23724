"""A relay as one node of several: makes its cluster part, and empties it before it stops."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import attrs

from rtmprelay.clock import steady
from rtmprelay.cluster.settings import ClusterSettings
from rtmprelay.destinations.manager import DestinationManager
from rtmprelay.drain import Drain, DrainedClient
from rtmprelay.pulls.manager import PullManager
from rtmprelay.pulls.settings import PullSettings
from rtmprelay.pulls.source import FetchContext
from rtmprelay.rtmp.endpoint import transport_endpoint
from rtmprelay.rtmp.node_pass import NodeIdentity, random_node_name
from rtmprelay.rtmp.server_factory import RtmpServerFactory

if TYPE_CHECKING:
    from rtmprelay.cluster.cluster import Cluster
    from rtmprelay.config.relay import RelayConfig
    from rtmprelay.outputs.http_viewer import HttpViewer
    from rtmprelay.web.live_media import LiveMedia


def node_identity(config: RelayConfig) -> NodeIdentity:
    """The name of a relay among others, and what it shows them."""
    name = config.node_name or random_node_name()
    if config.cluster is None:
        return NodeIdentity(name)
    return NodeIdentity(name, config.cluster.secret, config.cluster.node_url)


def make_pulls(rules: Iterable[PullSettings], reactor: Any, factory: RtmpServerFactory) -> PullManager:
    """The part of a relay that fetches streams."""
    context = FetchContext(
        steady(reactor),
        reactor.seconds,
        factory.events,
        factory.registry,
        lambda url, trust: transport_endpoint(reactor, url, trust),
    )
    pulls = PullManager(context, factory.node)
    pulls.apply(rules)
    factory.gate.placement = pulls
    return pulls


def make_cluster(
    settings: ClusterSettings | None,
    reactor: Any,
    factory: RtmpServerFactory,
    pulls: PullManager,
    destinations: DestinationManager,
    instance: str,
) -> Cluster | None:
    """The part of a relay that joins it to a cluster; None without one."""
    if settings is None:
        return None
    # Only relays in a cluster need these, and the client of the directory.
    from rtmprelay.cluster.cluster import Cluster, ClusterContext
    from rtmprelay.cluster.notices import Messenger
    from rtmprelay.cluster.redis_directory import RedisDirectory

    def load() -> tuple[int, int]:
        watching = sum(stream.viewers for stream in factory.registry)
        return watching, factory.connection_count

    clock = steady(reactor)
    messenger = Messenger(factory.node, clock, lambda url: transport_endpoint(reactor, url))
    context = ClusterContext(clock, factory.events, factory.registry, pulls, destinations, messenger, load)
    cluster = Cluster(settings, factory.node, instance, RedisDirectory(reactor, settings.directory), context)
    factory.gate.placement = cluster
    factory.take_notice = cluster.take_notice
    return cluster


@attrs.define(eq=False)
class _Viewer:
    """A viewer over HTTP, in the form that a drain needs."""

    _viewer: HttpViewer

    def ask_to_reconnect(self) -> None:
        """HTTP has no message for this."""

    def send_away(self) -> None:
        self._viewer.end_after_queue("the server stops")


def start_drain(
    factory: RtmpServerFactory, media: LiveMedia | None, cluster: Cluster | None, duration: float
) -> Drain:
    """Accept no new clients and disconnect those that are here: viewers first, then the publishers that they watch."""

    def clients() -> list[DrainedClient]:
        # Other nodes feed their viewers from here until the publishers have gone.
        connections = [one for one in factory.connections if not one.is_closing and not one.is_cluster_node]
        connections.sort(key=lambda one: one.publishes)
        return [*map(_Viewer, () if media is None else media.viewers), *connections]

    drain = Drain(factory.clock, clients, duration)
    factory.gate.closed_because = "this server is about to stop: connect again, and another one answers"
    if cluster is not None:
        cluster.drain()
    drain.start()
    return drain
