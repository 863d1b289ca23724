"""The relay as a service on real sockets."""

# Services of Twisted have no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
from twisted.application.service import MultiService
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import SSL4ClientEndpoint, TCP4ClientEndpoint, connectProtocol
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IAddress, IListeningPort, IStreamServerEndpoint
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import Certificate, optionsForClientTLS
from twisted.logger import LogEvent, globalLogPublisher
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer

from rtmprelay import events
from rtmprelay.config.relay import RelayConfig
from rtmprelay.media import MediaFrame
from rtmprelay.rtmp.admission import AdmissionLimits
from rtmprelay.service import Listener, RelayService
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.wire.handshake import ClientHandshake
from tests.helpers import (
    EventList,
    ProxiedClient,
    SocketClient,
    connect_client,
    group,
    keyframe,
    real_reactor_fixture,
    real_reactor_test,
    start_frames,
    the_reactor,
    until,
)

LOOPBACK = "tcp:0:interface=127.0.0.1"

Start = Callable[..., RelayService]
Connect = Callable[..., Awaitable[SocketClient]]


def port_of(address: IAddress) -> int:
    return int(getattr(address, "port"))  # noqa: B009


def endpoint_of(service: RelayService) -> str:
    return f"tcp:127.0.0.1:{port_of(service.addresses[0])}"


@real_reactor_fixture
async def start() -> AsyncIterator[Start]:
    """Start relays that are stopped behind the test."""
    services: list[RelayService] = []

    def start_one(*listen: str, config: RelayConfig | None = None) -> RelayService:
        service = RelayService(config or RelayConfig(listen=listen or (LOOPBACK,)))
        services.append(service)
        service.startService()
        return service

    yield start_one
    for service in services:
        await service.stopService()


@real_reactor_fixture
async def connect() -> AsyncIterator[Connect]:
    """Make clients that are closed behind the test."""
    clients: list[SocketClient] = []

    async def connect_one(where: object, app: str = "live") -> SocketClient:
        client = await connect_client(cast(str, where), app)
        clients.append(client)
        return client

    yield connect_one
    for client in clients:
        await client.close()


async def publish_and_play(connect: Connect, endpoint: object) -> None:
    """What is published over an endpoint is what is played over it."""
    encoder = await connect(endpoint)
    await encoder.publish("cam")
    player = await connect(endpoint)
    await player.play("cam")
    sent = [*start_frames(), *group(0, size=3000), *group(200, size=90_000)]
    encoder.send(*sent)
    await until(lambda: len(player.frames) >= len(sent), "all frames")
    assert player.frames == sent


@real_reactor_test
async def test_publish_and_play(start: Start, connect: Connect) -> None:
    await publish_and_play(connect, endpoint_of(start()))


@real_reactor_test
async def test_a_child_of_another_service(connect: Connect) -> None:
    parent = MultiService()
    service = RelayService(RelayConfig(listen=(LOOPBACK,)))
    service.setServiceParent(parent)
    assert service.addresses == []
    parent.privilegedStartService()
    parent.startService()
    try:
        assert len(service.addresses) == 1
        assert port_of(service.addresses[0]) > 0
        await publish_and_play(connect, endpoint_of(service))
    finally:
        await parent.stopService()
    assert service.addresses == []


@real_reactor_test
async def test_two_in_one_process_know_nothing_of_each_other(start: Start, connect: Connect) -> None:
    first, second = start(), start()
    encoder = await connect(endpoint_of(first))
    await encoder.publish("cam")
    stranger = await connect(endpoint_of(second))
    stranger.session.play("cam")
    stranger.flush()
    await until(lambda: stranger.codes, "an answer to play")
    assert stranger.codes == ["NetStream.Play.StreamNotFound"]
    await publish_and_play(connect, endpoint_of(second))


@real_reactor_test
async def test_one_service_on_several_ports(start: Start, connect: Connect) -> None:
    service = start(LOOPBACK, LOOPBACK)
    first, second = (port_of(address) for address in service.addresses)
    assert first != second
    encoder = await connect(f"tcp:127.0.0.1:{first}")
    await encoder.publish("cam")
    player = await connect(f"tcp:127.0.0.1:{second}")
    await player.play("cam")
    encoder.send(keyframe(0))
    await until(lambda: player.frames, "a frame")


@real_reactor_test
async def test_start_and_stop_twice(connect: Connect) -> None:
    service = RelayService(RelayConfig(listen=(LOOPBACK,)))
    for _ in range(2):
        service.startService()
        client = await connect(endpoint_of(service))
        await client.publish("cam")
        await service.stopService()
        await until(lambda client=client: client.lost is not None, "the end")  # type: ignore[misc]
        assert client.codes == ["NetStream.Unpublish.Success"]
        assert service.addresses == []
        assert len(service.registry) == 0


@real_reactor_test
async def test_stopping_closes_the_port(start: Start) -> None:
    service = start()
    port = port_of(service.addresses[0])
    await service.stopService()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 1):
        pass


@real_reactor_test
async def test_a_port_in_use_is_an_error_at_start(start: Start) -> None:
    port = port_of(start().addresses[0])
    for begin in (RelayService.startService, RelayService.privilegedStartService):
        second = RelayService(RelayConfig(listen=(f"tcp:{port}:interface=127.0.0.1",)))
        with pytest.raises(CannotListenError, match=str(port)):
            begin(second)
        await second.stopService()


@implementer(IStreamServerEndpoint)
class LateEndpoint:
    """An endpoint that takes its time."""

    def __init__(self) -> None:
        self.opening: Deferred[IListeningPort] = Deferred()

    def listen(self, protocolFactory: object) -> Deferred[IListeningPort]:  # noqa: N803
        return self.opening


@real_reactor_test
async def test_a_port_that_fails_later_is_told_in_the_log(start: Start) -> None:
    endpoint = LateEndpoint()
    listener = Listener(endpoint, start().factory)
    lines: list[LogEvent] = []
    globalLogPublisher.addObserver(lines.append)  # type: ignore[arg-type]
    try:
        listener.startService()
        endpoint.opening.errback(CannotListenError("127.0.0.1", 1, OSError("no luck")))
        await listener.stopService()
    finally:
        globalLogPublisher.removeObserver(lines.append)  # type: ignore[arg-type]
    (line,) = [event for event in lines if event.get("log_failure") is not None]
    assert "no luck" in line["log_failure"].getErrorMessage()


@real_reactor_test
async def test_a_service_that_stops_before_its_port_is_open(start: Start) -> None:
    listener = Listener(LateEndpoint(), start().factory)
    listener.startService()
    await listener.stopService()
    assert listener.address is None


@real_reactor_test
async def test_a_client_is_told_that_the_service_stops(start: Start, connect: Connect) -> None:
    service = start()
    encoder = await connect(endpoint_of(service))
    await encoder.publish("cam")
    player = await connect(endpoint_of(service))
    await player.play("cam")
    await service.stopService()
    await until(lambda: encoder.lost and player.lost, "the end")
    assert encoder.codes[-1] == "NetStream.Unpublish.Success"
    assert player.codes[-1] == "NetStream.Play.UnpublishNotify"


@real_reactor_test
async def test_small_messages_do_not_wait(start: Start, connect: Connect) -> None:
    service = start()
    await connect(endpoint_of(service))
    (protocol,) = service.factory.connections
    accepted = protocol.transport.getHandle()  # type: ignore[union-attr]
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@real_reactor_test
async def test_the_configuration_reaches_the_connections(start: Start, connect: Connect) -> None:
    config = RelayConfig(
        listen=(LOOPBACK,),
        chunk_size=4096,
        admission_limits=AdmissionLimits(max_connections=1),
        statistics_interval=7.0,
    )
    service = start(config=config)
    sink = EventList()
    service.events.add_sink(sink)
    await connect(endpoint_of(service))
    (protocol,) = service.factory.connections
    assert protocol.session.channel.chunk_size == 4096
    assert service.factory.settings.statistics_interval == 7.0
    refused = socket.create_connection(("127.0.0.1", port_of(service.addresses[0])), 5)
    with refused:
        await until(lambda: sink.of(events.ConnectionRefused), "a refusal")


@real_reactor_test
async def test_a_real_stalled_socket_beside_a_good_one(start: Start, connect: Connect) -> None:
    limits = QueueLimits(max_bytes=500_000, max_ms=5000)
    service = start(config=RelayConfig(listen=(LOOPBACK,), queue_limits=limits))
    endpoint = endpoint_of(service)
    encoder = await connect(endpoint)
    await encoder.publish("cam")
    good = await connect(endpoint)
    await good.play("cam")
    stalled = await connect(endpoint)
    assert stalled.transport is not None
    handle = stalled.transport.getHandle()  # type: ignore[attr-defined]
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    await stalled.play("cam")
    stalled.transport.pauseProducing()  # type: ignore[attr-defined]
    (player,) = service.factory.connections[2].consumers()
    sent: list[MediaFrame] = []
    for begin in range(0, 40_000, 400):
        frames = group(begin, 10, 9000)
        sent += frames
        encoder.send(*frames)
        await until(lambda: len(good.frames) == len(sent), "all frames")  # noqa: B023
        assert player.is_balanced
        assert player.bytes_queued <= limits.max_bytes
    assert good.frames == sent
    assert player.account.messages_dropped > 0
    assert player.account.messages_in == len(sent)
    stalled.transport.resumeProducing()  # type: ignore[attr-defined]
    await until(lambda: player.messages_queued == 0, "the queue to empty")
    encoder.send(keyframe(50_000))
    await until(lambda: stalled.frames[-1:] == [keyframe(50_000)], "the stalled player to catch up")
    assert player.account.messages_sent == len(stalled.frames)


def tls_endpoint(service: RelayService, certificate_file: Path) -> SSL4ClientEndpoint:
    trusted = Certificate.loadPEM(certificate_file.read_bytes())
    options = optionsForClientTLS("127.0.0.1", trustRoot=trusted)
    return SSL4ClientEndpoint(the_reactor(), "127.0.0.1", port_of(service.addresses[0]), options)


def tls_listen(certificate: tuple[Path, Path]) -> str:
    return f"ssl:0:interface=127.0.0.1:privateKey={certificate[0]}:certKey={certificate[1]}"


@real_reactor_test
async def test_publish_and_play_over_tls(
    start: Start, connect: Connect, certificate: tuple[Path, Path]
) -> None:
    service = start(tls_listen(certificate))
    await publish_and_play(connect, tls_endpoint(service, certificate[1]))
    encoder = await connect(tls_endpoint(service, certificate[1]))
    await encoder.publish("other")
    await service.stopService()
    await until(lambda: encoder.lost is not None, "the end")
    assert encoder.codes[-1] == "NetStream.Unpublish.Success"
    assert encoder.lost == "Connection was closed cleanly.", "it was cut off instead of closed"


@pytest.mark.parametrize("kind", ["tcp", "ssl", "haproxy"])
@real_reactor_test
async def test_who_is_refused_is_closed(start: Start, certificate: tuple[Path, Path], kind: str) -> None:
    """On every kind of listener: a refused connection must not keep its file open."""
    listen = {"tcp": LOOPBACK, "ssl": tls_listen(certificate), "haproxy": f"haproxy:{LOOPBACK}"}[kind]
    service = start(config=RelayConfig(listen=(listen,), admission_limits=AdmissionLimits(max_connections=0)))
    greeting = {"tcp": b"", "ssl": b"", "haproxy": b"PROXY TCP4 198.51.100.7 127.0.0.1 4000 1935\r\n\x03"}[
        kind
    ]
    refused = await connectProtocol(
        TCP4ClientEndpoint(the_reactor(), "127.0.0.1", port_of(service.addresses[0])), Waiting()
    )
    refused.send(greeting)
    await until(lambda: refused.lost, "the end of a refused connection", within=5)


class Waiting(Protocol):
    """A client that waits to be closed."""

    lost = False

    def send(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = True


@real_reactor_test
async def test_behind_a_proxy_the_real_peer_is_shown_and_counted(start: Start) -> None:
    """The proxy's address stands for many: it does not count as one peer."""
    service = start(
        config=RelayConfig(
            listen=(f"haproxy:{LOOPBACK}",), admission_limits=AdmissionLimits(max_unconnected_per_address=1)
        )
    )
    seen = EventList()
    service.events.add_sink(seen)
    peers: set[str] = set()
    for number in range(3):
        endpoint = TCP4ClientEndpoint(the_reactor(), "127.0.0.1", port_of(service.addresses[0]))
        client = await connectProtocol(endpoint, Waiting())
        handshake = ClientHandshake()
        header = f"PROXY TCP4 198.51.100.{number} 127.0.0.1 4000 1935\r\n".encode()
        client.send(header + handshake.bytes_to_send() + bytes(1536))
        await until(lambda: len(seen.of(events.HandshakeCompleted)) > len(peers), "the handshake")
        peers.add(f"198.51.100.{number}:4000")
    assert seen.of(events.ConnectionRefused) == []
    await service.stopService()
    assert {event.peer for event in seen.of(events.ConnectionClosed)} == peers


@real_reactor_test
async def test_behind_a_proxy_the_connect_tells_who_it_is(start: Start) -> None:
    """Whoever asks who watches need not wait until they have gone."""
    service = start(config=RelayConfig(listen=(f"haproxy:{LOOPBACK}",)))
    seen = EventList()
    service.events.add_sink(seen)
    endpoint = TCP4ClientEndpoint(the_reactor(), "127.0.0.1", port_of(service.addresses[0]))
    client = await connectProtocol(endpoint, ProxiedClient())
    await until(lambda: seen.of(events.ClientConnected), "the connect")
    assert [event.peer for event in seen.of(events.ClientConnected)] == ["198.51.100.7:4000"]
    await client.close()


@real_reactor_test
async def test_a_stalled_player_over_tls_is_bounded(
    start: Start, connect: Connect, certificate: tuple[Path, Path]
) -> None:
    limits = QueueLimits(max_bytes=500_000, max_ms=5000)
    service = start(config=RelayConfig(listen=(tls_listen(certificate),), queue_limits=limits))
    endpoint = tls_endpoint(service, certificate[1])
    encoder = await connect(endpoint)
    await encoder.publish("cam")
    stalled = await connect(endpoint)
    await stalled.play("cam")
    stalled.transport.pauseProducing()  # type: ignore[union-attr]
    protocol = service.factory.connections[1]
    (player,) = protocol.consumers()
    count = 0
    while not player.account.messages_dropped:
        assert count < 400, "nothing is ever dropped"
        encoder.send(*group(count * 400, 10, 9000))
        count += 1
        await until(
            lambda: player.account.messages_in == 20 * count,  # noqa: B023
            "the frames at the player",
        )
        assert player.is_balanced
        assert player.bytes_queued <= limits.max_bytes
    await service.stopService()
    assert service.factory.connections == ()


@real_reactor_test
async def test_publish_and_play_over_a_unix_socket(start: Start, connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "rtmp.sock"
    service = start(f"unix:{path}")
    sink = EventList()
    service.events.add_sink(sink)
    await publish_and_play(connect, f"unix:{path}")
    assert {event.peer for event in sink.of(events.ConnectionOpened)} == {"local socket"}
    await service.stopService()
    assert not path.exists()
