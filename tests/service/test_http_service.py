"""HTTP and RTMP in one service on real sockets: start, stop, disconnecting publishers, TLS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from twisted._version import __version__ as twisted_version
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, connectProtocol, wrapClientTLS
from twisted.internet.error import CannotListenError
from twisted.internet.ssl import Certificate, optionsForClientTLS

from rtmprelay import events
from rtmprelay.secret import Secret
from rtmprelay.web.settings import HttpSettings
from tests.helpers import (
    LOOPBACK,
    connect_client,
    group,
    real_reactor_test,
    start_frames,
    the_reactor,
    until,
)
from tests.service.harness import Harness, Relay, Sink, destination
from tests.service.http_client import TOKEN, HttpConnection, connect, fetch
from tests.service.interop import FFmpeg, in_background
from tests.web.helpers import parse_response


def start(harness: Harness, http: str = LOOPBACK, **settings: Any) -> Relay:
    """Start a relay with HTTP."""
    return harness.start_relay(http=HttpSettings(listen=http, token=Secret(TOKEN)), **settings)


@pytest.fixture
def web_relay(harness: Harness) -> Relay:
    return start(harness)


@real_reactor_test
async def test_stop_closes_event_readers_media_readers_idle_and_half_sent_requests(web_relay: Relay) -> None:
    port = web_relay.http_port
    encoder = await connect_client(web_relay.endpoint)
    await encoder.publish("test")
    encoder.send(*start_frames(), *group(0))
    await web_relay.until_live("live/test")
    reader, media, idle, half = [await connect(port) for _ in range(4)]
    reader.send(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
    media.send(b"GET /live/test.flv HTTP/1.1\r\nHost: x\r\n\r\n")
    half.send(b"POST /destinations HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
    await until(lambda: b"event: status" in reader.received and b"FLV" in media.received, "both streams")
    clock: Any = the_reactor()
    began = clock.seconds()
    await web_relay.service.stopService()
    assert clock.seconds() - began < 4
    for connection in (reader, media, idle, half):
        await until(lambda connection=connection: connection.closed, "the end of a connection")  # type: ignore[misc]
    assert reader.received.endswith(b"0\r\n\r\n")
    await encoder.close()


@real_reactor_test
async def test_stopped_service_starts_again_with_http(web_relay: Relay) -> None:
    assert (await fetch(web_relay.http_port, "GET", "/health")).status == 200
    await web_relay.service.stopService()
    assert web_relay.service.http_address is None
    web_relay.service.startService()
    health = (await fetch(web_relay.http_port, "GET", "/health")).json
    assert health["uptime"] < 5


@real_reactor_test
async def test_taken_http_port_is_an_error_at_start(harness: Harness, web_relay: Relay) -> None:
    with pytest.raises(CannotListenError):
        start(harness, http=f"tcp:{web_relay.http_port}:interface=127.0.0.1")


@pytest.mark.skipif(
    (twisted_version.major, twisted_version.minor) < (25, 5),
    reason="older Twisted changes a TLS context that is in use, which newer pyOpenSSL refuses",
)
@real_reactor_test
async def test_http_works_over_a_tls_endpoint_without_http_2(
    harness: Harness, certificate: tuple[Path, Path]
) -> None:
    key, signed = certificate
    relay = start(harness, http=f"ssl:0:interface=127.0.0.1:privateKey={key}:certKey={signed}")
    options = optionsForClientTLS(
        "127.0.0.1",
        trustRoot=Certificate.loadPEM(signed.read_bytes()),
        acceptableProtocols=[b"h2", b"http/1.1"],
    )
    endpoint = wrapClientTLS(options, HostnameEndpoint(the_reactor(), "127.0.0.1", relay.http_port))
    connecting: Deferred[HttpConnection] = connectProtocol(endpoint, HttpConnection())
    connection = await connecting
    connection.send(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    response, _ = parse_response(await connection.lost)
    assert response.status == 200
    reader = await connectProtocol(endpoint, HttpConnection())
    reader.send(b"GET /events HTTP/1.1\r\n\r\n")
    await until(lambda: b"event: status" in reader.received, "events over TLS")
    await relay.service.stopService()
    assert await reader.lost


@real_reactor_test
async def test_disconnected_publisher_gets_the_reason_and_its_destination_ends_at_once(
    harness: Harness,
) -> None:
    sink = harness.start_sink(Sink())
    relay = start(harness, destinations=(destination("good", sink.port, linger=60.0),))
    encoder = await connect_client(relay.endpoint)
    await encoder.publish("test")
    encoder.send(*start_frames(), *group(0))
    await until(lambda: relay.service.destinations.statuses()[0].messages_sent > 5, "the destination")
    got = await fetch(relay.http_port, "DELETE", "/streams/live/test/publisher")
    assert got.status == 204
    await until(lambda: encoder.lost is not None, "the end of the encoder")
    assert encoder.codes == ["NetStream.Publish.Denied"]
    await until(lambda: sink.ended_cleanly == [True], "the end at the destination")
    (stopped,) = relay.of(events.PublishStopped)
    assert (stopped.clean, stopped.reason) == (True, "ended by the operator of this server")
    assert (await fetch(relay.http_port, "GET", "/streams")).json["streams"] == {}


@real_reactor_test
async def test_ffmpeg_reports_why_it_was_disconnected(web_relay: Relay, ffmpeg: FFmpeg) -> None:
    media = ffmpeg.make(
        "kicked.flv", "-f lavfi -i testsrc=size=64x64:rate=10 -t 30 -c:v libx264 -preset ultrafast -g 10"
    )
    publishing = in_background(ffmpeg.publish(media, web_relay.url("live/test"), speed=1.0))
    await web_relay.until_live("live/test")
    assert (await fetch(web_relay.http_port, "DELETE", "/streams/live/test/publisher")).status == 204
    with pytest.raises(AssertionError) as caught:
        await publishing
    assert "ended by the operator of this server" in str(caught.value)


@real_reactor_test
async def test_added_destination_gets_the_live_stream_and_a_goodbye_when_removed(
    harness: Harness, web_relay: Relay
) -> None:
    sink = harness.start_sink(Sink())
    encoder = await connect_client(web_relay.endpoint)
    await encoder.publish("test")
    encoder.send(*start_frames(), *group(0))
    port = web_relay.http_port
    new = {"name": "late", "url": f"rtmp://127.0.0.1:{sink.port}/live", "stream_key": "s3cr3t"}
    assert (await fetch(port, "POST", "/destinations", new)).status == 201

    async def status() -> str:
        return str((await fetch(port, "GET", "/destinations/late")).json["status"])

    deadline = the_reactor().seconds() + 10
    while await status() != "connected":
        assert the_reactor().seconds() < deadline
    await until(lambda: len(sink.pictures) >= 5, "pictures at the new destination")
    assert (await fetch(port, "DELETE", "/destinations/late")).status == 204
    await until(lambda: sink.ended_cleanly == [True], "the clean end")
    await encoder.close()


@real_reactor_test
async def test_simultaneous_lasting_changes_are_all_written_to_the_file(
    harness: Harness, tmp_path: Path
) -> None:
    """They are written in a thread, one after the other."""
    file = tmp_path / "relay.json"
    file.write_text('{"destinations": []}')
    relay = start(harness, relay_config=str(file))
    port = relay.http_port
    asking = [
        in_background(
            fetch(
                port,
                "POST",
                "/destinations",
                {"name": f"d{number}", "url": f"rtmp://127.0.0.1:1/app/{number}", "lasting": True},
            )
        )
        for number in range(10)
    ]
    for answer in asking:
        assert (await answer).status == 201
    names = {entry["name"] for entry in json.loads(file.read_text())["destinations"]}
    assert names == {f"d{number}" for number in range(10)}


@real_reactor_test
async def test_refused_client_that_goes_on_sending_still_reads_the_response(web_relay: Relay) -> None:
    """A reset would discard it."""
    connection = await connect(web_relay.http_port)
    connection.send(b"POST /destinations HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n")
    for _ in range(50):
        connection.send(bytes(100_000))
    received = await connection.lost
    response, _ = parse_response(received)
    assert response.error == (413, "body_too_large")
