"""Real encoders and players: what ffmpeg publishes is what ffmpeg plays, packet by packet."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.defer import gatherResults

from rtmprelay.client import play
from rtmprelay.events import CodecDetected
from rtmprelay.flv.container import read_tags
from rtmprelay.flv.tags import describe_video
from rtmprelay.media import MediaFrame, MediaKind
from tests.helpers import real_reactor_test, the_reactor
from tests.service.harness import Harness, Relay
from tests.service.interop import (
    H264_AAC,
    FFmpeg,
    assert_same_from_a_keyframe_on,
    in_background,
)

PICTURE = "-f lavfi -i testsrc=size=320x240:rate=25"
TONE = "-f lavfi -i sine=frequency=440"

#: What is published, how it is made, and the codecs that the relay must find in it.
MEDIA = {
    "h264_aac_b_frames": (f"{PICTURE} {TONE} -t 6 {H264_AAC}", "H.264 AVC", "AAC"),
    "audio_only": (f"{TONE} -t 6 -c:a aac", None, "AAC"),
    "mp3_only": (f"{TONE} -t 6 -ar 44100 -c:a libmp3lame", None, "MP3"),
    "video_only": (f"{PICTURE} -t 6 -c:v libx264 -g 25", "H.264 AVC", None),
    "hevc": (
        f"{PICTURE} {TONE} -t 6 -c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=25 -c:a aac",
        "H.265 HEVC",
        "AAC",
    ),
    "av1": (f"{PICTURE} {TONE} -t 4 -c:v libaom-av1 -cpu-used 8 -g 25 -c:a aac", "AV1", "AAC"),
    "vp9": (f"{PICTURE} -t 4 -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 25", "VP9", None),
}


@pytest.mark.parametrize("name", MEDIA)
@real_reactor_test
async def test_played_stream_is_the_published_one(name: str, ffmpeg: FFmpeg, relay: Relay) -> None:
    """Each codec comes through unchanged, and the relay says what it is."""
    arguments, video, audio = MEDIA[name]
    source = ffmpeg.make(f"{name}.flv", arguments)
    async with ffmpeg.broadcast(source, relay.url("live/test")) as broadcast:
        await relay.until_live("live/test", keyframes=2)
        playing = in_background(ffmpeg.play(relay.url("live/test")))
        await relay.until_watched("live/test")
        await broadcast.finish()
    played = await playing
    assert_same_from_a_keyframe_on(played, ffmpeg.hash_of(source))
    detected = [event for event in relay.events if isinstance(event, CodecDetected)]
    assert [(event.stream_key, event.video, event.audio) for event in detected] == [
        ("live/test", video, audio)
    ]


@real_reactor_test
async def test_a_heavy_stream_comes_through_whole(ffmpeg: FFmpeg, relay: Relay) -> None:
    """20 Mbit/s and more, with keyframes of over 1 MB."""
    source = ffmpeg.make(
        "heavy.flv",
        "-f lavfi -i testsrc2=size=1280x720:rate=30,noise=alls=90:all_seed=7 -t 4"
        " -c:v libx264 -preset ultrafast -qp 6 -g 30 -pix_fmt yuv420p",
    )
    with source.open("rb") as file:
        keyframes = [
            len(tag.payload)
            for tag in read_tags(file)
            if tag.type_byte == 9 and describe_video(tag.payload).keyframe
        ]
    assert min(keyframes) > 1_000_000
    assert source.stat().st_size * 8 / 4 > 20_000_000
    async with ffmpeg.broadcast(source, relay.url("live/heavy"), begin_ms=900) as broadcast:
        await relay.until_live("live/heavy")
        playing = in_background(ffmpeg.play(relay.url("live/heavy")))
        await relay.until_watched("live/heavy")
        await broadcast.finish()
    played = await playing
    published = ffmpeg.hash_of(source)
    assert_same_from_a_keyframe_on(played, published)
    # It joined in the first group of pictures, which the relay had kept.
    assert len(played.packets) == len(published.packets)


@real_reactor_test
async def test_two_publishers_and_three_players_at_once(ffmpeg: FFmpeg, relay: Relay) -> None:
    """Streams do not touch each other, and every player gets the same."""
    one = ffmpeg.make("one.flv", f"{PICTURE} {TONE} -t 6 {H264_AAC}")
    other = ffmpeg.make("other.flv", f"-f lavfi -i testsrc2=size=320x240:rate=25 {TONE} -t 6 {H264_AAC}")
    async with (
        ffmpeg.broadcast(one, relay.url("live/one")) as first_broadcast,
        ffmpeg.broadcast(other, relay.url("live/other")) as second_broadcast,
    ):
        await relay.until_live("live/one")
        await relay.until_live("live/other")
        urls = [relay.url("live/one"), relay.url("live/one"), relay.url("live/other")]
        playing = gatherResults([in_background(ffmpeg.play(url)) for url in urls])
        await relay.until_watched("live/one", viewers=2)
        await relay.until_watched("live/other")
        await first_broadcast.finish()
        await second_broadcast.finish()
    first, second, third = await playing
    assert_same_from_a_keyframe_on(first, ffmpeg.hash_of(one))
    assert_same_from_a_keyframe_on(second, ffmpeg.hash_of(one))
    assert_same_from_a_keyframe_on(third, ffmpeg.hash_of(other))


@real_reactor_test
async def test_a_late_joiner_decodes_without_an_error(ffmpeg: FFmpeg, relay: Relay) -> None:
    """Keyframes are 10 s apart; who comes in between decodes from the first frame on, with no complaint."""
    source = ffmpeg.make(
        "long_gop.flv", f"{PICTURE} {TONE} -t 14 -c:v libx264 -g 250 -sc_threshold 0 -c:a aac"
    )
    async with ffmpeg.broadcast(source, relay.url("live/late"), begin_ms=9000) as broadcast:
        await relay.until_live("live/late")
        stream = relay.service.registry.live("live/late")
        await relay.until(lambda: stream.counters.video_frames > 60)
        assert stream.counters.keyframes == 1
        await first_picture(relay, "live/late")
        assert stream.counters.keyframes == 1, "the next keyframe came too early to prove anything"
        await relay.until(lambda: stream.viewers == 0)
        decoding = in_background(
            ffmpeg.run_for_both(
                "-v", "error", "-i", relay.url("live/late"), "-frames:v", "50", "-f", "null", "-"
            )
        )
        await relay.until_watched("live/late")
        await broadcast.finish()
    _, complaints = await decoding
    assert complaints == ""


async def first_picture(relay: Relay, key: str) -> None:
    """Wait until a new player has its first keyframe, of which there has been one long ago."""
    player = await play(the_reactor(), relay.url(key))
    frames: list[MediaFrame] = []
    player.deliver_to(frames.extend)
    await relay.until(
        lambda: any(
            frame.kind is MediaKind.VIDEO and describe_video(frame.payload).keyframe for frame in frames
        )
    )
    player.end()
    await player.when_lost


@real_reactor_test
async def test_rtmps_gives_the_same_packets(
    ffmpeg: FFmpeg, harness: Harness, certificate: tuple[Path, Path]
) -> None:
    """With `--listen ssl:...` and rtmps:// addresses."""
    key, chain = certificate
    source = ffmpeg.make("tls.flv", f"{PICTURE} {TONE} -t 4 {H264_AAC}")
    relay = harness.start_relay(f"ssl:0:interface=127.0.0.1:privateKey={key}:certKey={chain}")
    trusting = ffmpeg.trusting(chain)
    async with trusting.broadcast(source, relay.url("live/secret", "rtmps")) as broadcast:
        await relay.until_live("live/secret")
        playing = in_background(trusting.play(relay.url("live/secret", "rtmps")))
        await relay.until_watched("live/secret")
        await broadcast.finish()
    played = await playing
    assert_same_from_a_keyframe_on(played, ffmpeg.hash_of(source))


@real_reactor_test
async def test_a_player_stays_when_the_publisher_returns(ffmpeg: FFmpeg, relay: Relay) -> None:
    """A publisher goes and comes back: the player is told, gets all of both, and time goes on for it."""
    source = ffmpeg.make("short.flv", f"{PICTURE} {TONE} -t 2 {H264_AAC}")
    async with ffmpeg.broadcast(source, relay.url("live/back"), begin_ms=1000) as broadcast:
        await relay.until_live("live/back")
        player = await play(the_reactor(), relay.url("live/back"))
        frames: list[MediaFrame] = []
        codes: list[str] = []
        player.on_status = codes.append
        player.deliver_to(frames.extend)
        await broadcast.finish()
    await relay.until(lambda: "NetStream.Play.UnpublishNotify" in codes)
    before = len(frames)
    await ffmpeg.publish(source, relay.url("live/back"), speed=20.0)
    await relay.until(lambda: codes.count("NetStream.Play.UnpublishNotify") == 2)
    assert "NetStream.Play.PublishNotify" in codes
    player.end()
    await player.when_lost
    assert [frame.payload for frame in frames[:before]] == [frame.payload for frame in frames[before:]]
    end_of_first = max(frame.timestamp_ms for frame in frames[:before])
    media = [frame for frame in frames[before:] if frame.kind is not MediaKind.DATA]
    assert min(frame.timestamp_ms for frame in media) > end_of_first
