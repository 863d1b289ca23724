"""Streams that are fetched from another relay, on real sockets."""

from __future__ import annotations

import signal
from pathlib import Path

from rtmprelay.client import publish
from rtmprelay.config.options import Options
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.media import MediaFrame
from rtmprelay.pulls.settings import PullSettings
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.secret import Secret
from rtmprelay.streams.summary import summarize_media
from rtmprelay.web.settings import HttpSettings
from rtmprelay.wire.url import RtmpUrl
from tests.certificates import self_signed
from tests.helpers import LOOPBACK, real_reactor_test, start_frames, the_reactor, until, wait_for
from tests.service.command import Server, refusal
from tests.service.harness import Harness, Relay, Sink, pictures, send_live
from tests.service.http_client import TOKEN, fetch
from tests.service.interop import H264_AAC, FFmpeg, assert_same_from_a_keyframe_on, in_background


def pull_from(relay: Relay, **more: object) -> PullSettings:
    return PullSettings("origin", RtmpUrl.parse(relay.url("live/{name}")), **more)  # type: ignore[arg-type]


def digest(frames: list[MediaFrame]) -> int:
    """The hash of all coded frames, in order."""
    return summarize_media([frame for frame in frames if frame.payload[1:2] == b"\x01"], []).addend


@real_reactor_test
async def test_viewers_of_the_edge_get_every_byte_and_the_origin_sends_it_once(harness: Harness) -> None:
    origin = harness.start_relay()
    publisher = await harness.publish("live/test")
    sent = [*start_frames(), *pictures(100)]
    for frame in sent[:10]:
        publisher.send(frame)
    edge = harness.start_relay(pulls=(pull_from(origin),))
    players = [await harness.connect(edge) for _ in range(3)]
    for player in players:
        await player.play("test")
    await send_live(publisher, sent[10:], interval=0.002)
    await until(lambda: all(len(player.frames) >= len(sent) for player in players), "all frames")
    assert {digest(player.frames) for player in players} == {digest(sent)}
    stream = origin.service.registry.get("live/test")
    assert stream is not None
    assert stream.viewers == 1
    assert edge.service.pulls.statuses()[0].viewers == 3


@real_reactor_test
async def test_ffmpeg_on_the_edge_reads_what_ffmpeg_published_to_the_origin(
    ffmpeg: FFmpeg, harness: Harness
) -> None:
    media = ffmpeg.make(
        "pulled.flv",
        "-f lavfi -i testsrc=size=320x240:rate=25 -f lavfi -i sine=frequency=440 -t 6 " + H264_AAC,
    )
    origin = harness.start_relay()
    edge = harness.start_relay(pulls=(pull_from(origin),), http=HttpSettings(listen=LOOPBACK))
    publishing = in_background(ffmpeg.publish(media, origin.url("live/test")))
    await origin.until_live("live/test", keyframes=2)
    over_rtmp = in_background(ffmpeg.play(edge.url("live/test")))
    over_flv = in_background(ffmpeg.play(f"http://127.0.0.1:{edge.http_port}/live/test.flv"))
    for played in (await over_rtmp, await over_flv):
        assert_same_from_a_keyframe_on(played, ffmpeg.hash_of(media))
    await publishing


@real_reactor_test
async def test_status_health_and_requests(harness: Harness) -> None:
    origin = harness.start_relay()
    publisher = await harness.publish("live/test")
    for frame in [*start_frames(), *pictures(10)]:
        publisher.send(frame)
    edge = harness.start_relay(http=HttpSettings(listen=LOOPBACK, token=Secret(TOKEN)))
    url = f"rtmp://127.0.0.1:{origin.port}/live/{{name}}?key=s3cret-key"
    entry = {"name": "origin", "url": url, "match": "live/*"}
    assert (await fetch(edge.http_port, "POST", "/pulls", entry)).status == 201
    player = await harness.connect(edge)
    await player.play("test")
    shown = (await fetch(edge.http_port, "GET", "/pulls")).json["pulls"]["origin"]
    assert shown["status"] == "connected"
    assert shown["viewers"] == 1
    assert shown["streams"][0]["address"] == f"rtmp://127.0.0.1:{origin.port}/live/***"
    health = await fetch(edge.http_port, "GET", "/health")
    assert health.json["connected_pulls"] == 1
    assert b"s3cret" not in health.body
    await player.close()
    assert (await fetch(edge.http_port, "DELETE", "/pulls/origin")).status == 204
    await until(lambda: not list(edge.service.pulls.fetches), "the end of the fetch")


@real_reactor_test
async def test_fetched_streams_go_to_destinations_and_are_recorded_only_if_they_are_named(
    harness: Harness, tmp_path: Path
) -> None:
    origin = harness.start_relay()
    publisher = await harness.publish("live/test")
    for frame in [*start_frames(), *pictures(10)]:
        publisher.send(frame)
    sink = harness.start_sink(Sink())
    destination = DestinationSettings("sink", RtmpUrl.parse(f"rtmp://127.0.0.1:{sink.port}/live/key"))
    edges = [
        harness.start_relay(
            pulls=(pull_from(origin, match="live/test", always=True),),
            destinations=destinations,
            recording=RecordingSettings(record_all=not match, match=match, folder=tmp_path),
        )
        for match, destinations in (((), (destination,)), (("live/*",), ()))
    ]
    await until(lambda: len(sink.pictures) >= 10, "the frames at the destination")
    await until(lambda: len(list(edges[1].service.recordings.statuses())) == 1, "the recording")
    assert edges[0].service.recordings.statuses() == []


@real_reactor_test
async def test_stream_is_fetched_over_tls_from_a_server_with_a_private_certificate(
    harness: Harness, tmp_path: Path
) -> None:
    key, certificate = self_signed("127.0.0.1")
    (tmp_path / "cert.pem").write_bytes(certificate)
    (tmp_path / "key.pem").write_bytes(key)
    files = f"privateKey={tmp_path}/key.pem:certKey={tmp_path}/cert.pem"
    origin = harness.start_relay(f"ssl:0:interface=127.0.0.1:{files}", LOOPBACK)
    plain = f"rtmp://127.0.0.1:{_port_of(origin, 1)}/live/test"
    publisher = await publish(the_reactor(), plain)
    for frame in [*start_frames(), *pictures(10)]:
        publisher.send(frame)
    url = RtmpUrl.parse(origin.url("live/{name}", "rtmps"))
    edge = harness.start_relay(
        pulls=(
            PullSettings("trusted", url, "live/*", ca_file=str(tmp_path / "cert.pem")),
            PullSettings("unknown", url, "tv/*"),
        )
    )
    player = await harness.connect(edge)
    await player.play("test")
    await until(lambda: len(player.frames) >= 13, "the frames")
    refused = await harness.connect(edge, "tv")
    refused.session.play("test")
    refused.flush()
    await until(lambda: "NetStream.Play.StreamNotFound" in refused.codes, "the refusal")
    failed = edge.service.pulls.status("unknown")
    assert failed is not None
    assert str(failed.last_error).startswith("TLS failed")
    publisher.end()


def _port_of(relay: Relay, listener: int) -> int:
    return int(getattr(relay.service.addresses[listener], "port", 0))


def test_options_and_file_are_checked(tmp_path: Path) -> None:
    assert "--pull (number 1): GLOB=URL is expected" in refusal("--pull", "rtmp://host/app")
    assert "--pull (number 1): its scheme is 'http'" in refusal("--pull", "live/*=http://host/app")
    file = tmp_path / "relay.json"
    file.write_text('{"pulls": [{"name": "a", "url": "rtmp://h/a", "match": "live/*", "always": true}]}')
    assert "always needs the name of one stream" in refusal("--relay-config", str(file))
    file.write_text('{"pulls": [{"name": "a", "ulr": "rtmp://h/a"}]}')
    assert "unknown field 'ulr'" in refusal("--relay-config", str(file))
    file.write_text('{"pulls": [{"name": "a", "url": "rtmp://h/a/${NO_SUCH}"}]}')
    assert "pulls[0] ('a'): url: the environment has no NO_SUCH" in refusal("--relay-config", str(file))
    file.write_text('{"pulls": [{"name": "h:1935/a", "url": "rtmp://h/a"}]}')
    options = Options()
    options.parseOptions(["--relay-config", str(file), "--pull", "live/*=rtmp://h/a"])
    assert [one.name for one in options["config"].pulls] == ["h:1935/a", "h:1935/a-2"]
    assert options["config"].destinations == ()


def test_command_fetches_and_rereads_its_file(tmp_path: Path) -> None:
    file = tmp_path / "relay.json"
    file.write_text('{"pulls": [{"name": "first", "url": "rtmp://127.0.0.1:1/live", "match": "live/*"}]}')
    with Server(tmp_path, "--relay-config", str(file), "--http-status", "127.0.0.1:0") as server:
        assert list(server.ask("GET", "/pulls")["pulls"]) == ["first"]
        file.write_text('{"pulls": [{"name": "second", "url": "rtmp://127.0.0.1:1/live"}]}')
        server.send_signal(signal.SIGHUP)
        server.wait_for_text("Destinations reloaded")
        wait_for(lambda: list(server.ask("GET", "/pulls")["pulls"]) == ["second"], "the other pull")
