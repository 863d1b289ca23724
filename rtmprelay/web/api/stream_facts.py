"""What a stream is made of: the publisher's word first, then what its decoder configuration says."""

from __future__ import annotations

import math
from functools import lru_cache

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv import Codec
from rtmprelay.flv.codec_headers import OPUS_RATE, aac_sampling, picture_size
from rtmprelay.flv.tags import audio_content
from rtmprelay.media import MediaKind
from rtmprelay.streams.live_stream import LiveStream

#: Real decoder configurations have a few hundred bytes; what is larger is not looked at.
_LARGEST_HEADER = 4096

#: Metadata is a stranger's word: a number beyond this is none.
_LARGEST_NUMBER = 1e9


@lru_cache(maxsize=256)
def _picture_size(header: bytes) -> tuple[int, int] | None:
    return picture_size(header)


@lru_cache(maxsize=256)
def _sampling(header: bytes) -> tuple[int | None, int | None]:
    """Samples a second, and channels, as the decoder configuration says."""
    content = audio_content(header)
    if content is None or not content.configuration:
        return None, None
    configuration = content.of(header)
    if content.codec is Codec.AAC:
        sampling = aac_sampling(configuration)
        return (None, None) if sampling is None else (sampling.rate, sampling.channels)
    if content.codec is Codec.OPUS and configuration[:8] == b"OpusHead" and len(configuration) > 9:
        return OPUS_RATE, configuration[9] or None
    return None, None


def _number(value: AmfValue) -> float | None:
    """A positive number out of metadata; some encoders write it as text."""
    if isinstance(value, str):
        try:
            value = float(value[:32])
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, float | int):
        return None
    return float(value) if math.isfinite(value) and 0 < value <= _LARGEST_NUMBER else None


def _whole(value: AmfValue) -> int | None:
    number = _number(value)
    return None if number is None else round(number)


def _kbps(value: AmfValue) -> float | None:
    number = _number(value)
    return None if number is None else round(number, 1)


def _header(stream: LiveStream, kind: MediaKind) -> bytes | None:
    header = stream.header(kind)
    return header if header is not None and len(header) <= _LARGEST_HEADER else None


def video_facts(stream: LiveStream) -> dict[str, object] | None:
    """What is known of the pictures; None if there are none."""
    if stream.video_codec is None:
        return None
    values = stream.metadata
    width, height = _whole(values.get("width")), _whole(values.get("height"))
    header = _header(stream, MediaKind.VIDEO)
    if (width is None or height is None) and header is not None:
        width, height = _picture_size(header) or (width, height)
    fps = (
        _number(values.get("framerate"))
        or _number(values.get("videoframerate"))
        or _number(values.get("fps"))
    )
    return {
        "codec": stream.video_codec.display_name,
        "width": width,
        "height": height,
        "fps": None if fps is None else round(fps, 3),
        "declared_bitrate_kbps": _kbps(values.get("videodatarate")),
    }


def audio_facts(stream: LiveStream) -> dict[str, object] | None:
    """What is known of the sound; None if there is none."""
    if stream.audio_codec is None:
        return None
    values = stream.metadata
    header = _header(stream, MediaKind.AUDIO)
    rate, configured_channels = (None, None) if header is None else _sampling(header)
    channels = _whole(values.get("audiochannels"))
    if channels is None and isinstance(values.get("stereo"), bool):
        channels = 2 if values["stereo"] else 1
    # Here the decoder's word goes first: encoders copy a fixed 44100 into the metadata.
    return {
        "codec": stream.audio_codec.display_name,
        "sample_rate": rate or _whole(values.get("audiosamplerate")),
        "channels": configured_channels or channels,
        "declared_bitrate_kbps": _kbps(values.get("audiodatarate")),
    }
