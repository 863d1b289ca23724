"""A cluster in memory: nodes, a directory, encoders, players and a destination that counts its publishers."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import TypeVar

from twisted.internet.error import ConnectionRefusedError
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.cluster.cluster import Cluster, ClusterContext
from rtmprelay.cluster.memory_directory import MemoryDirectory, SharedRecords
from rtmprelay.cluster.notices import Messenger
from rtmprelay.cluster.settings import ClusterSettings, DirectoryAddress, WhenLost
from rtmprelay.destinations.failures import RetryPolicy
from rtmprelay.destinations.manager import DestinationManager
from rtmprelay.destinations.outlet import OutletContext
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.events import Event
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.rtmp.endpoint import TlsTrust
from rtmprelay.rtmp.node_pass import NodeIdentity
from rtmprelay.secret import Secret
from rtmprelay.testing import MemoryClient, MemoryEndpoint
from rtmprelay.wire.url import RtmpUrl
from tests.helpers import group, start_frames
from tests.memory_nodes import FetchingNode, MemoryNetwork

_E = TypeVar("_E", bound=Event)

SECRET = Secret("the secret of all nodes")


class Node(FetchingNode):
    """A relay in memory that is a node of a cluster."""

    def __init__(
        self, world: World, name: str, when_lost: WhenLost, secret: Secret, has_destination: bool
    ) -> None:
        url = f"rtmp://{name}:1935"
        super().__init__(world, NodeIdentity(name, secret, url, lambda: 1e9 + world.clock.seconds()))
        self.world = world
        factory, identity = self.server.factory, self.identity
        self.destinations = DestinationManager(
            OutletContext(
                world.clock,
                world.clock.seconds,
                factory.events,
                self.server.registry,
                lambda url, settings: world.endpoint_for(url, TlsTrust()),
                lambda retries: RetryPolicy(retries, jitter=lambda: 0.0),
            )
        )
        if has_destination:
            target = RtmpUrl.parse("rtmp://sink/live/key")
            self.destinations.add(DestinationSettings(name="sink", url=target))
        self.directory = MemoryDirectory(world.records)
        self.cluster = Cluster(
            ClusterSettings(DirectoryAddress("directory"), url, secret, when_lost),
            identity,
            f"run-of-{name}-{len(world.nodes)}",
            self.directory,
            ClusterContext(
                world.clock,
                factory.events,
                self.server.registry,
                self.pulls,
                self.destinations,
                Messenger(identity, world.clock, lambda url: world.endpoint_for(url, TlsTrust())),
                lambda: (0, factory.connection_count),
            ),
        )
        factory.gate.placement = self.cluster
        factory.take_notice = self.cluster.take_notice
        self.cluster.start()
        self.pulls.start()

    def owns(self, key: str = "live/cam") -> bool:
        return key in self.cluster.claims

    def die(self) -> None:
        """Lose everything at once, as with kill -9."""
        self.directory.is_cut = True
        self.world.endpoints[self.name].failure = ConnectionRefusedError()
        for link in self.server.links:
            link.client_transport.abortConnection()
        for other in self.world.nodes.values():
            for link in other.server.links:
                if link._client in self._clients_of_me():
                    link.client_transport.abortConnection()
        self.world.dead.add(self.name)

    def _clients_of_me(self) -> set[object]:
        clients: set[object] = set()
        for destination in self.destinations:
            for outlet in destination._outlets.values():
                clients.add(getattr(outlet, "_publisher", None))
        return clients


class World(MemoryNetwork[Node]):
    """All nodes of a test, and the sink that is everybody's destination."""

    step = 0.25

    def __init__(self) -> None:
        super().__init__()
        self.records = SharedRecords(self.clock.seconds)
        self.dead: set[str] = set()
        self.sink = self.new_server()
        self.endpoints["sink"] = MemoryEndpoint(self.sink)

    def add(
        self,
        name: str,
        when_lost: WhenLost = WhenLost.BY_DESTINATIONS,
        secret: Secret = SECRET,
        has_destination: bool = False,
    ) -> Node:
        node = Node(self, name, when_lost, secret, has_destination)
        self.connect(node)
        self.advance(0.1)
        return node

    def publish(self, node: Node, name: str = "cam") -> MemoryClient:
        encoder = node.server.connect()
        encoder.publish(name)
        self.pump()
        return encoder

    def live(self, node: Node, name: str = "cam") -> MemoryClient:
        """Publish, and send the first frames."""
        encoder = self.publish(node, name)
        self.send(encoder, *start_frames(), *group(0))
        return encoder

    def play(self, node: Node, name: str = "cam") -> MemoryClient:
        player = node.server.connect()
        player.play(name)
        # A name that the node does not know is looked up, at most ten times a second.
        self.advance(0.2, step=0.1)
        return player

    @property
    def sink_connections(self) -> list[str]:
        """Those who are connected to the sink."""
        return [one.connection_id for one in self.sink.factory.connections]


def notices(client: MemoryClient) -> list[str]:
    """What a client was told, without the answers to its requests."""
    return [code for code in client.codes if code != "NetStream.Play.Reset"]


def pictures(client: MemoryClient) -> list[bytes]:
    """The payloads of the coded frames that came."""
    return [
        frame.payload for frame in client.frames if frame.kind is not MediaKind.DATA and frame.payload[1] == 1
    ]


def payloads(frames: list[MediaFrame]) -> list[bytes]:
    return [frame.payload for frame in frames]


class ClusterTestCase(SynchronousTestCase):
    """Three nodes."""

    @override
    def setUp(self) -> None:
        self.world = World()
        self.one, self.two, self.three = (self.world.add(name) for name in ("one", "two", "three"))
