"""Clients that send nonsense, too slowly or too much are closed, and the other clients do not notice."""

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
from twisted.logger import formatEvent
from twisted.python.failure import Failure
from typing_extensions import override

from rtmprelay.amf import amf0
from rtmprelay.events import ConnectionClosed
from rtmprelay.media import MediaFrame
from rtmprelay.wire.chunk_writer import encode_standalone
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.messages import MessageType
from tests.access.log_keeping import KeptLog, kept_log
from tests.helpers import (
    SocketClient,
    audio,
    keyframe,
    real_reactor_fixture,
    real_reactor_test,
    the_reactor,
    until,
)
from tests.service.harness import Harness, Relay


class Stranger(Protocol):
    """A client that sends what a test says, and notices when it is closed."""

    lost = False

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = True

    def send(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)


@attrs.define
class Bystanders:
    """A relay with a publisher and a player that must not notice anything."""

    harness: Harness
    relay: Relay
    encoder: SocketClient
    player: SocketClient
    log: KeptLog
    sent: list[MediaFrame] = attrs.field(factory=list)

    def send(self) -> None:
        """Publish one more frame."""
        time = 40 * len(self.sent)
        frame = keyframe(time) if len(self.sent) % 25 == 0 else audio(time)
        self.sent.append(frame)
        self.encoder.send(frame)

    async def stranger(self) -> Stranger:
        """A client that knows no RTMP."""
        endpoint = clientFromString(the_reactor(), self.relay.endpoint)
        connecting: Deferred[Stranger] = connectProtocol(endpoint, Stranger())
        return await connecting

    async def assert_closed(self, is_lost: Callable[[], object], limit: str | None, reason: str) -> None:
        """The stranger is closed, one event and one log line say why, and the two others have lost nothing."""
        await until(is_lost, "the end of the connection")
        await until(lambda: self.relay.of(ConnectionClosed), "the event")
        (closed,) = self.relay.of(ConnectionClosed)
        assert closed.limit == limit
        assert reason in closed.reason
        lines = [event for event in self.log if event.get("event") == "connection_closed"]
        assert len(lines) == 1
        assert reason in formatEvent(lines[0])
        assert [event for event in self.log if event.get("log_failure") is not None] == []
        self.send()
        await until(lambda: len(self.player.frames) >= len(self.sent), "all frames")
        assert self.player.frames == self.sent
        assert self.encoder.lost is None
        assert len(self.relay.service.factory.connections) == 2


@real_reactor_fixture
async def bystanders(harness: Harness) -> AsyncIterator[Bystanders]:
    """A relay with short limits and a live stream."""
    limits = ConnectionLimits(handshake_timeout=0.6, message_size=100_000)
    relay = harness.start_relay(connection_limits=limits)
    with kept_log() as log:
        encoder = await harness.connect(relay)
        await encoder.publish("cam")
        player = await harness.connect(relay)
        await player.play("cam")
        together = Bystanders(harness, relay, encoder, player, log)
        stream = LoopingCall(together.send)
        ended = stream.start(0.02)
        yield together
        stream.stop()
        await ended
        await harness.stop()


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
async def test_client_of_another_protocol_is_closed_with_its_name(
    bystanders: Bystanders, garbage: bytes, reason: str
) -> None:
    stranger = await bystanders.stranger()
    stranger.send(garbage)
    await bystanders.assert_closed(lambda: stranger.lost, None, reason)


@real_reactor_test
async def test_handshake_that_drips_is_closed_at_its_deadline(bystanders: Bystanders) -> None:
    stranger = await bystanders.stranger()
    stranger.send(b"\x03")
    dripping = LoopingCall(stranger.send, b"x")
    ended = dripping.start(0.1)
    try:
        await bystanders.assert_closed(lambda: stranger.lost, "handshake_timeout", "within 0.6 s")
    finally:
        dripping.stop()
        await ended


@real_reactor_test
async def test_client_that_sends_nothing_is_closed_at_the_handshake_deadline(bystanders: Bystanders) -> None:
    stranger = await bystanders.stranger()
    await bystanders.assert_closed(lambda: stranger.lost, "handshake_timeout", "within 0.6 s")


@real_reactor_test
async def test_message_over_the_limit_is_closed(bystanders: Bystanders) -> None:
    client = await bystanders.harness.connect(bystanders.relay)
    await client.publish("large")
    client.send(keyframe(0, 200_000))
    await bystanders.assert_closed(lambda: client.lost, "message_size", "over 100000")


@real_reactor_test
async def test_deeply_nested_amf_is_closed(bystanders: Bystanders) -> None:
    client = await bystanders.harness.connect(bystanders.relay)
    payload = amf0.encode("bomb", 1.0) + b"\x03\x00\x01a" * 10_000
    assert client.transport is not None
    client.transport.write(
        encode_standalone(
            RawMessage(MessageType.COMMAND_AMF0, 0, 0, payload), 3, client.session.channel.chunk_size
        )
    )
    await bystanders.assert_closed(lambda: client.lost, "amf_depth", "nested deeper")


@real_reactor_test
async def test_client_that_disconnects_at_once_is_logged_without_an_error(bystanders: Bystanders) -> None:
    stranger = await bystanders.stranger()
    assert stranger.transport is not None
    stranger.transport.abortConnection()  # type: ignore[attr-defined]
    await bystanders.assert_closed(lambda: stranger.lost, None, "the peer")
