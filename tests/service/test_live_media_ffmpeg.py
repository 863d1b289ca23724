"""Watching over HTTP with the real ffmpeg: what was published comes out, packet by packet, at the same times."""

from __future__ import annotations

import socket
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.internet.defer import gatherResults

from rtmprelay.flv.container import read_tags
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.outputs.http_viewer import HttpViewer
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.web.settings import HttpSettings
from tests.helpers import LOOPBACK, SocketClient, connect_client, real_reactor_test, until
from tests.service.harness import Harness, Relay
from tests.service.http_client import HttpConnection, connect
from tests.service.interop import H264_AAC, Capture, FFmpeg, in_background
from tests.web.helpers import parse_response

PICTURE = "-f lavfi -i testsrc=size=320x240:rate=25"
TONE = "-f lavfi -i sine=frequency=440:sample_rate=48000"

MEDIA = {
    "h264_aac_b_frames": f"{PICTURE} {TONE} -t 6 {H264_AAC}",
    "h264_aac_44100": f"{PICTURE} -f lavfi -i sine=frequency=440:sample_rate=44100 -t 6 {H264_AAC}",
    "hevc_aac": (
        f"{PICTURE} {TONE} -t 6 -c:v libx265 -preset ultrafast"
        " -x265-params log-level=none:keyint=25:bframes=3 -c:a aac"
    ),
    "av1_aac": f"{PICTURE} {TONE} -t 4 -c:v libaom-av1 -cpu-used 8 -usage realtime -g 25 -c:a aac",
    "audio_only": f"{TONE} -t 6 -c:a aac",
    "mp3_only": "-f lavfi -i sine=frequency=440:sample_rate=44100 -t 6 -c:a libmp3lame",
    "video_only": f"{PICTURE} -t 6 -c:v libx264 -bf 2 -g 25",
}

KINDS = pytest.mark.parametrize("kind", ["flv", "mp4"])


def media_url(relay: Relay, key: str, kind: str) -> str:
    return f"http://127.0.0.1:{relay.http_port}/{key}.{kind}"


def viewers(relay: Relay) -> tuple[HttpViewer, ...]:
    """The viewers over HTTP."""
    assert relay.service.http is not None
    return relay.service.http.media.viewers


@pytest.fixture
def web_relay(harness: Harness) -> Relay:
    """A relay with HTTP."""
    return harness.start_relay(http=HttpSettings(listen=LOOPBACK))


def times_ms(capture: Capture, media: str) -> list[tuple[float, float]]:
    """When each packet is decoded and shown."""
    tick = capture.ticks[media] * 1000
    return [(float(packet.dts * tick), float(packet.pts * tick)) for packet in capture.of(media)]


def assert_same_media(played: Capture, published: Capture) -> None:
    """What was played is what was published, from where it began to the end, at the same distance of time.

    Pictures are where they were to the millisecond. Sound has its true length instead of RTMP's rounded one.
    """
    assert played.extradata == published.extradata
    kinds = {packet.media for packet in published.packets}
    assert {packet.media for packet in played.packets} == kinds
    offsets: dict[str, list[float]] = {}
    for media in kinds:
        got = [(packet.size, packet.digest) for packet in played.of(media)]
        sent = [(packet.size, packet.digest) for packet in published.of(media)]
        assert got
        assert got == sent[len(sent) - len(got) :]
        offsets[media] = [
            after - before
            for one, other in zip(
                times_ms(played, media), times_ms(published, media)[len(sent) - len(got) :], strict=True
            )
            for after, before in zip(one, other, strict=True)
        ]
    everything = [offset for found in offsets.values() for offset in found]
    assert max(everything) - min(everything) <= 2
    assert len(set(offsets.get("video", [0]))) == 1


# -- every codec ---------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("name", MEDIA)
@real_reactor_test
async def test_watched_stream_is_the_published_one(
    name: str, kind: str, ffmpeg: FFmpeg, web_relay: Relay
) -> None:
    """A late joiner gets all from a keyframe on, B-frames with their composition times."""
    source = ffmpeg.make(f"http_{name}.flv", MEDIA[name])
    async with ffmpeg.broadcast(source, web_relay.url("live/test")) as broadcast:
        await web_relay.until_live("live/test", keyframes=2)
        playing = in_background(ffmpeg.play(media_url(web_relay, "live/test", kind)))
        await web_relay.until_watched("live/test")
        await broadcast.finish()
    played = await playing
    assert_same_media(played, ffmpeg.hash_of(source))
    assert viewers(web_relay) == ()


def media_frames(path: Path) -> list[MediaFrame]:
    """The frames of an FLV file."""
    with path.open("rb") as file:
        return [frame for tag in read_tags(file) if (frame := tag.to_frame()) is not None]


def ogg_packets(data: bytes) -> list[bytes]:
    """The packets of an Ogg file with one stream (RFC 3533)."""
    packets = [b""]
    at = 0
    while at < len(data):
        assert data[at : at + 4] == b"OggS"
        lacing = data[at + 27 : at + 27 + data[at + 26]]
        at += 27 + len(lacing)
        for size in lacing:
            packets[-1] += data[at : at + size]
            at += size
            if size < 255:
                packets.append(b"")
    return packets[:-1]


@real_reactor_test
async def test_av1_with_opus_is_watched_as_mp4(ffmpeg: FFmpeg, web_relay: Relay) -> None:
    """This ffmpeg cannot publish Opus, so its packets are put into Enhanced RTMP here."""
    pictures = ffmpeg.make(
        "http_av1.flv", f"{PICTURE} -t 4 -c:v libaom-av1 -cpu-used 8 -usage realtime -g 25"
    )
    tone = ffmpeg.make("http_opus.ogg", f"{TONE} -t 4 -c:a libopus")
    head, _, *packets = ogg_packets(tone.read_bytes())
    sounds = [MediaFrame(MediaKind.AUDIO, 0, b"\x90Opus" + head)]
    sounds += [
        MediaFrame(MediaKind.AUDIO, 20 * number, b"\x91Opus" + data) for number, data in enumerate(packets)
    ]
    frames = [frame for frame in media_frames(pictures) if frame.kind is MediaKind.VIDEO]
    frames = sorted([*sounds, *frames], key=lambda frame: frame.timestamp_ms)

    client = await publisher(web_relay, "live/test")
    client.send(*frames[:40])
    await web_relay.until_live("live/test")
    watching = in_background(ffmpeg.play(media_url(web_relay, "live/test", "mp4")))
    await web_relay.until(lambda: len(viewers(web_relay)) == 1)
    client.send(*frames[40:])
    await all_taken(web_relay, "live/test", len(frames))
    await client.close()
    played = await watching
    for media, source in (("video", pictures), ("audio", tone)):
        sent = [(packet.size, packet.digest) for packet in ffmpeg.hash_of(source).of(media)]
        got = [(packet.size, packet.digest) for packet in played.of(media)]
        assert got == sent[len(sent) - len(got) :]
        assert len(got) > 50
    decoded = [time for time, _ in times_ms(played, "audio")]
    assert {round(later - earlier, 3) for earlier, later in pairwise(decoded)} == {20.0}


async def publisher(relay: Relay, key: str) -> SocketClient:
    """A client that publishes what a test gives it."""
    app, _, name = key.partition("/")
    port = getattr(relay.service.addresses[0], "port", 0)
    client = await connect_client(f"tcp:127.0.0.1:{port}", app)
    await client.publish(name)
    return client


async def all_taken(relay: Relay, key: str, count: int) -> None:
    """Wait until the relay has got so many messages."""
    stream = relay.service.registry.live(key)
    await relay.until(lambda: stream.counters.messages >= count)


# -- joining, being slow, coming back ----------------------------------------------------------------------------


@KINDS
@real_reactor_test
async def test_a_late_joiner_decodes_without_an_error(kind: str, ffmpeg: FFmpeg, web_relay: Relay) -> None:
    """In the middle of a long group of pictures, and nobody waits for the next keyframe."""
    source = ffmpeg.make(
        "http_long_gop.flv", f"{PICTURE} {TONE} -t 14 -c:v libx264 -bf 2 -g 250 -sc_threshold 0 -c:a aac"
    )
    async with ffmpeg.broadcast(source, web_relay.url("live/late"), begin_ms=9000) as broadcast:
        await web_relay.until_live("live/late")
        stream = web_relay.service.registry.live("live/late")
        await web_relay.until(lambda: stream.counters.video_frames > 60)
        url = media_url(web_relay, "live/late", kind)
        decoding = in_background(
            ffmpeg.run_for_both("-v", "warning", "-i", url, "-frames:v", "50", "-f", "null", "-")
        )
        await web_relay.until_watched("live/late")
        assert stream.counters.keyframes == 1, "the next keyframe came too early to prove anything"
        await broadcast.finish()
    _, complaints = await decoding
    assert complaints == ""


class SlowClient:
    """A client that takes nothing from its socket for as long as a test wants."""

    def __init__(self, connection: HttpConnection) -> None:
        self.connection = connection
        self._transport = cast(Any, connection.transport)
        self._transport.getHandle().setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 * 1024)

    def stop_reading(self) -> None:
        """Take nothing more."""
        self._transport.pauseProducing()

    def read_on(self) -> None:
        """Take it all."""
        self._transport.resumeProducing()

    @property
    def body(self) -> bytes:
        """What came, without what HTTP puts around it."""
        return parse_response(self.connection.received)[0].body


@KINDS
@real_reactor_test
async def test_media_of_a_slow_viewer_decodes(
    kind: str, ffmpeg: FFmpeg, harness: Harness, tmp_path: Path
) -> None:
    """Whole groups of pictures are missing in the middle, and ffmpeg has nothing to complain about."""
    web_relay = harness.start_relay(http=HttpSettings(listen=LOOPBACK), queue_limits=QueueLimits(max_ms=1000))
    source = ffmpeg.make(
        "http_heavy.flv",
        "-f lavfi -i testsrc2=size=1280x720:rate=30,noise=alls=90:all_seed=7"
        f" {TONE} -t 4 -c:v libx264 -preset ultrafast -qp 6 -g 15 -bf 2 -pix_fmt yuv420p -c:a aac",
    )
    frames = media_frames(source)
    client = await publisher(web_relay, "live/heavy")
    client.send(*frames[:60])
    await web_relay.until_live("live/heavy")
    slow = SlowClient(await connect(web_relay.http_port))
    slow.connection.send(f"GET /live/heavy.{kind} HTTP/1.1\r\nHost: relay\r\n\r\n".encode())
    await until(lambda: slow.connection.received, "the beginning")
    slow.stop_reading()
    (viewer,) = viewers(web_relay)
    late = len(frames) - 60
    for number in range(60, late, 10):
        client.send(*frames[number : min(number + 10, late)])
        await all_taken(web_relay, "live/heavy", min(number + 10, late))
    await web_relay.until(lambda: viewer.account.messages_dropped > 0)
    slow.read_on()
    await web_relay.until(lambda: viewer.messages_queued == 0)
    client.send(*frames[late:])
    await all_taken(web_relay, "live/heavy", len(frames))
    await client.close()
    await until(lambda: slow.connection.received.endswith(b"0\r\n\r\n"), "the end")
    assert viewer.is_balanced
    file = tmp_path / f"slow.{kind}"
    file.write_bytes(slow.body)
    _, complaints = await ffmpeg.run_for_both("-v", "error", "-i", str(file), "-f", "null", "-")
    assert complaints == ""
    published, got = ffmpeg.hash_of(source), ffmpeg.hash_of(file)
    pictures = [packet.digest for packet in published.of("video")]
    places = [pictures.index(packet.digest) for packet in got.of("video")]
    assert places == sorted(set(places))
    assert len(places) < len(pictures)
    gaps = [later for earlier, later in pairwise(places) if later != earlier + 1]
    assert gaps
    assert all(place % 15 == 0 for place in gaps), "it went on at something else than a keyframe"
    # After the gap all is where it belongs in time.
    moved = {
        after[0] - before[0]
        for after, before in zip(
            times_ms(got, "video"), [times_ms(published, "video")[place] for place in places], strict=True
        )
    }
    assert len(moved) == 1


@KINDS
@real_reactor_test
async def test_players_end_with_a_broadcast_and_new_ones_get_the_next(
    kind: str, ffmpeg: FFmpeg, web_relay: Relay
) -> None:
    """Players end with the first broadcast; new ones get the second, whichever encoder it is from."""
    one = ffmpeg.make("http_one.flv", f"{PICTURE} {TONE} -t 3 {H264_AAC}")
    other = ffmpeg.make("http_other.flv", f"-f lavfi -i testsrc2=size=640x360:rate=25 {TONE} -t 3 {H264_AAC}")
    for source in (one, other):
        async with ffmpeg.broadcast(source, web_relay.url("live/test"), begin_ms=1500) as broadcast:
            await web_relay.until_live("live/test")
            url = media_url(web_relay, "live/test", kind)
            playing = gatherResults([in_background(ffmpeg.play(url)) for _ in range(2)])
            await web_relay.until_watched("live/test", viewers=2)
            await broadcast.finish()
        first, second = await playing
        for played in (first, second):
            assert_same_media(played, ffmpeg.hash_of(source))
        await web_relay.until(lambda: not web_relay.service.registry.get("live/test"))


@real_reactor_test
async def test_players_of_rtmp_flv_and_mp4_get_the_same_packets(ffmpeg: FFmpeg, web_relay: Relay) -> None:
    """Three players of one stream, each by another way, get the same packets."""
    source = ffmpeg.make("http_one.flv", f"{PICTURE} {TONE} -t 3 {H264_AAC}")
    async with ffmpeg.broadcast(source, web_relay.url("live/test"), begin_ms=1500) as broadcast:
        await web_relay.until_live("live/test")
        urls = [
            web_relay.url("live/test"),
            media_url(web_relay, "live/test", "flv"),
            media_url(web_relay, "live/test", "mp4"),
        ]
        playing = gatherResults([in_background(ffmpeg.play(url)) for url in urls])
        await web_relay.until_watched("live/test", viewers=3)
        await broadcast.finish()
    captures = await playing
    for played in captures:
        assert_same_media(played, ffmpeg.hash_of(source))
