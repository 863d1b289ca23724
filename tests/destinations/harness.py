"""The harness of the tests of destinations: a relay and the servers that it sends to, in memory."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.destinations.failures import RetryPolicy
from rtmprelay.destinations.manager import DestinationManager
from rtmprelay.destinations.outlet import OutletContext
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationStatus, OutletStatus
from rtmprelay.events import Event
from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind, milliseconds_between
from rtmprelay.rtmp.server_factory import ServerSettings
from rtmprelay.streams.merging import Merging
from rtmprelay.testing import MemoryClient, MemoryEndpoint, MemoryServer
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.url import RtmpUrl
from tests.destinations.stub_server import StubConnection, StubServer
from tests.helpers import audio, group, inter, keyframe, start_frames

_E = TypeVar("_E", bound=Event)


class MemoryRelay:
    """A relay in memory with its destinations and their servers, all on one clock.

    The host in the address of a destination names its server.
    """

    def __init__(self, merging: Callable[[Clock], Merging] | None = None) -> None:
        self.clock = Clock()
        # Publishers may be silent for as long as a test likes.
        limits = ConnectionLimits(idle_timeout=1e6)
        self.server = MemoryServer(
            ServerSettings(limits=limits), clock=self.clock, merging=merging(self.clock) if merging else None
        )
        self.stubs: dict[str, StubServer] = {}
        self._servers = [self.server]
        self._endpoints: dict[str, IStreamClientEndpoint] = {}
        #: Raised for each attempt to connect, before it reaches a server.
        self.endpoint_error: Exception | None = None
        self.destinations = self.destinations_of(self.server)

    def destinations_of(self, server: MemoryServer) -> DestinationManager:
        """Make the destinations of a server."""
        return DestinationManager(
            OutletContext(
                self.clock,
                self.clock.seconds,
                server.factory.events,
                server.registry,
                self._endpoint_for,
                lambda retries: RetryPolicy(retries, jitter=lambda: 0.0),
                server.factory.node.issue_for_destination,
            )
        )

    def _endpoint_for(self, url: RtmpUrl, settings: DestinationSettings) -> IStreamClientEndpoint:
        if self.endpoint_error is not None:
            raise self.endpoint_error
        return self._endpoints[url.host]

    # -- who takes part --------------------------------------------------------------------------------------

    def add_stub(self, host: str = "one") -> StubServer:
        """Add a server that does what a test tells it."""
        stub = self.stubs[host] = StubServer()
        self._endpoints[host] = stub
        return stub

    def add_server(self, host: str) -> MemoryServer:
        """Add a real server."""
        server = MemoryServer(clock=self.clock)
        self._servers.append(server)
        self._endpoints[host] = MemoryEndpoint(server)
        return server

    def add_itself(self, host: str) -> None:
        """Let an address lead to the relay itself."""
        self._endpoints[host] = MemoryEndpoint(self.server)

    def publish(self, name: str = "cam", app: str = "live") -> MemoryClient:
        """Connect an encoder that publishes to the relay."""
        encoder = self.server.connect(app)
        encoder.publish(name)
        self.pump()
        return encoder

    def add_destination(self, name: str = "one", url: str = "rtmp://one/live/key", **more: Any) -> None:
        self.destinations.add(destination(name, url, **more))
        self.pump()

    # -- what happens ----------------------------------------------------------------------------------------

    def send(self, encoder: MemoryClient, *frames: MediaFrame) -> None:
        """Send frames, and let them arrive everywhere."""
        encoder.send(*frames)
        self.pump()

    def pump(self) -> None:
        """Let everything arrive that is on its way."""
        for _ in range(6):
            for server in self._servers:
                server.pump()
            while sum(stub.pump() for stub in self.stubs.values()):
                pass

    def advance(self, seconds: float, step: float = 0.5) -> None:
        """Let time pass."""
        left = seconds
        while left > 1e-9:
            self.clock.advance(min(step, left))
            left -= step
            self.pump()

    # -- what is seen ----------------------------------------------------------------------------------------

    def status(self, name: str = "one") -> DestinationStatus:
        """The status of a destination."""
        (found,) = [status for status in self.destinations.statuses() if status.name == name]
        return found

    def outlet(self, name: str = "one") -> OutletStatus:
        """The status of the only stream of a destination."""
        (found,) = self.status(name).outlets
        return found

    def events_of(self, kind: type[_E]) -> list[_E]:
        """The events of one kind."""
        return self.server.events_of(kind)

    def assert_balanced(self) -> None:
        """Check that every message is accounted for."""
        for status in self.destinations.statuses():
            for outlet in status.outlets:
                total = outlet.messages_sent + outlet.messages_dropped + outlet.messages_queued
                assert outlet.messages_in == total, outlet
                assert outlet.messages_dropped == sum(outlet.dropped_by_reason.values()), outlet
                assert min(outlet.messages_sent, outlet.messages_dropped, outlet.messages_queued) >= 0


def destination(name: str = "one", url: str = "rtmp://one/live/key", **more: Any) -> DestinationSettings:
    return DestinationSettings(name=name, url=RtmpUrl.parse(url), **more)


class DestinationTestCase(SynchronousTestCase):
    """A relay with as many destinations as a test adds."""

    @override
    def setUp(self) -> None:
        self.relay = MemoryRelay()
        self.destinations = self.relay.destinations

    def live(self, name: str = "cam", app: str = "live") -> MemoryClient:
        """Publish a stream and send its first frames."""
        encoder = self.relay.publish(name, app)
        self.relay.send(encoder, *start_frames(), *group(0))
        return encoder

    def keys(self, stub: StubServer) -> list[object]:
        """The keys that were published to a server, in order."""
        return [connection.command("publish").arguments[0] for connection in stub.connections]

    def apps(self, stub: StubServer) -> list[object]:
        """The apps that a server was asked for, in order."""
        objects = [connection.command("connect").command_object for connection in stub.connections]
        return [values["app"] for values in objects if isinstance(values, dict)]


def coded(messages: Sequence[RawMessage]) -> list[RawMessage]:
    """Audio and video without their headers."""
    return [raw for raw in messages if raw.type_id != 18 and raw.payload[1] != 0]


def wrapped(frames: Sequence[MediaFrame]) -> list[MediaFrame]:
    """The frames, with timestamps modulo 32 bits."""
    return [MediaFrame(frame.kind, frame.timestamp_ms % TIMESTAMP_MODULUS, frame.payload) for frame in frames]


class OutletTestCase(SynchronousTestCase):
    """A relay with one destination, whose server is a stub."""

    @override
    def setUp(self) -> None:
        self.relay = MemoryRelay()
        self.server = self.relay.add_stub()

    @property
    def last(self) -> StubConnection:
        """The newest connection to the server."""
        return self.server.last

    def start(self, **settings: Any) -> MemoryClient:
        """Add the destination, publish, and send the first frames."""
        self.relay.add_destination(**settings)
        encoder = self.relay.publish()
        self.relay.send(encoder, *start_frames(), *group(0))
        return encoder

    def assert_starts_decodable(self, connection: StubConnection) -> None:
        """Check that metadata in its envelope comes first, then headers and a keyframe."""
        assert connection.media[0].payload.startswith(b"\x02\x00\x0d@setDataFrame\x02\x00\x0aonMetaData")
        assert [raw.payload[:2] for raw in connection.media[1:4]] == [b"\x17\x00", b"\xaf\x00", b"\x17\x01"]

    def assert_time_goes_on(self) -> None:
        """Check over all connections that coded frames never go back in time, and that none was sent twice."""
        messages = [raw for connection in self.server.connections for raw in coded(connection.media)]
        for before, after in pairwise(messages):
            assert milliseconds_between(before.timestamp, after.timestamp) >= 0
        assert len({raw.payload for raw in messages}) == len(messages), "a frame was sent twice"


def group_around(begin: int) -> list[MediaFrame]:
    """A group of pictures whose timestamps may exceed 32 bits; no two payloads are the same."""
    frames = []
    for number in range(5):
        time = begin + 40 * number
        maker = inter if number else keyframe
        frames.append(MediaFrame(MediaKind.VIDEO, time, maker(time % TIMESTAMP_MODULUS).payload))
        frames.append(MediaFrame(MediaKind.AUDIO, time, audio(time % TIMESTAMP_MODULUS).payload))
    return frames
