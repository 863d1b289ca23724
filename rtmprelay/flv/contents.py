"""What lies behind the header of an audio or video payload: where the codec's own bytes begin and end.

Whoever puts the media into another container needs this. Of several tracks in one payload it is track 0, the one that
every player shows. Nothing here raises, and nothing is copied.
"""

from __future__ import annotations

import attrs

from rtmprelay.flv.enhanced_header import (
    AudioPacketType,
    FrameType,
    VideoPacketType,
    frame_type_of,
    read_audio_header,
    read_video_header,
    track_data,
)

#: Legacy codec numbers with a packet type and a composition time, as the FourCC that Enhanced RTMP has for them.
_LEGACY_VIDEO = {7: b"avc1", 12: b"hvc1", 13: b"av01"}

#: CodedFrames of these begin with a composition time.
_WITH_COMPOSITION_TIME = frozenset((b"avc1", b"hvc1", b"vvc1"))

_KEY_FRAMES = frozenset((FrameType.KEY, FrameType.GENERATED_KEY))

_ENHANCED_VIDEO = 0x80
_ENHANCED_AUDIO = 9
_AAC = 10
_MP3 = frozenset((2, 14))


@attrs.frozen
class Content:
    """The bytes of the codec in a payload, from `begin` up to `end`.

    Attributes:
        codec: The FourCC, for legacy payloads as well.
        configuration: Whether this is the decoder configuration, and not coded media.
        composition_ms: How much later than it is decoded the picture is shown.
    """

    codec: bytes
    configuration: bool
    begin: int
    end: int
    composition_ms: int = 0
    keyframe: bool = False
    disposable: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing. FFmpeg sends such a configuration when the encoder has not told its own yet."""
        return self.begin == self.end

    def of(self, payload: bytes) -> bytes:
        """The bytes themselves."""
        return payload[self.begin : self.end]


def video_content(payload: bytes) -> Content | None:
    """The decoder configuration or the coded picture in a payload; None if it has neither, or is not understood."""
    if len(payload) < 5:
        return None
    if payload[0] & _ENHANCED_VIDEO:
        return _enhanced_video(payload)
    codec = _LEGACY_VIDEO.get(payload[0] & 15)
    frame_type = payload[0] >> 4
    packet_type = payload[1]
    # In a command frame the second byte is the command.
    if codec is None or packet_type > 1 or frame_type == FrameType.COMMAND:
        return None
    if packet_type == 0:
        return Content(codec, True, 5, len(payload))
    return _picture(codec, frame_type, 5, len(payload), int.from_bytes(payload[2:5], "big", signed=True))


def _enhanced_video(payload: bytes) -> Content | None:
    header = read_video_header(payload)
    found = None if header is None or header.command else track_data(payload, header, 0)
    if header is None or found is None:
        return None
    codec, begin, end = found
    match header.packet_type:
        case VideoPacketType.SEQUENCE_START:
            return Content(codec, True, begin, end)
        case VideoPacketType.CODED_FRAMES_X:
            return _picture(codec, frame_type_of(payload), begin, end, 0)
        case VideoPacketType.CODED_FRAMES:
            composition_ms = 0
            if codec in _WITH_COMPOSITION_TIME:
                if end - begin < 3:
                    return None
                composition_ms = int.from_bytes(payload[begin : begin + 3], "big", signed=True)
                begin += 3
            return _picture(codec, frame_type_of(payload), begin, end, composition_ms)
    return None


def _picture(codec: bytes, frame_type: int, begin: int, end: int, composition_ms: int) -> Content:
    return Content(
        codec,
        False,
        begin,
        end,
        composition_ms,
        keyframe=frame_type in _KEY_FRAMES,
        disposable=frame_type == FrameType.DISPOSABLE,
    )


def audio_content(payload: bytes) -> Content | None:
    """The decoder configuration or the coded sound in a payload; None if it has neither, or is not understood."""
    if len(payload) < 2:
        return None
    sound_format = payload[0] >> 4
    if sound_format == _AAC:
        return Content(b"mp4a", payload[1] == 0, 2, len(payload)) if payload[1] <= 1 else None
    if sound_format in _MP3:
        return Content(b".mp3", False, 1, len(payload))
    return _enhanced_audio(payload) if sound_format == _ENHANCED_AUDIO else None


def _enhanced_audio(payload: bytes) -> Content | None:
    header = read_audio_header(payload)
    found = None if header is None else track_data(payload, header, 0)
    if header is None or found is None:
        return None
    codec, begin, end = found
    if header.packet_type == AudioPacketType.SEQUENCE_START:
        return Content(codec, True, begin, end)
    if header.packet_type == AudioPacketType.CODED_FRAMES:
        return Content(codec, False, begin, end)
    return None
