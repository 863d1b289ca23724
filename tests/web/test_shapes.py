"""Video and audio of a stream, from its metadata and its decoder configuration."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.amf import amf0
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.web.api.shapes import audio_json, video_json
from rtmprelay.web.server.responses import json_bytes
from tests.helpers import audio_header, keyframe
from tests.streams.helpers import FakePublisher

#: A real H.264 configuration of 640 x 360.
AVC_640 = bytes.fromhex(
    "0164001effe1001967640 01eacd940a02ff9701100000300010000030032 0f162d96".replace(" ", "")
) + bytes.fromhex("01000668ebe3cb22c0")


def live(values: dict[str, object], *frames: MediaFrame) -> LiveStream:
    stream = LiveStream("live/test")
    stream.publisher_joined(FakePublisher(), 0.0)
    metadata = MediaFrame(MediaKind.DATA, 0, amf0.encode("onMetaData", values))  # type: ignore[arg-type]
    stream.publish_frames([metadata, *frames], 0.0)
    return stream


def test_metadata_of_the_publisher_is_shown() -> None:
    """OBS sends these values."""
    stream = live(
        {
            "width": 1920.0,
            "height": 1080.0,
            "framerate": 29.97002997,
            "videodatarate": 6000.0,
            "audiodatarate": 160.0,
            "audiosamplerate": 48000.0,
            "audiochannels": 2.0,
        },
        keyframe(0),
        MediaFrame(MediaKind.AUDIO, 0, b"\x2f\xff\xfb"),
    )
    assert video_json(stream) == {
        "codec": "H.264 AVC",
        "width": 1920,
        "height": 1080,
        "fps": 29.97,
        "declared_bitrate_kbps": 6000.0,
    }
    assert audio_json(stream) == {
        "codec": "MP3",
        "sample_rate": 48000,
        "channels": 2,
        "declared_bitrate_kbps": 160.0,
    }


def test_decoder_configuration_completes_and_corrects_the_metadata() -> None:
    header = MediaFrame(MediaKind.VIDEO, 0, b"\x17\x00\x00\x00\x00" + AVC_640)
    stream = live({"audiosamplerate": 44100.0, "stereo": False}, header, audio_header(b"\x11\x90"))
    video, audio = video_json(stream), audio_json(stream)
    assert video is not None
    assert audio is not None
    assert (video["width"], video["height"], video["fps"]) == (640, 360, None)
    assert (audio["sample_rate"], audio["channels"]) == (48000, 2)


def test_opus_header_has_the_channels_and_48_khz() -> None:
    head = b"OpusHead\x01\x06\x38\x01\x44\xac\x00\x00\x00\x00\x00"
    stream = live({}, MediaFrame(MediaKind.AUDIO, 0, b"\x90Opus" + head))
    audio = audio_json(stream)
    assert audio is not None
    assert (audio["codec"], audio["sample_rate"], audio["channels"]) == ("Opus", 48000, 6)


def test_stream_without_video_or_audio_has_none() -> None:
    assert video_json(live({"width": 100.0})) is None
    assert audio_json(live({}, keyframe(0))) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0, 1e300, True, None, [], "x", "", {}])
def test_impossible_metadata_is_left_out(value: object) -> None:
    names = (
        "width",
        "height",
        "framerate",
        "videodatarate",
        "audiodatarate",
        "audiosamplerate",
        "audiochannels",
    )
    stream = live(dict.fromkeys(names, value), keyframe(0), MediaFrame(MediaKind.AUDIO, 0, b"\x2f\xff\xfb"))
    video, audio = video_json(stream), audio_json(stream)
    assert video == {
        **(video or {}),
        "width": None,
        "height": None,
        "fps": None,
        "declared_bitrate_kbps": None,
    }
    assert audio == {**(audio or {}), "sample_rate": None, "channels": None, "declared_bitrate_kbps": None}
    assert json.loads(json_bytes([video, audio])) == [video, audio]


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_of_a_publisher_can_be_shown_as_json(picture: bytes, sound: bytes) -> None:
    stream = live(
        {},
        MediaFrame(MediaKind.VIDEO, 0, b"\x17\x00\x00\x00\x00" + picture),
        MediaFrame(MediaKind.VIDEO, 0, picture),
        MediaFrame(MediaKind.AUDIO, 0, b"\xaf\x00" + sound),
        MediaFrame(MediaKind.AUDIO, 0, sound),
    )
    assert json.loads(json_bytes([video_json(stream), audio_json(stream)]))
