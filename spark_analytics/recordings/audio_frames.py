"""How the sound of a recording is sampled, and how long an audio frame is by its samples."""

from __future__ import annotations

import attrs

from rtmprelay.flv import Codec
from rtmprelay.flv.codec_headers import OPUS_RATE, aac_sampling, mp3_sampling, opus_packet_samples
from rtmprelay.flv.tags import audio_content

#: Sample rates by the number in the first byte, of codecs that say no more.
_LEGACY_RATES = (5512, 11025, 22050, 44100)


@attrs.frozen
class Sound:
    """Samples a second, channels, and milliseconds in a frame; None where that is not told."""

    rate: int | None = None
    channels: int | None = None
    frame_ms: float | None = None


def sound_of(payload: bytes) -> Sound | None:
    """What a decoder configuration or an audio frame says of itself; None if it says nothing."""
    content = audio_content(payload)
    if content is None:
        is_legacy = bool(payload) and payload[0] >> 4 not in (9, 10)
        return Sound(_LEGACY_RATES[payload[0] >> 2 & 3], 1 + (payload[0] & 1)) if is_legacy else None
    data = content.of(payload)
    match content.codec, content.configuration:
        case Codec.AAC, True:
            found = aac_sampling(data)
        case Codec.MP3, False:
            found = mp3_sampling(data)
        case Codec.OPUS, True:
            return Sound(OPUS_RATE, data[9]) if len(data) > 9 and data.startswith(b"OpusHead") else None
        case Codec.OPUS, False:
            samples = opus_packet_samples(data)
            return None if samples is None else Sound(OPUS_RATE, None, samples * 1000 / OPUS_RATE)
        case _:
            return None
    if found is None or not found.rate:
        return None
    return Sound(found.rate, found.channels, found.packet_samples * 1000 / found.rate)
