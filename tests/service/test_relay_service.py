"""The relay as a service on real sockets."""

# Services of Twisted have no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import socket

import pytest
from twisted.application.service import MultiService
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IStreamServerEndpoint
from twisted.logger import LogEvent, globalLogPublisher
from zope.interface import implementer

from rtmprelay import events
from rtmprelay.config.relay import RelayConfig
from rtmprelay.listener import Listener
from rtmprelay.media import MediaFrame
from rtmprelay.rtmp.admission import AdmissionLimits
from rtmprelay.service import RelayService
from rtmprelay.streams.limits import QueueLimits
from tests.helpers import (
    LOOPBACK,
    group,
    keyframe,
    real_reactor_test,
    until,
)
from tests.service.harness import Harness, Relay


@real_reactor_test
async def test_player_gets_what_is_published(harness: Harness) -> None:
    await harness.publish_and_play(harness.start_relay().endpoint)


@real_reactor_test
async def test_relay_works_as_a_child_of_another_service(harness: Harness) -> None:
    parent = MultiService()
    service = RelayService(RelayConfig(listen=(LOOPBACK,)))
    service.setServiceParent(parent)
    assert service.addresses == []
    parent.privilegedStartService()
    parent.startService()
    try:
        assert len(service.addresses) == 1
        assert Relay(service).port > 0
        await harness.publish_and_play(Relay(service).endpoint)
    finally:
        await parent.stopService()
    assert service.addresses == []


@real_reactor_test
async def test_two_relays_in_one_process_have_streams_of_their_own(harness: Harness) -> None:
    first, second = harness.start_relay(), harness.start_relay()
    encoder = await harness.connect(first.endpoint)
    await encoder.publish("cam")
    stranger = await harness.connect(second.endpoint)
    stranger.session.play("cam")
    stranger.flush()
    await until(lambda: stranger.codes, "an answer to play")
    assert stranger.codes == ["NetStream.Play.StreamNotFound"]
    await harness.publish_and_play(second.endpoint)


@real_reactor_test
async def test_streams_are_shared_by_all_ports(harness: Harness) -> None:
    relay = harness.start_relay(LOOPBACK, LOOPBACK)
    first, second = (getattr(address, "port", 0) for address in relay.service.addresses)
    assert relay.port == first != second
    encoder = await harness.connect()
    await encoder.publish("cam")
    player = await harness.connect(f"tcp:127.0.0.1:{second}")
    await player.play("cam")
    encoder.send(keyframe(0))
    await until(lambda: player.frames, "a frame")


@real_reactor_test
async def test_relay_may_be_started_again(harness: Harness) -> None:
    service = RelayService(RelayConfig(listen=(LOOPBACK,)))
    for _ in range(2):
        service.startService()
        client = await harness.connect(Relay(service))
        await client.publish("cam")
        await service.stopService()
        await until(lambda client=client: client.lost is not None, "the end")  # type: ignore[misc]
        assert client.codes == ["NetStream.Unpublish.Success"]
        assert service.addresses == []
        assert len(service.registry) == 0


@real_reactor_test
async def test_stop_closes_the_port(harness: Harness) -> None:
    relay = harness.start_relay()
    port = relay.port
    await relay.service.stopService()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 1):
        pass


@real_reactor_test
async def test_port_in_use_is_an_error_at_start(harness: Harness) -> None:
    port = harness.start_relay().port
    for begin in (RelayService.startService, RelayService.privilegedStartService):
        second = RelayService(RelayConfig(listen=(f"tcp:{port}:interface=127.0.0.1",)))
        with pytest.raises(CannotListenError, match=str(port)):
            begin(second)
        await second.stopService()


@implementer(IStreamServerEndpoint)
class LateEndpoint:
    """An endpoint that opens its port later."""

    def __init__(self) -> None:
        self.opening: Deferred[IListeningPort] = Deferred()

    def listen(self, protocolFactory: object) -> Deferred[IListeningPort]:  # noqa: N803
        return self.opening


@real_reactor_test
async def test_port_that_cannot_be_opened_later_is_logged(harness: Harness) -> None:
    endpoint = LateEndpoint()
    listener = Listener(endpoint, harness.start_relay().service.factory)
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
async def test_listener_may_stop_before_its_port_is_open(harness: Harness) -> None:
    listener = Listener(LateEndpoint(), harness.start_relay().service.factory)
    listener.startService()
    await listener.stopService()
    assert listener.address is None


@real_reactor_test
async def test_stop_says_goodbye_to_clients(harness: Harness) -> None:
    relay = harness.start_relay()
    encoder = await harness.connect(relay.endpoint)
    await encoder.publish("cam")
    player = await harness.connect(relay.endpoint)
    await player.play("cam")
    await relay.service.stopService()
    await until(lambda: encoder.lost and player.lost, "the end")
    assert encoder.codes[-1] == "NetStream.Unpublish.Success"
    assert player.codes[-1] == "NetStream.Play.UnpublishNotify"


@real_reactor_test
async def test_connections_send_small_messages_at_once(harness: Harness) -> None:
    relay = harness.start_relay()
    await harness.connect(relay.endpoint)
    (protocol,) = relay.service.factory.connections
    accepted = protocol.transport.getHandle()  # type: ignore[union-attr]
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@real_reactor_test
async def test_connections_use_the_configuration(harness: Harness) -> None:
    relay = harness.start_relay(
        chunk_size=4096, admission_limits=AdmissionLimits(max_connections=1), statistics_interval=7.0
    )
    await harness.connect(relay.endpoint)
    (protocol,) = relay.service.factory.connections
    assert protocol.session.channel.chunk_size == 4096
    assert relay.service.factory.settings.statistics_interval == 7.0
    refused = socket.create_connection(("127.0.0.1", relay.port), 5)
    with refused:
        await until(lambda: relay.of(events.ConnectionRefused), "a refusal")


@real_reactor_test
async def test_stalled_player_has_a_bounded_queue_and_disturbs_nobody(harness: Harness) -> None:
    limits = QueueLimits(max_bytes=500_000, max_ms=5000)
    relay = harness.start_relay(LOOPBACK, queue_limits=limits)
    endpoint = relay.endpoint
    encoder = await harness.connect(endpoint)
    await encoder.publish("cam")
    good = await harness.connect(endpoint)
    await good.play("cam")
    stalled = await harness.connect(endpoint)
    assert stalled.transport is not None
    handle = stalled.transport.getHandle()  # type: ignore[attr-defined]
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    await stalled.play("cam")
    stalled.transport.pauseProducing()  # type: ignore[attr-defined]
    (player,) = relay.service.factory.connections[2].consumers()
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
