"""The tracks of a stream, as their decoder configuration describes them."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import RtmpRelayError
from rtmprelay.flv.contents import Content
from rtmprelay.flv.picture_size import picture_size
from rtmprelay.flv.sampling import OPUS_RATE, aac_sampling, mp3_sampling
from rtmprelay.media import MediaKind

VIDEO_TRACK_ID = 1
AUDIO_TRACK_ID = 2

#: Pictures are placed as exactly as RTMP says: in milliseconds.
VIDEO_TIMESCALE = 1000

#: What goes into an MP4, by the FourCC of Enhanced RTMP.
VIDEO_CODECS = {b"avc1": "H.264 AVC", b"hvc1": "H.265 HEVC", b"av01": "AV1"}
AUDIO_CODECS = {b"mp4a": "AAC", b"Opus": "Opus", b".mp3": "MP3"}

#: The names of all codecs that go into an MP4, as `rtmprelay.flv.tags` has them.
SUPPORTED_CODECS = frozenset((*VIDEO_CODECS.values(), *AUDIO_CODECS.values()))

#: Those of them whose media comes without a decoder configuration before it.
CODECS_WITHOUT_HEADER = frozenset(("MP3",))

#: The fixed part of each codec's configuration: less is no configuration.
_SMALLEST_CONFIGURATION = {b"avc1": 7, b"hvc1": 23, b"av01": 4, b"Opus": 19, b"mp4a": 2}

_DEFAULT_FRAME_MS = 40


class UnsupportedMediaError(RtmpRelayError):
    """A stream has something in it that cannot be put into an MP4."""


@attrs.frozen(cache_hash=True)
class Track:
    """What is the same for video and audio. Tracks are values: equal ones make equal fragments."""

    codec: bytes
    configuration: bytes


@attrs.frozen(cache_hash=True)
class VideoTrack(Track):
    """Pictures."""

    width: int
    height: int
    #: The usual distance of two pictures.
    frame_ms: int

    kind = MediaKind.VIDEO
    track_id = VIDEO_TRACK_ID
    timescale = VIDEO_TIMESCALE

    @property
    def codec_name(self) -> str:
        """The codec, for people."""
        return VIDEO_CODECS[self.codec]


@attrs.frozen(cache_hash=True)
class AudioTrack(Track):
    """Sound. Its clock ticks once a sample, so that packets follow each other without gaps."""

    timescale: int
    channels: int
    #: How many samples each packet has; None if every packet says it itself (Opus).
    packet_samples: int | None

    kind = MediaKind.AUDIO
    track_id = AUDIO_TRACK_ID

    @property
    def codec_name(self) -> str:
        """The codec, for people."""
        return AUDIO_CODECS[self.codec]


AnyTrack = VideoTrack | AudioTrack


def video_track(payload: bytes, content: Content, metadata: Mapping[str, AmfValue]) -> VideoTrack:
    """The track of a video sequence header of one of the codecs above."""
    configuration = _configuration(payload, content, VIDEO_CODECS[content.codec])
    width, height = picture_size(payload) or (_size(metadata, "width"), _size(metadata, "height"))
    return VideoTrack(
        content.codec, configuration, min(width, 65535), min(height, 65535), _frame_ms(metadata)
    )


def audio_track(payload: bytes, content: Content) -> AudioTrack:
    """The track of an audio sequence header; MP3, which has none, needs its first packet."""
    if content.codec == b".mp3":
        found = mp3_sampling(content.of(payload))
        if found is None:
            raise UnsupportedMediaError("this is not MP3 as the publisher says")
        return AudioTrack(content.codec, b"", found.rate, found.channels, found.packet_samples)
    configuration = _configuration(payload, content, AUDIO_CODECS[content.codec])
    if content.codec == b"Opus":
        if not _is_opus_head(configuration):
            raise UnsupportedMediaError("the decoder configuration of Opus cannot be read")
        return AudioTrack(content.codec, configuration, OPUS_RATE, configuration[9], None)
    found = aac_sampling(configuration)
    if found is None:
        raise UnsupportedMediaError("the decoder configuration of AAC cannot be read")
    return AudioTrack(content.codec, configuration, found.rate, found.channels, found.packet_samples)


def _is_opus_head(configuration: bytes) -> bool:
    channels, mapping = configuration[9], configuration[18]
    # With a mapping, a table of the channels follows.
    size = 21 + channels if mapping else 19
    return configuration.startswith(b"OpusHead") and channels > 0 and len(configuration) >= size


def _configuration(payload: bytes, content: Content, name: str) -> bytes:
    configuration = content.of(payload)
    if len(configuration) < _SMALLEST_CONFIGURATION[content.codec]:
        raise UnsupportedMediaError(f"the decoder configuration of {name} is cut short")
    return configuration


def _size(metadata: Mapping[str, AmfValue], name: str) -> int:
    value = metadata.get(name)
    return int(value) if isinstance(value, float | int) and 0 < value <= 65535 else 0


def _frame_ms(metadata: Mapping[str, AmfValue]) -> int:
    rate = metadata.get("framerate")
    if isinstance(rate, float | int) and 0.5 <= rate <= 500:
        return round(1000 / rate)
    return _DEFAULT_FRAME_MS
