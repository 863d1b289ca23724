"""What the first bytes of an audio or video payload say: codec, key frame, decoder configuration.

The body of an RTMP audio or video message and the body of an FLV tag are the same bytes, so this
serves both. It covers the original FLV layout and Enhanced RTMP v2. Nothing here raises: a relay
passes on what it does not understand, and so `UNKNOWN` is an answer like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

import attrs

from rtmprelay.flv.enhanced_header import (
    AudioPacketType,
    FrameType,
    VideoPacketType,
    frame_type_of,
    read_audio_header,
    read_video_header,
)


@attrs.frozen
class TagInfo:
    """What is known of one audio or video payload; values are shared between payloads.

    Attributes:
        codec: A name for people. None if it cannot be told.
        keyframe: Decoding can start at this coded frame; False for sequence headers and for audio.
        sequence_header: The decoder configuration, which every late joiner needs first.
        sequence_end: The publisher says that this sequence is over.
        startup_metadata: HDR colour or channel layout: late joiners need it next to the header.
        coded: Carries coded media; also assumed of what is not understood.
        enhanced: The payload has an Enhanced RTMP header.
        disposable: No other frame depends on this one.
        tracks: The track ids of an Enhanced RTMP multitrack payload, else empty.
    """

    codec: str | None = None
    keyframe: bool = False
    sequence_header: bool = False
    sequence_end: bool = False
    startup_metadata: bool = False
    coded: bool = True
    enhanced: bool = False
    disposable: bool = False
    tracks: tuple[int, ...] = ()


#: Empty, truncated or from another world.
UNKNOWN = TagInfo()

#: Legacy codecs whose second byte is a packet type: 0 configuration, 1 coded, 2 end; then a composition
#: time. 12 and 13 were never Adobe's: CDNs in China agreed on them. 14 and 15 are left out, because
#: the forks that use them do not agree on what they mean.
_PACKETED_VIDEO = {7: "H.264 AVC", 12: "H.265 HEVC", 13: "AV1"}

_PLAIN_VIDEO = {
    2: "Sorenson H.263",
    3: "Screen video",
    4: "On2 VP6",
    5: "On2 VP6 with alpha",
    6: "Screen video 2",
}

_AAC = 10
_PLAIN_AUDIO = {
    0: "PCM",
    1: "ADPCM",
    2: "MP3",
    3: "PCM",
    4: "Nellymoser",
    5: "Nellymoser",
    6: "Nellymoser",
    7: "G.711 A-law",
    8: "G.711 mu-law",
    11: "Speex",
    14: "MP3",
}

_VIDEO_FOURCC = {
    b"vp08": "VP8",
    b"vp09": "VP9",
    b"av01": "AV1",
    b"avc1": "H.264 AVC",
    b"hvc1": "H.265 HEVC",
    b"vvc1": "H.266 VVC",
}

_AUDIO_FOURCC = {
    b"ac-3": "AC-3",
    b"ec-3": "E-AC-3",
    b"Opus": "Opus",
    b".mp3": "MP3",
    b"fLaC": "FLAC",
    b"mp4a": "AAC",
}

#: CodedFrames of these begin with a composition time; the other codecs have no use for one.
_FOURCC_WITH_COMPOSITION_TIME = frozenset((b"avc1", b"hvc1", b"vvc1"))

_KEY_FRAMES = frozenset((FrameType.KEY, FrameType.GENERATED_KEY))
_CODED_VIDEO = frozenset((VideoPacketType.CODED_FRAMES, VideoPacketType.CODED_FRAMES_X))
_VIDEO_SEQUENCE_STARTS = frozenset((VideoPacketType.SEQUENCE_START, VideoPacketType.MPEG2TS_SEQUENCE_START))
_AUDIO_PACKETS = frozenset(AudioPacketType) - {AudioPacketType.MULTITRACK, AudioPacketType.MOD_EX}

_ENHANCED_VIDEO = 0x80
_ENHANCED_AUDIO = 9


def describe_video(payload: bytes) -> TagInfo:
    """Say what a video payload is."""
    return (
        _VIDEO_TABLE.get(payload[:2])  # H.264 and its likes
        or _VIDEO_TABLE.get(payload[:5])  # enhanced
        or _VIDEO_TABLE.get(payload[:1])  # the other legacy codecs
        or _read_video(payload)
    )


def describe_audio(payload: bytes) -> TagInfo:
    """Say what an audio payload is."""
    return (
        _AUDIO_TABLE.get(payload[:2])  # AAC
        or _AUDIO_TABLE.get(payload[:5])  # enhanced
        or _AUDIO_TABLE.get(payload[:1])  # the other legacy codecs
        or _read_audio(payload)
    )


def composition_time_ms(payload: bytes) -> int:
    """How much later than it is decoded a video frame is shown; of the first track if there are several."""
    if not payload:
        return 0
    if not payload[0] & _ENHANCED_VIDEO:
        # A command frame keeps its command where the packet type is otherwise.
        coded = payload[1:2] == b"\x01" and payload[0] >> 4 != FrameType.COMMAND
        return _signed_24(payload, 2) if coded and payload[0] & 15 in _PACKETED_VIDEO else 0
    header = read_video_header(payload)
    if (
        header is None
        or header.packet_type != VideoPacketType.CODED_FRAMES
        or header.fourcc not in _FOURCC_WITH_COMPOSITION_TIME
    ):
        return 0
    return _signed_24(payload, header.data_at)


def _signed_24(payload: bytes, at: int) -> int:
    field = payload[at : at + 3]
    return int.from_bytes(field, "big", signed=True) if len(field) == 3 else 0


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


def _coded_video(codec: str, frame_type: int) -> TagInfo:
    return TagInfo(
        codec=codec,
        keyframe=frame_type in _KEY_FRAMES,
        coded=frame_type != FrameType.COMMAND,
        disposable=frame_type == FrameType.DISPOSABLE,
    )


def _read_enhanced_video(payload: bytes) -> TagInfo:
    header = read_video_header(payload)
    if header is None:
        return UNKNOWN
    if header.command:
        return TagInfo(coded=False, enhanced=True)
    # The rest of the header means the same for a codec that is new to us.
    codec = _VIDEO_FOURCC.get(header.fourcc) or _unknown_fourcc(header.fourcc)
    if codec is None:
        return UNKNOWN
    packet_type = header.packet_type
    if packet_type >= VideoPacketType.MULTITRACK:
        return UNKNOWN
    frame_type = frame_type_of(payload)
    coded = packet_type in _CODED_VIDEO
    return TagInfo(
        codec=codec,
        keyframe=coded and frame_type in _KEY_FRAMES,
        sequence_header=packet_type in _VIDEO_SEQUENCE_STARTS,
        sequence_end=packet_type == VideoPacketType.SEQUENCE_END,
        startup_metadata=packet_type == VideoPacketType.METADATA,
        coded=coded,
        enhanced=True,
        disposable=coded and frame_type == FrameType.DISPOSABLE,
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
                return TagInfo(codec="AAC", sequence_header=True, coded=False)
            case b"\x01":
                return TagInfo(codec="AAC")
        return UNKNOWN
    return TagInfo(codec=_PLAIN_AUDIO.get(sound_format))


def _read_enhanced_audio(payload: bytes) -> TagInfo:
    header = read_audio_header(payload)
    if header is None:
        return UNKNOWN
    # The rest of the header means the same for a codec that is new to us.
    codec = _AUDIO_FOURCC.get(header.fourcc) or _unknown_fourcc(header.fourcc)
    if codec is None:
        return UNKNOWN
    packet_type = header.packet_type
    if packet_type not in _AUDIO_PACKETS:
        return UNKNOWN
    return TagInfo(
        codec=codec,
        sequence_header=packet_type == AudioPacketType.SEQUENCE_START,
        sequence_end=packet_type == AudioPacketType.SEQUENCE_END,
        startup_metadata=packet_type == AudioPacketType.MULTICHANNEL_CONFIG,
        coded=packet_type == AudioPacketType.CODED_FRAMES,
        enhanced=True,
        tracks=header.tracks,
    )


def _unknown_fourcc(fourcc: bytes) -> str | None:
    text = fourcc.decode("latin-1")
    return f"FourCC '{text}'" if text.isascii() and text.isprintable() else None


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
        (byte for byte in range(0x80, 0x100) if byte & 15 < VideoPacketType.MULTITRACK), _VIDEO_FOURCC
    ),
)

_AUDIO_TABLE = _table(
    _read_audio,
    [bytes(pair) for pair in product(range(0xA0, 0xB0), range(2))]
    + [bytes([byte]) for byte in range(0x100) if byte >> 4 in _PLAIN_AUDIO]
    + _enhanced_prefixes(range(0x90, 0x90 + AudioPacketType.MULTITRACK), _AUDIO_FOURCC),
)
