"""Relays in memory that fetch from each other, all on one clock: what the tests of pulls and of clusters share."""

from __future__ import annotations

from typing import Generic, TypeVar

from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.task import Clock

from rtmprelay.destinations.failures import RetryPolicy
from rtmprelay.events import Event
from rtmprelay.media import MediaFrame
from rtmprelay.pulls.manager import PullManager
from rtmprelay.pulls.source import FetchContext
from rtmprelay.rtmp.endpoint import TlsTrust
from rtmprelay.rtmp.node_pass import NodeIdentity
from rtmprelay.rtmp.server_factory import ServerSettings
from rtmprelay.testing import MemoryClient, MemoryEndpoint, MemoryServer
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.url import RtmpUrl

_E = TypeVar("_E", bound=Event)
_N = TypeVar("_N", bound="FetchingNode")


class FetchingNode:
    """A relay that can fetch; its name is also its host."""

    def __init__(self, world: MemoryNetwork[_N], identity: NodeIdentity) -> None:
        self.name = identity.name
        self.server = world.new_server()
        self.identity = self.server.factory.node = identity
        self.pulls = PullManager(
            FetchContext(
                world.clock,
                world.clock.seconds,
                self.server.factory.events,
                self.server.registry,
                world.endpoint_for,
                lambda: RetryPolicy(jitter=lambda: 0.0, request="play"),
            ),
            identity,
        )

    def events_of(self, kind: type[_E]) -> list[_E]:
        return self.server.events_of(kind)


class MemoryNetwork(Generic[_N]):
    """All relays of a test."""

    #: Seconds that time takes at once.
    step = 0.5

    def __init__(self) -> None:
        self.clock = Clock()
        self.servers: list[MemoryServer] = []
        self.nodes: dict[str, _N] = {}
        self.endpoints: dict[str, MemoryEndpoint] = {}

    def new_server(self) -> MemoryServer:
        """A relay whose publishers may be silent for as long as a test likes."""
        settings = ServerSettings(limits=ConnectionLimits(idle_timeout=1e6))
        self.servers.append(MemoryServer(settings, clock=self.clock))
        return self.servers[-1]

    def connect(self, node: _N) -> None:
        """Let others reach a node by its name."""
        self.nodes[node.name] = node
        self.endpoints[node.name] = MemoryEndpoint(node.server)

    def endpoint_for(self, url: RtmpUrl, trust: TlsTrust) -> IStreamClientEndpoint:
        return self.endpoints[url.host]

    def pump(self) -> None:
        """Let everything arrive that is on its way."""
        for _ in range(8):
            for server in self.servers:
                server.pump()

    def advance(self, seconds: float, step: float | None = None) -> None:
        """Let time pass."""
        step = step or self.step
        left = seconds
        while left > 1e-9:
            self.clock.advance(min(step, left))
            left -= step
            self.pump()

    def send(self, encoder: MemoryClient, *frames: MediaFrame) -> None:
        encoder.send(*frames)
        self.pump()
