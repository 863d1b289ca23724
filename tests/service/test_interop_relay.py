"""The relay with real servers and the real ffmpeg: every destination gets the very same stream."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.defer import gatherResults

from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationState
from rtmprelay.events import DestinationClosed
from rtmprelay.wire.url import RtmpUrl
from tests.helpers import DEADLINE, free_port, real_reactor_test
from tests.service.harness import Harness, Relay
from tests.service.interop import H264_AAC, Capture, FFmpeg, assert_same_from_a_keyframe_on, in_background

NGINX_MODULE = Path("/usr/lib/nginx/modules/ngx_rtmp_module.so")


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[int]:
    """A real nginx-rtmp; the port that it listens on."""
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    if not Path(program).exists() or not NGINX_MODULE.exists():
        pytest.skip("nginx with the rtmp module is not installed (Debian: nginx, libnginx-mod-rtmp)")
    port = free_port()
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(
        f"load_module {NGINX_MODULE}; daemon off; master_process off; pid {tmp_path}/pid;"
        f" error_log {tmp_path}/error.log info; events {{ worker_connections 64; }}"
        f" rtmp {{ server {{ listen 127.0.0.1:{port}; application live {{ live on; idle_streams off; }} }} }}"
    )
    command = [program, "-c", str(configuration), "-p", str(tmp_path), "-e", f"{tmp_path}/error.log"]
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    yield port
    running.terminate()
    running.wait(DEADLINE)


def to(name: str, url: str) -> DestinationSettings:
    """A destination at this address."""
    return DestinationSettings(name=name, url=RtmpUrl.parse(url))


async def play_all(ffmpeg: FFmpeg, urls: list[str]) -> list[Capture]:
    """Play several streams at once, each to its end."""
    return await gatherResults([in_background(ffmpeg.play(url)) for url in urls])


@real_reactor_test
async def test_nginx_and_two_relays_get_the_same_stream(ffmpeg: FFmpeg, harness: Harness, nginx: int) -> None:
    """A fourth destination, on a closed port, changes nothing."""
    source = ffmpeg.make("relayed.flv", f"-f lavfi -i testsrc=rate=25 -f lavfi -i sine -t 6 {H264_AAC}")
    first, second = harness.start_sink(), harness.start_sink()
    urls = [
        f"rtmp://127.0.0.1:{nginx}/live/a",
        f"rtmp://127.0.0.1:{first.port}/live/b",
        f"rtmp://127.0.0.1:{second.port}/live/c",
    ]
    settings = [to(name, url) for name, url in zip("abc", urls, strict=True)]
    relay = harness.start_relay(
        destinations=[*settings, to("dead", f"rtmp://127.0.0.1:{free_port()}/live/d")]
    )
    publishing = in_background(ffmpeg.publish(source, relay.url("live/test"), speed=1.5))
    await relay.until(lambda: all(harness.status(name).state is DestinationState.CONNECTED for name in "abc"))
    # Each server must have seen a keyframe; nginx-rtmp keeps none for late joiners, so it is not first to end.
    await relay.until(lambda: all(harness.status(name).messages_sent > 20 for name in "abc"))
    captures = await play_all(ffmpeg, urls)
    await publishing
    published = ffmpeg.hash_of(source)
    for capture in captures[1:]:
        assert_same_from_a_keyframe_on(capture, published)
    assert_same_packets(captures[0], published)
    assert len({harness.status(name).bytes_sent for name in "abc"}) == 1
    assert all(harness.status(name).messages_dropped == 0 for name in "abc")


def assert_same_packets(played: Capture, published: Capture) -> None:
    """What nginx-rtmp gives is what was published, to the end; it may begin anywhere."""
    assert played.extradata == published.extradata
    for kind in ("video", "audio"):
        got = [packet.digest for packet in played.of(kind)]
        sent = [packet.digest for packet in published.of(kind)]
        assert got
        assert got == sent[len(sent) - len(got) :]


@real_reactor_test
async def test_stream_passes_two_relays_unchanged(ffmpeg: FFmpeg, harness: Harness) -> None:
    """Nothing is lost or changed, and both relays show the same digest."""
    source = ffmpeg.make("relayed.flv", f"-f lavfi -i testsrc=rate=25 -f lavfi -i sine -t 6 {H264_AAC}")
    last = harness.start_sink()
    middle = harness.start_relay(destinations=[to("last", f"rtmp://127.0.0.1:{last.port}/live/end")])
    first = harness.start_relay(destinations=[to("middle", middle.url("live/middle"))])
    async with ffmpeg.broadcast(source, first.url("live/begin"), begin_ms=900) as broadcast:
        await until_first_keyframe_everywhere(first, middle)
        playing = in_background(ffmpeg.play(f"rtmp://127.0.0.1:{last.port}/live/end"))
        end = last.service.registry.live("live/end")
        # The collector of the sink is one of them.
        await first.until(lambda: end.viewers > 1)
        await broadcast.finish()
    played = await playing
    digests = [await closing_digest(relay) for relay in (first, middle)]
    published = ffmpeg.hash_of(source)
    assert_same_from_a_keyframe_on(played, published)
    assert len(played.packets) == len(published.packets)
    assert digests[0] == digests[1]


async def until_first_keyframe_everywhere(*relays: Relay) -> None:
    """Wait until all destinations of these relays have got something."""
    for relay in relays:
        destinations = relay.service.destinations
        await relay.until(lambda them=destinations: all(one.messages_sent for one in them.statuses()))  # type: ignore[misc]


async def closing_digest(relay: Relay) -> str:
    """The digest of what the only destination of a relay got, told when it was closed."""
    await relay.until(lambda: any(isinstance(event, DestinationClosed) for event in relay.events))
    (closed,) = [event for event in relay.events if isinstance(event, DestinationClosed)]
    return closed.digest
