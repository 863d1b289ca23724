"""Relays in memory that fetch streams from each other, all on one clock."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import Any, TypeVar

from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.destinations.failures import RetryPolicy
from rtmprelay.events import Event
from rtmprelay.media import MediaFrame
from rtmprelay.pulls.manager import PullManager
from rtmprelay.pulls.settings import PullSettings
from rtmprelay.pulls.source import FetchContext
from rtmprelay.pulls.status import FetchStatus
from rtmprelay.rtmp.endpoint import TlsTrust
from rtmprelay.rtmp.node_pass import NodeIdentity
from rtmprelay.rtmp.server_factory import ServerSettings
from rtmprelay.testing import MemoryClient, MemoryEndpoint, MemoryServer
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.url import RtmpUrl
from tests.helpers import group, start_frames

_E = TypeVar("_E", bound=Event)


def pull(name: str = "origin", url: str = "rtmp://origin/live/{name}", **more: Any) -> PullSettings:
    return PullSettings(name=name, url=RtmpUrl.parse(url), **more)


class Node:
    """A relay in memory that can fetch; its name is also its host."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.server = MemoryServer(
            # Publishers may be silent for as long as a test likes.
            ServerSettings(limits=ConnectionLimits(idle_timeout=1e6)),
            clock=world.clock,
        )
        self.identity = NodeIdentity(name)
        self.server.factory.node = self.identity
        self.pulls = PullManager(
            FetchContext(
                world.clock,
                world.clock.seconds,
                self.server.factory.events,
                self.server.registry,
                world.endpoint_for,
                lambda: RetryPolicy(jitter=lambda: 0.0, request="play"),
            ),
            self.identity,
        )
        self.server.factory.gate.placement = self.pulls
        self.pulls.start()

    @property
    def fetch(self) -> FetchStatus:
        """The status of the only stream that is fetched."""
        (fetch,) = [one.status() for one in self.pulls.fetches]
        return fetch

    def is_fetching(self) -> bool:
        return bool(list(self.pulls.fetches))

    def events_of(self, kind: type[_E]) -> list[_E]:
        return self.server.events_of(kind)


class World:
    """All relays of a test."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.nodes: dict[str, Node] = {}
        self.endpoints: dict[str, MemoryEndpoint] = {}

    def add(self, name: str) -> Node:
        node = self.nodes[name] = Node(self, name)
        self.endpoints[name] = MemoryEndpoint(node.server)
        return node

    def endpoint_for(self, url: RtmpUrl, trust: TlsTrust) -> IStreamClientEndpoint:
        return self.endpoints[url.host]

    def pump(self) -> None:
        """Let everything arrive that is on its way."""
        for _ in range(8):
            for node in self.nodes.values():
                node.server.pump()

    def advance(self, seconds: float, step: float = 0.5) -> None:
        """Let time pass."""
        left = seconds
        while left > 1e-9:
            self.clock.advance(min(step, left))
            left -= step
            self.pump()

    def publish(self, node: Node, name: str = "cam") -> MemoryClient:
        """Publish to a node, and send the first frames."""
        encoder = node.server.connect()
        encoder.publish(name)
        self.send(encoder, *start_frames(), *group(0))
        return encoder

    def send(self, encoder: MemoryClient, *frames: MediaFrame) -> None:
        encoder.send(*frames)
        self.pump()

    def play(self, node: Node, name: str = "cam", app: str = "live") -> MemoryClient:
        """Ask a node for a stream."""
        player = node.server.connect(app)
        player.play(name)
        self.pump()
        return player


class PullTestCase(SynchronousTestCase):
    """An origin, and an edge that fetches everything from it."""

    @override
    def setUp(self) -> None:
        self.world = World()
        self.origin = self.world.add("origin")
        self.edge = self.world.add("edge")
        self.edge.pulls.add(pull())
