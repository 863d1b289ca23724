"""Peers that speak nonsense, too slowly or too much, on real sockets; and those beside them, who do not notice."""

# Services of Twisted have no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString, connectProtocol
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import LoopingCall
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from typing_extensions import override

from rtmprelay.amf import amf0
from rtmprelay.config.relay import RelayConfig
from rtmprelay.events import ConnectionClosed
from rtmprelay.media import MediaFrame
from rtmprelay.service import RelayService
from rtmprelay.wire.chunk_writer import encode_standalone
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.messages import MessageType
from tests.helpers import (
    EventList,
    SocketClient,
    audio,
    connect_client,
    keyframe,
    real_reactor_fixture,
    real_reactor_test,
    the_reactor,
    until,
)


class Stranger(Protocol):
    """Sends what it is told to, and notices when it is sent away."""

    lost = False

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = True

    def send(self, data: bytes) -> None:
        """Send bytes."""
        assert self.transport is not None
        self.transport.write(data)


@attrs.define
class Bystanders:
    """A relay with a publisher and a player who must not notice anything."""

    service: RelayService
    encoder: SocketClient
    player: SocketClient
    sink: EventList
    lines: list[LogEvent]
    endpoint: str
    sent: list[MediaFrame] = attrs.field(factory=list)

    def send(self) -> None:
        """Publish one more frame."""
        time = 40 * len(self.sent)
        frame = keyframe(time) if len(self.sent) % 25 == 0 else audio(time)
        self.sent.append(frame)
        self.encoder.send(frame)

    async def stranger(self) -> Stranger:
        """Somebody connects."""
        endpoint = clientFromString(the_reactor(), self.endpoint)
        connecting: Deferred[Stranger] = connectProtocol(endpoint, Stranger())
        return await connecting

    async def assert_sent_away(self, is_lost: Callable[[], object], limit: str | None, reason: str) -> None:
        """The stranger is gone, one event and one line say why, and the two others have lost nothing."""
        await until(is_lost, "the end of the connection")
        await until(lambda: self.sink.of(ConnectionClosed), "the event")
        (closed,) = self.sink.of(ConnectionClosed)
        assert closed.limit == limit
        assert reason in closed.reason
        told = [event for event in self.lines if event.get("event") == "connection_closed"]
        assert len(told) == 1
        assert reason in formatEvent(told[0])
        assert [event for event in self.lines if event.get("log_failure") is not None] == []
        self.send()
        await until(lambda: len(self.player.frames) >= len(self.sent), "all frames")
        assert self.player.frames == self.sent
        assert self.encoder.lost is None
        assert len(self.service.factory.connections) == 2


@real_reactor_fixture
async def bystanders() -> AsyncIterator[Bystanders]:
    """A relay, short of patience, with a live stream."""
    limits = ConnectionLimits(handshake_timeout=0.6, message_size=100_000)
    service = RelayService(RelayConfig(listen=("tcp:0:interface=127.0.0.1",), connection_limits=limits))
    sink = EventList()
    service.events.add_sink(sink)
    service.startService()
    lines: list[LogEvent] = []
    globalLogPublisher.addObserver(lines.append)  # type: ignore[arg-type]
    endpoint = f"tcp:127.0.0.1:{getattr(service.addresses[0], 'port')}"  # noqa: B009
    encoder = await connect_client(endpoint)
    await encoder.publish("cam")
    player = await connect_client(endpoint)
    await player.play("cam")
    together = Bystanders(service, encoder, player, sink, lines, endpoint)
    stream = LoopingCall(together.send)
    ended = stream.start(0.02)
    yield together
    stream.stop()
    await ended
    await encoder.close()
    await player.close()
    await service.stopService()
    globalLogPublisher.removeObserver(lines.append)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (b"\x00" * 2000, "RTMP"),
        (b"\xde\xad\xbe\xef" * 1000, "RTMP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), "TLS"),
        (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "HTTP"),
        (b"POST /x HTTP/1.1\r\n\r\n", "HTTP"),
    ],
    ids=["zeros", "noise", "tls", "get", "post"],
)
@real_reactor_test
async def test_another_protocol(bystanders: Bystanders, garbage: bytes, reason: str) -> None:
    stranger = await bystanders.stranger()
    stranger.send(garbage)
    await bystanders.assert_sent_away(lambda: stranger.lost, None, reason)


@real_reactor_test
async def test_one_byte_at_a_time(bystanders: Bystanders) -> None:
    stranger = await bystanders.stranger()
    stranger.send(b"\x03")
    dripping = LoopingCall(stranger.send, b"x")
    ended = dripping.start(0.1)
    try:
        await bystanders.assert_sent_away(lambda: stranger.lost, "handshake_timeout", "within 0.6 s")
    finally:
        dripping.stop()
        await ended


@real_reactor_test
async def test_not_a_word(bystanders: Bystanders) -> None:
    stranger = await bystanders.stranger()
    await bystanders.assert_sent_away(lambda: stranger.lost, "handshake_timeout", "within 0.6 s")


@real_reactor_test
async def test_a_message_that_is_too_large(bystanders: Bystanders) -> None:
    client = await connect_client(bystanders.endpoint)
    await client.publish("large")
    client.send(keyframe(0, 200_000))
    await bystanders.assert_sent_away(lambda: client.lost, "message_size", "over 100000")


@real_reactor_test
async def test_a_depth_bomb(bystanders: Bystanders) -> None:
    client = await connect_client(bystanders.endpoint)
    payload = amf0.encode("bomb", 1.0) + b"\x03\x00\x01a" * 10_000
    assert client.transport is not None
    client.transport.write(
        encode_standalone(
            RawMessage(MessageType.COMMAND_AMF0, 0, 0, payload), 3, client.session.channel.chunk_size
        )
    )
    await bystanders.assert_sent_away(lambda: client.lost, "amf_depth", "nested deeper")


@real_reactor_test
async def test_who_comes_and_goes_at_once(bystanders: Bystanders) -> None:
    stranger = await bystanders.stranger()
    assert stranger.transport is not None
    stranger.transport.abortConnection()  # type: ignore[attr-defined]
    await bystanders.assert_sent_away(lambda: stranger.lost, None, "the peer")
