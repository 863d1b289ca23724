"""HLS with real players and demuxers: what was published comes out, packet by packet."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import av
import pytest

from rtmprelay.outputs.hls.settings import HlsSettings
from rtmprelay.web.settings import HttpSettings
from tests.helpers import LOOPBACK, real_reactor_test
from tests.hls.checker import PlaylistChecker
from tests.hls.playlist import read_playlist
from tests.service.harness import Harness, Relay
from tests.service.http_client import fetch
from tests.service.interop import Capture, FFmpeg, in_background
from tests.service.test_live_media_ffmpeg import MEDIA, PICTURE, TONE

#: The one that most people watch; the others with `--full`.
QUICK = {"h264_aac_b_frames"}
VP9 = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 25"
SOURCES = {
    **MEDIA,
    "h264_without_b_frames": f"{PICTURE} {TONE} -t 6 -c:v libx264 -preset veryfast -bf 0 -g 25 -c:a aac",
    "h264_opus": f"{PICTURE} {TONE} -t 6 -c:v libx264 -preset veryfast -bf 2 -g 25 -c:a libopus",
    "h264_ac3": f"{PICTURE} {TONE} -t 6 -c:v libx264 -preset veryfast -bf 2 -g 25 -c:a ac3",
    "h264_flac": f"{PICTURE} {TONE} -t 6 -c:v libx264 -preset veryfast -bf 2 -g 25 -c:a flac",
    "opus_alone": f"{TONE} -t 6 -c:a libopus",
    "vp9_alone": f"{PICTURE} -t 6 {VP9}",
    "vp9_aac": f"{PICTURE} {TONE} -t 6 {VP9} -c:a aac",
}
EVERY = [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in SOURCES]


@pytest.fixture
def hls_relay(harness: Harness) -> Relay:
    """A relay with HLS, whose segments are one second long and which ends soon after its publisher."""
    return harness.start_relay(
        http=HttpSettings(listen=LOOPBACK, media_listen=LOOPBACK),
        hls=HlsSettings(match=("*",), part=0.2, segment=1.0, window=8.0),
    )


def url(relay: Relay, name: str = "index.m3u8", key: str = "live/test") -> str:
    return f"http://127.0.0.1:{relay.http_port}/{key}/{name}"


def contents(capture: Capture, media: str) -> list[str]:
    return [packet.digest for packet in capture.of(media)]


@pytest.mark.parametrize("name", EVERY)
@real_reactor_test
async def test_ffmpeg_plays_what_was_published(name: str, ffmpeg: FFmpeg, hls_relay: Relay) -> None:
    source = ffmpeg.make(f"http_{name}.flv", SOURCES[name])
    publishing = in_background(ffmpeg.publish(source, hls_relay.url("live/test")))
    await hls_relay.until_live("live/test", keyframes=1)
    played = await ffmpeg.play(url(hls_relay), "-live_start_index", "0")
    await publishing
    published = ffmpeg.hash_of(source)
    if not name.startswith("vp9"):
        # FFmpeg reads none from an MP4 with VP9.
        assert played.extradata == published.extradata
    for media in {packet.media for packet in published.packets}:
        got, sent = contents(played, media), contents(published, media)
        assert got == sent[len(sent) - len(got) :]
        assert len(got) > len(sent) / 2


def demuxed(data: bytes) -> dict[str, list[tuple[float, bytes]]]:
    """The packets of an MP4 by kind, each with the second at which it is shown."""
    found: dict[str, list[tuple[float, bytes]]] = {}
    with av.open(io.BytesIO(data), "r") as container:
        for packet in container.demux():
            if packet.size and packet.pts is not None:
                time = float(packet.pts * packet.time_base)
                found.setdefault(packet.stream.type, []).append((time, bytes(packet)))
    return found


async def everything(relay: Relay) -> tuple[bytes, bytes, PlaylistChecker]:
    """The whole broadcast from its segments, the same from parts as far as they are listed, and the checker."""
    checker = PlaylistChecker()
    index = (await fetch(relay.http_port, "GET", "/live/test/index.m3u8")).body.decode()
    checker.add(url(relay), index)
    path = urljoin("/live/test/", read_playlist(index).variants[0][1])
    fetched: dict[str, bytes] = {}

    async def media(uri: str) -> bytes:
        if uri not in fetched:
            fetched[uri] = (await fetch(relay.http_port, "GET", urljoin(path, uri))).body
        return fetched[uri]

    text = (await fetch(relay.http_port, "GET", path)).body.decode()
    checker.add(f"http://127.0.0.1{path}", text)
    playlist = read_playlist(text)
    init = playlist.first("EXT-X-MAP")
    assert init is not None
    start = await media(init.get("URI") or "")
    segments, parts = start, start
    for segment in playlist.complete_segments:
        whole = await media(segment.uri or "")
        segments += whole
        parts += b"".join([await media(part.uri) for part in segment.parts]) if segment.parts else whole
    return segments, parts, checker


def published_packets(path: Path) -> dict[str, list[tuple[float, bytes]]]:
    found: dict[str, list[tuple[float, bytes]]] = {}
    with av.open(str(path)) as container:
        for packet in container.demux():
            if packet.size and packet.pts is not None:
                found.setdefault(packet.stream.type, []).append(
                    (float(packet.pts * packet.time_base), bytes(packet))
                )
    return found


def assert_same(
    got: dict[str, list[tuple[float, bytes]]], sent: dict[str, list[tuple[float, bytes]]]
) -> None:
    """The same bytes at the same distances of time; the sound of the last parts may be missing."""
    assert got.keys() == sent.keys()
    for kind, packets in got.items():
        assert packets
        first = next(number for number, one in enumerate(sent[kind]) if one[1] == packets[0][1])
        expected = sent[kind][first : first + len(packets)]
        assert [data for _, data in packets] == [data for _, data in expected]
        offsets = [time - other for (time, _), (other, _) in zip(packets, expected, strict=True)]
        # RTMP has milliseconds, and sound its samples.
        assert max(offsets) - min(offsets) <= 0.0021
        assert len(packets) >= len(sent[kind]) * 0.9


@pytest.mark.parametrize("name", EVERY)
@real_reactor_test
async def test_frames_in_parts_and_segments_are_those_that_were_published(
    name: str, ffmpeg: FFmpeg, hls_relay: Relay
) -> None:
    source = ffmpeg.make(f"http_{name}.flv", SOURCES[name])
    await ffmpeg.publish(source, hls_relay.url("live/test"), speed=4.0)
    hls = hls_relay.service.hls
    assert hls is not None
    broadcast = hls.get("live/test")
    assert broadcast is not None
    # What comes at the end is not awaited for a whole window.
    hls._live.end("live/test", "the test")
    segments, parts, checker = await everything(hls_relay)
    assert parts == segments
    assert_same(demuxed(segments), published_packets(source))
    checker.assert_clean()


@real_reactor_test
async def test_port_for_viewers_serves_hls_and_no_status(ffmpeg: FFmpeg, hls_relay: Relay) -> None:
    source = ffmpeg.make("http_h264_aac_b_frames.flv", MEDIA["h264_aac_b_frames"])
    publishing = in_background(ffmpeg.publish(source, hls_relay.url("live/test"), speed=4.0))
    await hls_relay.until_live("live/test", keyframes=3)
    port: Any = getattr(hls_relay.service.media_address, "port", 0)
    index = await fetch(port, "GET", "/live/test/index.m3u8")
    assert (index.status, index.headers["content-type"]) == (200, "application/vnd.apple.mpegurl")
    assert (await fetch(port, "GET", "/health")).status == 404
    await publishing
