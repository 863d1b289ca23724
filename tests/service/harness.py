"""The harness of the tests with real sockets in this process: relays, clients and other servers on loopback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from twisted.internet.address import IPv4Address
from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import (
    IListeningPort,
    IReactorTCP,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from zope.interface import implementer

from rtmprelay.client import play, publish
from rtmprelay.config.relay import RelayConfig
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationStatus
from rtmprelay.events import Event
from rtmprelay.interfaces import IEventSink, IFrameSubscriber, IStreamObserver
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.rtmp.client import RtmpPlayClientProtocol, RtmpPublisherProtocol
from rtmprelay.service import RelayService
from rtmprelay.streams.frames import FrameBatch, LiveFrame
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.wire.url import RtmpUrl
from tests.helpers import LOOPBACK, SocketClient, connect_client, group, start_frames, the_reactor, until

_E = TypeVar("_E", bound=Event)

HEADER = MediaFrame(MediaKind.VIDEO, 0, b"\x17\x00\x00\x00\x00 configuration")


def pictures(count: int, size: int = 2000, gop: int = 25, interval_ms: int = 40) -> list[MediaFrame]:
    """Video frames that differ from each other."""
    frames = []
    for number in range(count):
        first = b"\x17\x01\x00\x00\x00" if number % gop == 0 else b"\x27\x01\x00\x00\x00"
        payload = first + number.to_bytes(4) + bytes([number % 251]) * size
        frames.append(MediaFrame(MediaKind.VIDEO, number * interval_ms, payload))
    return frames


@implementer(IEventSink)
class Relay:
    """A relay service on real sockets, and the events that it published."""

    def __init__(self, service: RelayService) -> None:
        self.service = service
        self.events: list[Event] = []
        service.events.add_sink(self)

    def event_happened(self, time: float, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[_E]) -> list[_E]:
        """All events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def port(self) -> int:
        """The RTMP port; the first one if there are several."""
        return _port(self.service.addresses[0])

    @property
    def http_port(self) -> int:
        return _port(self.service.http_address)

    @property
    def endpoint(self) -> str:
        """The RTMP port as the description of a client endpoint."""
        return f"tcp:127.0.0.1:{self.port}"

    def url(self, key: str, scheme: str = "rtmp") -> str:
        """The URL of a stream."""
        return f"{scheme}://127.0.0.1:{self.port}/{key}"

    async def until(self, condition: Callable[[], object]) -> None:
        """Let the reactor run until a condition is true; a failure shows the last events."""
        try:
            await until(condition)
        except AssertionError as error:
            raise AssertionError(f"{error}; events: {self.events[-5:]}") from None

    async def until_live(self, key: str, keyframes: int = 1) -> None:
        """Wait until a stream has sent so many keyframes, or ten times as many frames if it has no video."""

        def live() -> bool:
            stream = self.service.registry.get(key)
            if stream is None or stream.publisher is None:
                return False
            if stream.video_codec is None:
                return stream.counters.audio_frames >= 10 * keyframes
            return stream.counters.keyframes >= keyframes

        await self.until(live)

    async def until_watched(self, key: str, viewers: int = 1) -> None:
        """Wait until a stream has so many viewers, over RTMP and HTTP together."""
        stream = self.service.registry.live(key)
        await self.until(lambda: stream.viewers >= viewers)


def _port(address: object) -> int:
    return int(getattr(address, "port", 0))


@implementer(IFrameSubscriber)
class Collector:
    """Collects all frames of a stream."""

    def __init__(self) -> None:
        self.frames: list[MediaFrame] = []

    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        self.frames += [live.frame for live in startup]

    def frames_arrived(self, batch: FrameBatch) -> None:
        self.frames += [live.frame for live in batch.frames]

    def write(self, data: bytes) -> None:
        """Never called: `frames_arrived` returns nothing to write."""

    def publisher_left(self) -> None: ...

    def publisher_returned(self) -> None: ...


@implementer(IStreamObserver)
class Sink:
    """A server that collects what is published to it: a destination for tests."""

    def __init__(self, listen: str = LOOPBACK) -> None:
        self.service = RelayService(RelayConfig(listen=(listen,)))
        self.service.registry.add_observer(self)
        self.collector = Collector()
        self.ended_cleanly: list[bool] = []

    def stream_started(self, stream: LiveStream) -> None:
        if self.collector not in stream.subscribers:
            stream.subscribe(self.collector)

    def stream_stopped(self, stream: LiveStream, clean: bool) -> None:
        self.ended_cleanly.append(clean)

    @property
    def port(self) -> int:
        return _port(self.service.addresses[0])

    @property
    def pictures(self) -> list[MediaFrame]:
        """The coded frames that arrived."""
        return [frame for frame in self.collector.frames if frame.payload != HEADER.payload]


class Harness:
    """Starts what a test needs on loopback, and stops all of it at the end of the test.

    `publish`, `play` and `status` are about the relay that was started last.
    """

    def __init__(self) -> None:
        self._services: list[RelayService] = []
        self._ports: list[IListeningPort] = []
        self._clients: list[RtmpPlayClientProtocol | RtmpPublisherProtocol] = []
        self._socket_clients: list[SocketClient] = []
        self._relay: Relay | None = None
        #: The frames that the players of `play` got.
        self.played: list[MediaFrame] = []

    @property
    def relay(self) -> Relay:
        """The relay that was started last."""
        assert self._relay is not None, "no relay was started"
        return self._relay

    def start_relay(self, *listen: str, **settings: Any) -> Relay:
        """Start a relay.

        Args:
            listen: Endpoint descriptions; without them, a free port.
            settings: Other fields of its `RelayConfig`.
        """
        service = RelayService(RelayConfig(listen=listen or (LOOPBACK,), **settings))
        self._relay = Relay(service)
        self._services.append(service)
        service.startService()
        return self._relay

    def start_sink(self, sink: Sink | None = None) -> Sink:
        """Start a destination that accepts everything, or the given one."""
        sink = sink or Sink()
        self._services.append(sink.service)
        sink.service.startService()
        return sink

    def listen(self, make: Callable[[], Protocol]) -> int:
        """Start a server that speaks another protocol; returns its port."""
        factory: Any = Factory.forProtocol(make)
        factory.noisy = False
        port = IReactorTCP(the_reactor()).listenTCP(0, factory, interface="127.0.0.1")
        self._ports.append(port)
        address = port.getHost()
        assert isinstance(address, IPv4Address)
        return address.port

    async def connect(
        self, where: Relay | str | IStreamClientEndpoint | None = None, app: str = "live"
    ) -> SocketClient:
        """Connect a client that can publish and play.

        Args:
            where: A relay, or an endpoint; without it, the relay that was started last.
        """
        endpoint = self.relay.endpoint if where is None else where
        client = await connect_client(endpoint.endpoint if isinstance(endpoint, Relay) else endpoint, app)
        self._socket_clients.append(client)
        return client

    async def publish(self, key: str = "live/test") -> RtmpPublisherProtocol:
        """Start a publisher."""
        publisher = await publish(the_reactor(), self.relay.url(key))
        self._clients.append(publisher)
        return publisher

    async def play(self, key: str = "live/test") -> None:
        """Start a player whose frames are added to `played`."""
        player = await play(the_reactor(), self.relay.url(key))
        player.deliver_to(self.played.extend)
        self._clients.append(player)

    async def publish_and_play(self, endpoint: str | IStreamClientEndpoint) -> None:
        """Publish a stream over an endpoint, and check that a player gets all of it over the same one."""
        encoder = await self.connect(endpoint)
        await encoder.publish("cam")
        player = await self.connect(endpoint)
        await player.play("cam")
        sent = [*start_frames(), *group(0, size=3000), *group(200, size=90_000)]
        encoder.send(*sent)
        await until(lambda: len(player.frames) >= len(sent), "all frames")
        assert player.frames == sent

    def status(self, name: str) -> DestinationStatus:
        """The status of a destination."""
        return next(status for status in self.relay.service.destinations.statuses() if status.name == name)

    async def stop(self) -> None:
        """Stop everything that was started."""
        for client in self._clients:
            client.end()
        for socket_client in self._socket_clients:
            await socket_client.close()
        for service in self._services:
            if service.running:
                await service.stopService()
        for port in self._ports:
            await maybeDeferred(port.stopListening)


def destination(
    name: str, port: int, scheme: str = "rtmp", host: str = "127.0.0.1", **more: Any
) -> DestinationSettings:
    """Settings for a destination on this machine."""
    return DestinationSettings(name=name, url=RtmpUrl.parse(f"{scheme}://{host}:{port}/live/{name}"), **more)


async def send_live(
    publisher: RtmpPublisherProtocol, frames: Sequence[MediaFrame], interval: float = 0.01
) -> None:
    """Send frames one by one at a steady pace, as an encoder does."""
    clock = IReactorTime(the_reactor())
    for frame in frames:
        publisher.send(frame)
        await deferLater(clock, interval)
