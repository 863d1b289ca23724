"""One bad destination beside good ones, on real sockets: the others get everything, and the publisher never waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol
from typing_extensions import override

from rtmprelay.client import publish
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationState
from rtmprelay.rtmp.transport_buffers import unsent_bytes
from rtmprelay.streams.live_stream import LiveStream
from tests.helpers import free_port, real_reactor_test, the_reactor
from tests.service.harness import HEADER, Harness, Sink, destination, pictures, send_live
from tests.service.interop import in_background


async def broadcast_beside(harness: Harness, bad: DestinationSettings, picture_size: int = 2000) -> None:
    """Send a stream to a bad destination, two good ones and a player; check that the others get all of it."""
    first, second = harness.start_sink(), harness.start_sink()
    relay = harness.start_relay(
        destinations=[bad, destination("first", first.port), destination("second", second.port)]
    )
    publisher = await harness.publish()
    publisher.send(HEADER)
    await relay.until(lambda: relay.service.registry.get("live/test") is not None)
    await harness.play()
    await relay.until(lambda: harness.status("first").state is DestinationState.CONNECTED)
    await relay.until(lambda: harness.status("second").state is DestinationState.CONNECTED)
    frames = pictures(150, picture_size)
    await send_live(publisher, frames)
    # The publisher did not wait: everything has left its buffer.
    assert unsent_bytes(publisher.transport) == 0
    await relay.until(
        lambda: len(harness.played) > 150 and len(first.pictures) >= 150 and len(second.pictures) >= 150
    )
    assert harness.played == [HEADER, *frames]
    assert first.pictures == frames
    assert second.pictures == frames
    for name in ("first", "second"):
        status = harness.status(name)
        assert (status.messages_dropped, status.last_error) == (0, None)


@real_reactor_test
async def test_destination_on_a_closed_port_disturbs_nobody(harness: Harness) -> None:
    await broadcast_beside(harness, destination("bad", free_port()))
    # During an attempt the state is `connecting`, between two it is `error`.
    await harness.relay.until(lambda: harness.status("bad").state is DestinationState.ERROR)
    status = harness.status("bad")
    assert (status.error_class, status.last_error) == (
        "network",
        "nothing listens there (connection refused)",
    )
    assert status.next_attempt_time is not None
    assert status.messages_dropped == status.dropped_by_reason["not_connected"] == 150


@real_reactor_test
async def test_destination_with_an_unknown_name_disturbs_nobody(harness: Harness) -> None:
    await broadcast_beside(harness, destination("bad", 1935, host="no-such-host.invalid"))
    assert harness.status("bad").error_class == "network"
    assert "DNS" in str(harness.status("bad").last_error)


@real_reactor_test
async def test_destination_that_never_answers_disturbs_nobody(harness: Harness) -> None:
    await broadcast_beside(harness, destination("bad", harness.listen(Protocol)))
    assert harness.status("bad").state is DestinationState.CONNECTING
    assert harness.status("bad").messages_sent == 0


class Babbler(Protocol):
    """A server that speaks another protocol."""

    @override
    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(b"220 mail.example ESMTP ready\r\n" * 200)


@real_reactor_test
async def test_destination_that_sends_garbage_disturbs_nobody(harness: Harness) -> None:
    await broadcast_beside(harness, destination("bad", harness.listen(Babbler)))
    assert harness.status("bad").error_class == "protocol"


@real_reactor_test
async def test_destination_that_refuses_the_key_disturbs_nobody(harness: Harness) -> None:
    occupied = harness.start_sink()
    holder = await publish(the_reactor(), f"rtmp://127.0.0.1:{occupied.port}/live/bad")
    await broadcast_beside(harness, destination("bad", occupied.port))
    status = harness.status("bad")
    assert (status.state, status.error_class) == (DestinationState.ERROR, "refused")
    assert "NetStream.Publish.BadName" in str(status.last_error)
    assert "live/***" in str(status.last_error)
    holder.end()
    await holder.when_lost


class Sleeper(Sink):
    """A server that accepts the publish and reads nothing after that."""

    @override
    def stream_started(self, stream: LiveStream) -> None:
        for connection in self.service.factory.connections:
            IPushProducer(connection.transport).pauseProducing()


@real_reactor_test
async def test_destination_that_stops_reading_disturbs_nobody_and_has_a_bounded_queue(
    harness: Harness,
) -> None:
    sleeper = harness.start_sink(Sleeper())
    await broadcast_beside(harness, destination("bad", sleeper.port), picture_size=120_000)
    (outlet,) = harness.status("bad").outlets
    assert outlet.messages_in == outlet.messages_sent + outlet.messages_dropped + outlet.messages_queued
    assert outlet.messages_queued > 0


@real_reactor_test
async def test_destination_that_is_killed_and_returns_gets_the_stream_from_a_keyframe(
    harness: Harness,
) -> None:
    killed = harness.start_sink()
    port = killed.port
    first, second = harness.start_sink(), harness.start_sink()
    relay = harness.start_relay(
        destinations=[
            destination("bad", port),
            destination("first", first.port),
            destination("second", second.port),
        ]
    )
    publisher = await harness.publish()
    publisher.send(HEADER)
    await relay.until(
        lambda: all(harness.status(n).state is DestinationState.CONNECTED for n in ("bad", "first", "second"))
    )
    await harness.play()
    frames = pictures(400)
    sending = in_background(send_live(publisher, frames))
    await relay.until(lambda: len(killed.pictures) > 20)
    for connection in killed.service.factory.connections:
        connection.close_now("killed")
    await killed.service.stopService()
    await relay.until(lambda: harness.status("bad").state is DestinationState.ERROR)
    restarted = harness.start_sink(Sink(f"tcp:{port}:interface=127.0.0.1"))
    await sending
    await relay.until(lambda: len(restarted.pictures) > 0 and restarted.pictures[-1] == frames[-1])
    assert restarted.collector.frames[0].payload == HEADER.payload
    begin = frames.index(restarted.pictures[0])
    assert begin % 25 == 0
    assert restarted.pictures == frames[begin:]
    assert harness.status("bad").reconnect_count == 1
    await relay.until(lambda: first.pictures == frames and second.pictures == frames)
    await relay.until(lambda: harness.played == [HEADER, *frames])


@real_reactor_test
async def test_destination_with_an_untrusted_certificate_disturbs_nobody(
    harness: Harness, certificate: tuple[Path, Path]
) -> None:
    key, chain = certificate
    secure = harness.start_sink(Sink(f"ssl:0:interface=127.0.0.1:privateKey={key}:certKey={chain}"))
    await broadcast_beside(harness, destination("bad", secure.port, scheme="rtmps"))
    status = harness.status("bad")
    assert status.error_class == "network"
    assert "TLS failed: certificate verify failed" in str(status.last_error)
    assert secure.pictures == []


@pytest.mark.parametrize("trust", ["ca_file", "unverified"])
@real_reactor_test
async def test_private_server_gets_the_stream_over_tls(
    harness: Harness, certificate: tuple[Path, Path], trust: str
) -> None:
    """With its certificate as `ca_file`, or without verification."""
    key, chain = certificate
    secure = harness.start_sink(Sink(f"ssl:0:interface=127.0.0.1:privateKey={key}:certKey={chain}"))
    more = {"ca_file": str(chain)} if trust == "ca_file" else {"verify": False}
    relay = harness.start_relay(destinations=[destination("private", secure.port, scheme="rtmps", **more)])
    publisher = await harness.publish()
    publisher.send(HEADER)
    frames = pictures(50)
    await send_live(publisher, frames)
    await relay.until(lambda: secure.pictures == frames)
    publisher.end()
    # The destination sees the clean end of the publisher.
    await relay.until(lambda: secure.ended_cleanly == [True])
