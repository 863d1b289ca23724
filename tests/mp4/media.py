"""Frames of all codecs that go into an MP4, with configurations of real encoders."""

from __future__ import annotations

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv.script import encode_metadata
from rtmprelay.media import MediaFrame, MediaKind

#: x264, 318x238.
AVC_CONFIGURATION = bytes.fromhex(
    "0164000dffe1001a6764000dacd94141feab0110000003001000000303c0f142996001000668ebe3cb22c0fdf8f800"
)
#: libaom, 320x240.
AV1_CONFIGURATION = bytes.fromhex("81000c000a0b000000043cffbcda990040")
#: AAC-LC, 44100 Hz, stereo.
AAC_CONFIGURATION = b"\x12\x10"
#: 2 channels, 312 samples to skip, 48000 Hz.
OPUS_HEAD = b"OpusHead\x01\x02\x38\x01\x80\xbb\x00\x00\x00\x00\x00"
#: MPEG-1 layer III, 128 kbit/s, 44100 Hz, stereo.
MP3_HEADER = b"\xff\xfb\x90\x00"


def metadata(**values: AmfValue) -> MediaFrame:
    """What an encoder says of its stream."""
    return MediaFrame(MediaKind.DATA, 0, encode_metadata(values))


def avc_header(configuration: bytes = AVC_CONFIGURATION) -> MediaFrame:
    return MediaFrame(MediaKind.VIDEO, 0, b"\x17\0\0\0\0" + configuration)


def aac_header(configuration: bytes = AAC_CONFIGURATION) -> MediaFrame:
    return MediaFrame(MediaKind.AUDIO, 0, b"\xaf\0" + configuration)


def opus_header() -> MediaFrame:
    return MediaFrame(MediaKind.AUDIO, 0, b"\x90Opus" + OPUS_HEAD)


def picture(
    timestamp_ms: int, data: bytes = b"picture", *, key: bool = False, composition_ms: int = 0
) -> MediaFrame:
    """Coded H.264."""
    first = b"\x17\x01" if key else b"\x27\x01"
    return MediaFrame(
        MediaKind.VIDEO, timestamp_ms, first + composition_ms.to_bytes(3, "big", signed=True) + data
    )


def sound(timestamp_ms: int, data: bytes = b"sound") -> MediaFrame:
    """Coded AAC."""
    return MediaFrame(MediaKind.AUDIO, timestamp_ms, b"\xaf\x01" + data)


def opus(timestamp_ms: int, data: bytes = b"\xfcopus") -> MediaFrame:
    """Coded Opus; 0xfc is one frame of 20 ms."""
    return MediaFrame(MediaKind.AUDIO, timestamp_ms, b"\x91Opus" + data)


def mp3(timestamp_ms: int, data: bytes = MP3_HEADER + bytes(20)) -> MediaFrame:
    """Coded MP3."""
    return MediaFrame(MediaKind.AUDIO, timestamp_ms, b"\x2f" + data)
