"""The header of an Enhanced RTMP v2 payload: extensions, packet type, FourCC, tracks.

The functions return None for a header that is cut short or exceeds a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import attrs

from rtmprelay.flv import AnyCodec, Codec, UnknownCodec

VIDEO_FOURCC = {
    b"vp08": Codec.VP8,
    b"vp09": Codec.VP9,
    b"av01": Codec.AV1,
    b"avc1": Codec.AVC,
    b"hvc1": Codec.HEVC,
    b"vvc1": Codec.VVC,
}

AUDIO_FOURCC = {
    b"ac-3": Codec.AC3,
    b"ec-3": Codec.EAC3,
    b"Opus": Codec.OPUS,
    b".mp3": Codec.MP3,
    b"fLaC": Codec.FLAC,
    b"mp4a": Codec.AAC,
}

#: Only one extension exists (nanosecond timestamps). A chain of three-byte extensions that fills a
#: message of 16 MiB would cost seconds of CPU.
MAX_EXTENSIONS = 16

#: Track ids have 8 bits. Without a limit, empty tracks are the same attack as endless extensions.
MAX_TRACKS = 256


class FrameType(IntEnum):
    """The kind of a video frame; the numbers are those of legacy FLV too."""

    KEY = 1
    INTER = 2
    DISPOSABLE = 3
    GENERATED_KEY = 4
    COMMAND = 5


class VideoPacketType(IntEnum):
    SEQUENCE_START = 0
    CODED_FRAMES = 1
    SEQUENCE_END = 2
    CODED_FRAMES_X = 3
    METADATA = 4
    MPEG2TS_SEQUENCE_START = 5
    MULTITRACK = 6
    MOD_EX = 7


class AudioPacketType(IntEnum):
    SEQUENCE_START = 0
    CODED_FRAMES = 1
    SEQUENCE_END = 2
    MULTICHANNEL_CONFIG = 4
    MULTITRACK = 5
    MOD_EX = 7


class MultitrackType(IntEnum):
    ONE_TRACK = 0
    MANY_TRACKS = 1
    MANY_TRACKS_MANY_CODECS = 2


@attrs.frozen
class EnhancedHeader:
    """What comes before the data; with several tracks, FourCC and data are those of the first one."""

    packet_type: int
    fourcc: bytes
    data_at: int
    tracks: tuple[int, ...] = ()
    #: A video command: one byte of data, no FourCC.
    command: bool = False
    #: The layout of the tracks; None without tracks.
    multitrack: MultitrackType | None = None


def find_codec(known: Mapping[bytes, Codec], fourcc: bytes) -> AnyCodec | None:
    """The codec of a FourCC; None if the FourCC is not printable ASCII."""
    codec = known.get(fourcc)
    if codec is not None:
        return codec
    text = fourcc.decode("latin-1")
    return UnknownCodec(fourcc) if text.isascii() and text.isprintable() else None


def frame_type_of(payload: bytes) -> int:
    """The frame type in the first byte of an enhanced video payload."""
    return payload[0] >> 4 & 7


def read_video_header(payload: bytes) -> EnhancedHeader | None:
    """Read the header of a video payload that has the enhanced bit."""
    try:
        packet_type, at = _skip_extensions(payload)
        if frame_type_of(payload) == FrameType.COMMAND and packet_type != VideoPacketType.METADATA:
            return EnhancedHeader(packet_type, b"", at, command=True) if at < len(payload) else None
        if packet_type == VideoPacketType.MULTITRACK:
            return _read_tracks(payload, at)
        return _read_single(payload, packet_type, at)
    except IndexError:
        return None


def read_audio_header(payload: bytes) -> EnhancedHeader | None:
    """Read the header of an audio payload that has the enhanced sound format."""
    try:
        packet_type, at = _skip_extensions(payload)
        if packet_type == AudioPacketType.MULTITRACK:
            return _read_tracks(payload, at)
        return _read_single(payload, packet_type, at)
    except IndexError:
        return None


def _skip_extensions(payload: bytes) -> tuple[int, int]:
    """The packet type after all ModEx parts, and where the header continues."""
    packet_type, at = payload[0] & 15, 1
    for _ in range(MAX_EXTENSIONS + 1):
        if packet_type != VideoPacketType.MOD_EX:  # the same number for audio
            return packet_type, at
        size = payload[at] + 1
        at += 1
        if size == 256:
            size = int.from_bytes(payload[at : at + 2]) + 1
            at += 2
        at += size
        # The high nibble is the type of the extension, which does not matter to a relay.
        packet_type = payload[at] & 15
        at += 1
    raise IndexError


def _read_single(payload: bytes, packet_type: int, at: int) -> EnhancedHeader | None:
    data_at = at + 4
    if data_at > len(payload):
        return None
    return EnhancedHeader(packet_type, payload[at:data_at], data_at)


def _read_tracks(payload: bytes, at: int) -> EnhancedHeader | None:
    multitrack_type, packet_type = divmod(payload[at], 16)
    at += 1
    fourcc = payload[at : at + 4]
    match multitrack_type:
        case MultitrackType.ONE_TRACK:
            return EnhancedHeader(
                packet_type, fourcc, at + 5, (payload[at + 4],), multitrack=MultitrackType.ONE_TRACK
            )
        case MultitrackType.MANY_TRACKS:
            first, before_id = at + 4, 0
        case MultitrackType.MANY_TRACKS_MANY_CODECS:
            first, before_id = at, 4
        case _:
            return None
    tracks = _read_track_list(payload, first, before_id)
    if not tracks:
        return None
    kind = MultitrackType(multitrack_type)
    return EnhancedHeader(packet_type, fourcc, first + before_id + 4, tracks, multitrack=kind)


def _read_track_list(payload: bytes, at: int, before_id: int) -> tuple[int, ...]:
    """The track ids; empty unless the sizes of the tracks fill the payload exactly."""
    tracks: list[int] = []
    while at < len(payload) and len(tracks) < MAX_TRACKS:
        at += before_id
        tracks.append(payload[at])
        at += 4 + int.from_bytes(payload[at + 1 : at + 4])
    return tuple(tracks) if at == len(payload) else ()


def track_data(payload: bytes, header: EnhancedHeader, track_id: int) -> tuple[bytes, int, int] | None:
    """The FourCC of one track, and where its data begins and ends; None if the payload has no such track.

    A payload without track ids is track 0.
    """
    tracks = header.tracks or (0,)
    if track_id not in tracks:
        return None
    if header.multitrack is None or header.multitrack is MultitrackType.ONE_TRACK:
        return header.fourcc, header.data_at, len(payload)
    fourcc, begin = header.fourcc, header.data_at
    for number in tracks:
        # The size of a track is in the three bytes before its data.
        end = begin + int.from_bytes(payload[begin - 3 : begin])
        if number == track_id:
            return fourcc, begin, end
        if header.multitrack is MultitrackType.MANY_TRACKS_MANY_CODECS:
            fourcc = payload[end : end + 4]
            end += 4
        begin = end + 4
    return None
