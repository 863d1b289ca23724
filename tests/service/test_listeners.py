"""Listeners of every kind: TLS, the PROXY protocol, unix sockets."""

# Services of Twisted have no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.endpoints import SSL4ClientEndpoint, TCP4ClientEndpoint, connectProtocol
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import Certificate, optionsForClientTLS
from twisted.logger import capturedLogs
from twisted.python.failure import Failure
from typing_extensions import override

from rtmprelay import events
from rtmprelay.rtmp.admission import AdmissionLimits
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.wire.handshake import ClientHandshake
from tests.helpers import (
    LOOPBACK,
    ProxiedClient,
    group,
    real_reactor_test,
    the_reactor,
    until,
)
from tests.service.harness import Harness, Relay


def tls_endpoint(relay: Relay, certificate_file: Path) -> SSL4ClientEndpoint:
    trusted = Certificate.loadPEM(certificate_file.read_bytes())
    options = optionsForClientTLS("127.0.0.1", trustRoot=trusted)
    return SSL4ClientEndpoint(the_reactor(), "127.0.0.1", relay.port, options)


def tls_listen(certificate: tuple[Path, Path]) -> str:
    return f"ssl:0:interface=127.0.0.1:privateKey={certificate[0]}:certKey={certificate[1]}"


@real_reactor_test
async def test_player_gets_what_is_published_over_tls(
    harness: Harness, certificate: tuple[Path, Path]
) -> None:
    with capturedLogs() as logged:
        relay = harness.start_relay(tls_listen(certificate))
    assert [event["protocol"] for event in logged if "protocol" in event] == ["RTMPS"]
    await harness.publish_and_play(tls_endpoint(relay, certificate[1]))
    encoder = await harness.connect(tls_endpoint(relay, certificate[1]))
    await encoder.publish("other")
    await relay.service.stopService()
    await until(lambda: encoder.lost is not None, "the end")
    assert encoder.codes[-1] == "NetStream.Unpublish.Success"
    assert encoder.lost == "Connection was closed cleanly.", "it was aborted instead of closed"


@pytest.mark.parametrize("kind", ["tcp", "ssl", "haproxy"])
@real_reactor_test
async def test_refused_connection_is_closed(
    harness: Harness, certificate: tuple[Path, Path], kind: str
) -> None:
    """On every kind of listener, so that it does not keep a file descriptor."""
    listen = {"tcp": LOOPBACK, "ssl": tls_listen(certificate), "haproxy": f"haproxy:{LOOPBACK}"}[kind]
    relay = harness.start_relay(listen, admission_limits=AdmissionLimits(max_connections=0))
    greeting = {"tcp": b"", "ssl": b"", "haproxy": b"PROXY TCP4 198.51.100.7 127.0.0.1 4000 1935\r\n\x03"}[
        kind
    ]
    refused = await connectProtocol(TCP4ClientEndpoint(the_reactor(), "127.0.0.1", relay.port), Waiting())
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
async def test_address_from_the_proxy_header_is_shown_and_counted(harness: Harness) -> None:
    """Many clients connect through the address of the proxy: only their own addresses count."""
    relay = harness.start_relay(
        f"haproxy:{LOOPBACK}", admission_limits=AdmissionLimits(max_unconnected_per_address=1)
    )
    peers: set[str] = set()
    for number in range(3):
        endpoint = TCP4ClientEndpoint(the_reactor(), "127.0.0.1", relay.port)
        client = await connectProtocol(endpoint, Waiting())
        handshake = ClientHandshake()
        header = f"PROXY TCP4 198.51.100.{number} 127.0.0.1 4000 1935\r\n".encode()
        client.send(header + handshake.bytes_to_send() + bytes(1536))
        await until(lambda: len(relay.of(events.HandshakeCompleted)) > len(peers), "the handshake")
        peers.add(f"198.51.100.{number}:4000")
    assert relay.of(events.ConnectionRefused) == []
    await relay.service.stopService()
    assert {event.peer for event in relay.of(events.ConnectionClosed)} == peers


@real_reactor_test
async def test_connect_event_has_the_address_from_the_proxy_header(harness: Harness) -> None:
    relay = harness.start_relay(f"haproxy:{LOOPBACK}")
    endpoint = TCP4ClientEndpoint(the_reactor(), "127.0.0.1", relay.port)
    client = await connectProtocol(endpoint, ProxiedClient())
    await until(lambda: relay.of(events.ClientConnected), "the connect")
    assert [event.peer for event in relay.of(events.ClientConnected)] == ["198.51.100.7:4000"]
    await client.close()


@real_reactor_test
async def test_stalled_player_over_tls_has_a_bounded_queue(
    harness: Harness, certificate: tuple[Path, Path]
) -> None:
    limits = QueueLimits(max_bytes=500_000, max_ms=5000)
    relay = harness.start_relay(tls_listen(certificate), queue_limits=limits)
    endpoint = tls_endpoint(relay, certificate[1])
    encoder = await harness.connect(endpoint)
    await encoder.publish("cam")
    stalled = await harness.connect(endpoint)
    await stalled.play("cam")
    stalled.transport.pauseProducing()  # type: ignore[union-attr]
    protocol = relay.service.factory.connections[1]
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
    await relay.service.stopService()
    assert relay.service.factory.connections == ()


@real_reactor_test
async def test_player_gets_what_is_published_over_a_unix_socket(harness: Harness, tmp_path: Path) -> None:
    path = tmp_path / "rtmp.sock"
    relay = harness.start_relay(f"unix:{path}")
    await harness.publish_and_play(f"unix:{path}")
    assert {event.peer for event in relay.of(events.ConnectionOpened)} == {"local socket"}
    await relay.service.stopService()
    assert not path.exists()
