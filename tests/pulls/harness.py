"""Relays in memory that fetch streams from each other, all on one clock."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.pulls.settings import PullSettings
from rtmprelay.pulls.status import FetchStatus
from rtmprelay.rtmp.node_pass import NodeIdentity
from rtmprelay.testing import MemoryClient
from rtmprelay.wire.url import RtmpUrl
from tests.helpers import group, start_frames
from tests.memory_nodes import FetchingNode, MemoryNetwork


def pull(name: str = "origin", url: str = "rtmp://origin/live/{name}", **more: Any) -> PullSettings:
    return PullSettings(name=name, url=RtmpUrl.parse(url), **more)


class Node(FetchingNode):
    """A relay that fetches what its rules say."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, NodeIdentity(name))
        self.server.factory.gate.placement = self.pulls
        self.pulls.start()

    @property
    def fetch(self) -> FetchStatus:
        """The status of the only stream that is fetched."""
        (fetch,) = [one.status() for one in self.pulls.fetches]
        return fetch

    def is_fetching(self) -> bool:
        return bool(list(self.pulls.fetches))


class World(MemoryNetwork[Node]):
    """All relays of a test."""

    def add(self, name: str) -> Node:
        node = Node(self, name)
        self.connect(node)
        return node

    def publish(self, node: Node, name: str = "cam") -> MemoryClient:
        """Publish to a node, and send the first frames."""
        encoder = node.server.connect()
        encoder.publish(name)
        self.send(encoder, *start_frames(), *group(0))
        return encoder

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
