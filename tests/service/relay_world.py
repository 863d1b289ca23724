"""A relay, good and bad destinations, a publisher and a player, on real sockets in this process."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IReactorTCP, IReactorTime
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from zope.interface import implementer

from rtmprelay.client import play, publish
from rtmprelay.config.relay import RelayConfig
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationStatus
from rtmprelay.interfaces import IFrameSubscriber, IStreamObserver
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.rtmp.client import RtmpPlayClientProtocol, RtmpPublisherProtocol
from rtmprelay.service import RelayService
from rtmprelay.streams.frames import FrameBatch, LiveFrame
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.wire.url import RtmpUrl
from tests.helpers import the_reactor
from tests.service.interop import Relay

HEADER = MediaFrame(MediaKind.VIDEO, 0, b"\x17\x00\x00\x00\x00 configuration")


def pictures(count: int, size: int = 2000, gop: int = 25, interval_ms: int = 40) -> list[MediaFrame]:
    """Video frames that can be told apart."""
    frames = []
    for number in range(count):
        first = b"\x17\x01\x00\x00\x00" if number % gop == 0 else b"\x27\x01\x00\x00\x00"
        payload = first + number.to_bytes(4) + bytes([number % 251]) * size
        frames.append(MediaFrame(MediaKind.VIDEO, number * interval_ms, payload))
    return frames


@implementer(IFrameSubscriber)
class Collector:
    """Takes all frames of a stream."""

    def __init__(self) -> None:
        self.frames: list[MediaFrame] = []

    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        """Take what comes first."""
        self.frames += [live.frame for live in startup]

    def frames_arrived(self, batch: FrameBatch) -> None:
        """Take what comes then."""
        self.frames += [live.frame for live in batch.frames]

    def write(self, data: bytes) -> None:
        """Never called: there is nothing to write."""

    def publisher_left(self) -> None:
        """Nothing to do."""

    def publisher_returned(self) -> None:
        """Nothing to do."""


@implementer(IStreamObserver)
class Sink:
    """A server that keeps what is published to it."""

    def __init__(self, listen: str = "tcp:0:interface=127.0.0.1") -> None:
        self.service = RelayService(RelayConfig(listen=(listen,)))
        self.service.registry.add_observer(self)
        self.collector = Collector()
        self.ended_cleanly: list[bool] = []

    def stream_started(self, stream: LiveStream) -> None:
        """Listen."""
        if self.collector not in stream.subscribers:
            stream.subscribe(self.collector)

    def stream_stopped(self, stream: LiveStream, clean: bool) -> None:
        """Keep how it ended."""
        self.ended_cleanly.append(clean)

    @property
    def port(self) -> int:
        """Where it listens."""
        address = self.service.addresses[0]
        assert isinstance(address, IPv4Address)
        return address.port

    @property
    def pictures(self) -> list[MediaFrame]:
        """The coded frames that came."""
        return [frame for frame in self.collector.frames if frame.payload != HEADER.payload]


class World:
    """Everything that one test starts, so that it can be stopped."""

    def __init__(self) -> None:
        self._services: list[RelayService] = []
        self._ports: list[Any] = []
        self.relay: Relay | None = None
        self.played: list[MediaFrame] = []
        self._clients: list[RtmpPlayClientProtocol | RtmpPublisherProtocol] = []

    def start_sink(self, sink: Sink | None = None) -> Sink:
        """Start a destination, a good one unless another is given."""
        sink = sink or Sink()
        sink.service.startService()
        self._services.append(sink.service)
        return sink

    def start_relay(self, destinations: Iterable[DestinationSettings]) -> Relay:
        """Start the relay."""
        config = RelayConfig(listen=("tcp:0:interface=127.0.0.1",), destinations=tuple(destinations))
        service = RelayService(config)
        self.relay = Relay(service)
        service.startService()
        self._services.append(service)
        return self.relay

    def listen(self, make: Callable[[], Protocol]) -> int:
        """Start a server that is not one of ours; its port."""
        factory: Any = Factory.forProtocol(make)
        factory.noisy = False
        port = IReactorTCP(the_reactor()).listenTCP(0, factory, interface="127.0.0.1")
        self._ports.append(port)
        address = port.getHost()
        assert isinstance(address, IPv4Address)
        return address.port

    async def publish(self, key: str = "live/test") -> RtmpPublisherProtocol:
        """Start a publisher at the relay."""
        assert self.relay is not None
        publisher = await publish(the_reactor(), self.relay.url(key))
        self._clients.append(publisher)
        return publisher

    async def play(self, key: str = "live/test") -> None:
        """Start a player at the relay; what it gets is in `played`."""
        assert self.relay is not None
        player = await play(the_reactor(), self.relay.url(key))
        player.deliver_to(self.played.extend)
        self._clients.append(player)

    async def stop(self) -> None:
        """Stop all of it."""
        for client in self._clients:
            client.end()
        for service in self._services:
            if service.running:
                await service.stopService()
        for port in self._ports:
            await port.stopListening()

    def status(self, name: str) -> DestinationStatus:
        """How a destination is."""
        assert self.relay is not None
        return next(status for status in self.relay.service.destinations.statuses() if status.name == name)


def destination(
    name: str, port: int, scheme: str = "rtmp", host: str = "127.0.0.1", **more: Any
) -> DestinationSettings:
    """Settings for a destination on this machine."""
    return DestinationSettings(name=name, url=RtmpUrl.parse(f"{scheme}://{host}:{port}/live/{name}"), **more)


async def send_live(
    publisher: RtmpPublisherProtocol, frames: Sequence[MediaFrame], interval: float = 0.01
) -> None:
    """Send frames one by one, as an encoder does, without ever waiting for anyone."""
    clock = IReactorTime(the_reactor())
    for frame in frames:
        publisher.send(frame)
        await deferLater(clock, interval)


def closed_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
