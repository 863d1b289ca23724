"""The test card as a live stream: the messages that an encoder would send."""

from __future__ import annotations

from collections.abc import Iterator

from rtmprelay import __version__
from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.demo.test_card import aac
from rtmprelay.demo.test_card.card import FORMAT, beeps_at, draw, timestamp_of
from rtmprelay.demo.test_card.h264 import (
    CardPicture,
    decoder_configuration,
    encode_difference,
    encode_keyframe,
)
from rtmprelay.flv.script import encode_metadata
from rtmprelay.media import MediaFrame, MediaKind

#: Pictures from one keyframe to the next: the two seconds that platforms require.
GROUP = 2 * FORMAT.rate

#: The FLV header of a payload: keyframe or not, H.264, configuration or picture, no composition time.
_VIDEO_CONFIGURATION = b"\x17\x00\x00\x00\x00"
_KEYFRAME = b"\x17\x01\x00\x00\x00"
_DIFFERENCE = b"\x27\x01\x00\x00\x00"
_AUDIO_CONFIGURATION = b"\xaf\x00"
_SOUND = b"\xaf\x01"

_METADATA: dict[str, AmfValue] = {
    "width": float(FORMAT.width),
    "height": float(FORMAT.height),
    "framerate": float(FORMAT.rate),
    "videocodecid": 7.0,
    "audiocodecid": 10.0,
    "audiosamplerate": float(aac.SAMPLE_RATE),
    "audiosamplesize": 16.0,
    "stereo": False,
    "encoder": f"rtmprelay test card {__version__}",
}


def _first_frames() -> list[MediaFrame]:
    """Metadata, and the configuration of both decoders."""
    return [
        MediaFrame(MediaKind.DATA, 0, encode_metadata(_METADATA)),
        MediaFrame(MediaKind.VIDEO, 0, _VIDEO_CONFIGURATION + decoder_configuration(FORMAT)),
        MediaFrame(MediaKind.AUDIO, 0, _AUDIO_CONFIGURATION + aac.CONFIGURATION),
    ]


def _pictures() -> Iterator[MediaFrame]:
    number = 0
    before: CardPicture | None = None
    while True:
        picture = draw(number)
        place = number % GROUP
        if place and before is not None:
            start, unit = _DIFFERENCE, encode_difference(picture, before, place)
        else:
            start, unit = _KEYFRAME, encode_keyframe(picture, number // GROUP)
        payload = start + len(unit).to_bytes(4) + unit
        yield MediaFrame(MediaKind.VIDEO, timestamp_of(number), payload)
        before = picture
        number += 1


def _sounds() -> Iterator[MediaFrame]:
    """A beep at each full second, and silence."""
    number = 0
    while True:
        timestamp = number * aac.SAMPLES_PER_FRAME * 1000 // aac.SAMPLE_RATE
        unit = aac.tone(number) if beeps_at(timestamp) else aac.SILENCE
        yield MediaFrame(MediaKind.AUDIO, timestamp, _SOUND + unit)
        number += 1


def frames() -> Iterator[MediaFrame]:
    """All messages in the order of their timestamps, without end. A picture comes before the sound of the same time."""
    yield from _first_frames()
    video, audio = _pictures(), _sounds()
    picture, sound = next(video), next(audio)
    while True:
        if picture.timestamp_ms <= sound.timestamp_ms:
            yield picture
            picture = next(video)
        else:
            yield sound
            sound = next(audio)
