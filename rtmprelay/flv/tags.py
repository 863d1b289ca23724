"""What an audio or video payload is, and where in it the codec's own bytes are.

The body of an RTMP audio or video message and the body of an FLV tag are the same bytes, so this module
serves both. It reads the original FLV layout and Enhanced RTMP v2. Nothing here raises: a relay also passes
on what it does not understand, so `UNKNOWN` and None are normal answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

import attrs

from rtmprelay.flv import AnyCodec, Codec
from rtmprelay.flv.enhanced_header import (
    AUDIO_FOURCC,
    VIDEO_FOURCC,
    AudioPacketType,
    EnhancedHeader,
    FrameType,
    VideoPacketType,
    find_codec,
    frame_type_of,
    read_audio_header,
    read_video_header,
    track_data,
)


@attrs.frozen
class TagInfo:
    """What the first bytes of an audio or video payload say; values are shared between payloads.

    Attributes:
        codec: None if it is not known.
        keyframe: Decoding can start at this coded frame; False for sequence headers and for audio.
        sequence_header: The decoder configuration, which every late joiner needs first.
        sequence_end: The publisher says that this sequence is over.
        startup_metadata: HDR colour or channel layout: late joiners need it next to the header.
        coded: Carries coded media; also assumed of what is not understood.
        tracks: The track ids of an Enhanced RTMP multitrack payload, else empty.
    """

    codec: AnyCodec | None = None
    keyframe: bool = False
    sequence_header: bool = False
    sequence_end: bool = False
    startup_metadata: bool = False
    coded: bool = True
    tracks: tuple[int, ...] = ()


#: Empty, truncated, or in a format that this module does not know.
UNKNOWN = TagInfo()

#: Legacy codecs whose second byte is a packet type: 0 configuration, 1 coded, 2 end; then a composition
#: time. 12 and 13 were never Adobe's: CDNs in China agreed on them. 14 and 15 are left out, because
#: the forks that use them do not agree on what they mean.
_PACKETED_VIDEO = {7: Codec.AVC, 12: Codec.HEVC, 13: Codec.AV1}

_PLAIN_VIDEO = {
    2: Codec.SORENSON_H263,
    3: Codec.SCREEN_VIDEO,
    4: Codec.VP6,
    5: Codec.VP6_ALPHA,
    6: Codec.SCREEN_VIDEO_2,
}

_AAC = 10
_PLAIN_AUDIO = {
    0: Codec.PCM,
    1: Codec.ADPCM,
    2: Codec.MP3,
    3: Codec.PCM,
    4: Codec.NELLYMOSER,
    5: Codec.NELLYMOSER,
    6: Codec.NELLYMOSER,
    7: Codec.G711_A_LAW,
    8: Codec.G711_MU_LAW,
    11: Codec.SPEEX,
    14: Codec.MP3,
}

#: CodedFrames of these begin with a composition time; the other codecs have no use for one.
_WITH_COMPOSITION_TIME = frozenset((Codec.AVC, Codec.HEVC, Codec.VVC))

_KEY_FRAMES = frozenset((FrameType.KEY, FrameType.GENERATED_KEY))
_CODED_VIDEO = frozenset((VideoPacketType.CODED_FRAMES, VideoPacketType.CODED_FRAMES_X))
_VIDEO_SEQUENCE_STARTS = frozenset((VideoPacketType.SEQUENCE_START, VideoPacketType.MPEG2TS_SEQUENCE_START))
_AUDIO_PACKETS = frozenset(AudioPacketType) - {AudioPacketType.MULTITRACK, AudioPacketType.MOD_EX}

_ENHANCED_VIDEO = 0x80
_ENHANCED_AUDIO = 9


def describe_video(payload: bytes) -> TagInfo:
    return (
        _VIDEO_TABLE.get(payload[:2])  # H.264 and the other packeted codecs
        or _VIDEO_TABLE.get(payload[:5])  # enhanced
        or _VIDEO_TABLE.get(payload[:1])  # the other legacy codecs
        or _read_video(payload)
    )


def describe_audio(payload: bytes) -> TagInfo:
    return (
        _AUDIO_TABLE.get(payload[:2])  # AAC
        or _AUDIO_TABLE.get(payload[:5])  # enhanced
        or _AUDIO_TABLE.get(payload[:1])  # the other legacy codecs
        or _read_audio(payload)
    )


def _read_video(payload: bytes) -> TagInfo:
    if not payload:
        return UNKNOWN
    if payload[0] & _ENHANCED_VIDEO:
        return _read_enhanced_video(payload)
    frame_type, codec_id = divmod(payload[0], 16)
    codec = _PLAIN_VIDEO.get(codec_id)
    if codec is not None:
        return _coded_video(codec, frame_type)
    codec = _PACKETED_VIDEO.get(codec_id)
    if codec is None or len(payload) < 2:
        return UNKNOWN
    if frame_type == FrameType.COMMAND:
        # Here the second byte is the command; 0 must not pass for a packet type.
        return TagInfo(codec=codec, coded=False)
    match payload[1]:
        case 0:
            return TagInfo(codec=codec, sequence_header=True, coded=False)
        case 1:
            return _coded_video(codec, frame_type)
        case 2:
            return TagInfo(codec=codec, sequence_end=True, coded=False)
    return UNKNOWN


def _coded_video(codec: Codec, frame_type: int) -> TagInfo:
    return TagInfo(codec=codec, keyframe=frame_type in _KEY_FRAMES, coded=frame_type != FrameType.COMMAND)


def _read_enhanced_video(payload: bytes) -> TagInfo:
    header = read_video_header(payload)
    if header is None:
        return UNKNOWN
    if header.command:
        return TagInfo(coded=False)
    # The rest of the header means the same for a codec that is new to us.
    codec = find_codec(VIDEO_FOURCC, header.fourcc)
    packet_type = header.packet_type
    if codec is None or packet_type >= VideoPacketType.MULTITRACK:
        return UNKNOWN
    coded = packet_type in _CODED_VIDEO
    return TagInfo(
        codec=codec,
        keyframe=coded and frame_type_of(payload) in _KEY_FRAMES,
        sequence_header=packet_type in _VIDEO_SEQUENCE_STARTS,
        sequence_end=packet_type == VideoPacketType.SEQUENCE_END,
        startup_metadata=packet_type == VideoPacketType.METADATA,
        coded=coded,
        tracks=header.tracks,
    )


def _read_audio(payload: bytes) -> TagInfo:
    if not payload:
        return UNKNOWN
    sound_format = payload[0] >> 4
    if sound_format == _ENHANCED_AUDIO:
        return _read_enhanced_audio(payload)
    if sound_format == _AAC:
        match payload[1:2]:
            case b"\x00":
                return TagInfo(codec=Codec.AAC, sequence_header=True, coded=False)
            case b"\x01":
                return TagInfo(codec=Codec.AAC)
        return UNKNOWN
    return TagInfo(codec=_PLAIN_AUDIO.get(sound_format))


def _read_enhanced_audio(payload: bytes) -> TagInfo:
    header = read_audio_header(payload)
    if header is None:
        return UNKNOWN
    # The rest of the header means the same for a codec that is new to us.
    codec = find_codec(AUDIO_FOURCC, header.fourcc)
    packet_type = header.packet_type
    if codec is None or packet_type not in _AUDIO_PACKETS:
        return UNKNOWN
    return TagInfo(
        codec=codec,
        sequence_header=packet_type == AudioPacketType.SEQUENCE_START,
        sequence_end=packet_type == AudioPacketType.SEQUENCE_END,
        startup_metadata=packet_type == AudioPacketType.MULTICHANNEL_CONFIG,
        coded=packet_type == AudioPacketType.CODED_FRAMES,
        tracks=header.tracks,
    )


# -- the tables ----------------------------------------------------------------------------------------------


def _table(read: Callable[[bytes], TagInfo], prefixes: Iterable[bytes]) -> dict[bytes, TagInfo]:
    """What the reader says of each prefix; equal answers become one value.

    The tables are complete at import and never grow, so a hostile peer cannot fill them.
    """
    shared: dict[TagInfo, TagInfo] = {}
    return {prefix: shared.setdefault(info, info) for prefix in prefixes if (info := read(prefix)) != UNKNOWN}


def _enhanced_prefixes(first: Iterable[int], fourccs: Iterable[bytes]) -> list[bytes]:
    return [bytes([byte]) + fourcc for byte, fourcc in product(first, fourccs)]


_VIDEO_TABLE = _table(
    _read_video,
    [bytes(pair) for pair in product(range(0x80), range(3)) if pair[0] & 15 in _PACKETED_VIDEO]
    + [bytes([byte]) for byte in range(0x80) if byte & 15 in _PLAIN_VIDEO]
    + _enhanced_prefixes(
        (byte for byte in range(0x80, 0x100) if byte & 15 < VideoPacketType.MULTITRACK), VIDEO_FOURCC
    ),
)

_AUDIO_TABLE = _table(
    _read_audio,
    [bytes(pair) for pair in product(range(0xA0, 0xB0), range(2))]
    + [bytes([byte]) for byte in range(0x100) if byte >> 4 in _PLAIN_AUDIO]
    + _enhanced_prefixes(range(0x90, 0x90 + AudioPacketType.MULTITRACK), AUDIO_FOURCC),
)


# -- the codec's own bytes -----------------------------------------------------------------------------------


@attrs.frozen
class Content:
    """The bytes of the codec in a payload, from `begin` up to `end`. Nothing is copied.

    Attributes:
        configuration: Whether this is the decoder configuration, and not coded media.
        composition_ms: How much later than it is decoded the picture is shown.
    """

    codec: AnyCodec
    configuration: bool
    begin: int
    end: int
    composition_ms: int = 0
    keyframe: bool = False
    disposable: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there are no bytes: FFmpeg sends such a configuration before the encoder has made its own."""
        return self.begin == self.end

    def of(self, payload: bytes) -> bytes:
        return payload[self.begin : self.end]


def video_content(payload: bytes) -> Content | None:
    """The decoder configuration or the coded picture in a payload; None if it has neither, or is not understood.

    Of several tracks in one payload it is track 0, the one that every player shows.
    """
    if len(payload) < 5:
        return None
    if payload[0] & _ENHANCED_VIDEO:
        header = read_video_header(payload)
        return None if header is None else _enhanced_picture(payload, header, 0)
    codec = _PACKETED_VIDEO.get(payload[0] & 15)
    frame_type = payload[0] >> 4
    # In a command frame the second byte is the command.
    if codec is None or payload[1] > 1 or frame_type == FrameType.COMMAND:
        return None
    if payload[1] == 0:
        return Content(codec, True, 5, len(payload))
    return _picture(codec, frame_type, 5, len(payload), _signed_24(payload, 2))


def audio_content(payload: bytes) -> Content | None:
    """The decoder configuration or the coded sound in a payload, as `video_content`."""
    if len(payload) < 2:
        return None
    sound_format = payload[0] >> 4
    if sound_format == _ENHANCED_AUDIO:
        header = read_audio_header(payload)
        return None if header is None else _enhanced_sound(payload, header)
    if sound_format == _AAC:
        return Content(Codec.AAC, payload[1] == 0, 2, len(payload)) if payload[1] <= 1 else None
    if _PLAIN_AUDIO.get(sound_format) is Codec.MP3:
        return Content(Codec.MP3, False, 1, len(payload))
    return None


def composition_time_ms(payload: bytes) -> int:
    """How much later than it is decoded a video frame is shown; of the first track if there are several."""
    content = video_content(payload)
    if content is None and payload and payload[0] & _ENHANCED_VIDEO:
        header = read_video_header(payload)
        if header is not None and header.tracks:
            content = _enhanced_picture(payload, header, header.tracks[0])
    return 0 if content is None else content.composition_ms


def _enhanced_picture(payload: bytes, header: EnhancedHeader, track_id: int) -> Content | None:
    found = None if header.command else track_data(payload, header, track_id)
    codec = None if found is None else find_codec(VIDEO_FOURCC, found[0])
    if found is None or codec is None:
        return None
    _, begin, end = found
    match header.packet_type:
        case VideoPacketType.SEQUENCE_START:
            return Content(codec, True, begin, end)
        case VideoPacketType.CODED_FRAMES if codec in _WITH_COMPOSITION_TIME:
            if end - begin < 3:
                return None
            return _picture(codec, frame_type_of(payload), begin + 3, end, _signed_24(payload, begin))
        case VideoPacketType.CODED_FRAMES | VideoPacketType.CODED_FRAMES_X:
            return _picture(codec, frame_type_of(payload), begin, end, 0)
    return None


def _picture(codec: AnyCodec, frame_type: int, begin: int, end: int, composition_ms: int) -> Content:
    return Content(
        codec,
        False,
        begin,
        end,
        composition_ms,
        keyframe=frame_type in _KEY_FRAMES,
        disposable=frame_type == FrameType.DISPOSABLE,
    )


def _enhanced_sound(payload: bytes, header: EnhancedHeader) -> Content | None:
    found = track_data(payload, header, 0)
    codec = None if found is None else find_codec(AUDIO_FOURCC, found[0])
    if found is None or codec is None:
        return None
    if header.packet_type in (AudioPacketType.SEQUENCE_START, AudioPacketType.CODED_FRAMES):
        return Content(codec, header.packet_type == AudioPacketType.SEQUENCE_START, found[1], found[2])
    return None


def _signed_24(payload: bytes, at: int) -> int:
    return int.from_bytes(payload[at : at + 3], signed=True)
