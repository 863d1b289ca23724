"""The names of codecs in playlists and in `MediaSource.isTypeSupported` (RFC 6381, and what each codec's own document adds)."""

from __future__ import annotations

from collections.abc import Iterable

from rtmprelay.flv import Codec
from rtmprelay.flv.codec_headers import aac_object_type
from rtmprelay.flv.vp9 import vp9_record
from rtmprelay.mp4.tracks import AnyTrack, AudioTrack, VideoTrack

# Object types of ISO/IEC 14496-1, which the descriptor in an MP4 has too.
AAC_OBJECT = 0x40
_MP3_OBJECT = 0x6B
#: MP3 with the low rates of MPEG-2.
_MP3_LOW_RATE_OBJECT = 0x69

#: Codecs whose name is all that there is to say.
_PLAIN = {Codec.OPUS: "opus", Codec.FLAC: "fLaC", Codec.AC3: "ac-3", Codec.EAC3: "ec-3"}

#: Pixels of a picture at most, by level of VP9, for publishers that leave the level out.
_VP9_LEVELS = (
    (36_864, 10),
    (73_728, 11),
    (122_880, 20),
    (245_760, 21),
    (552_960, 30),
    (983_040, 31),
    (2_228_224, 40),
    (8_912_896, 50),
)
_HIGHEST_VP9_LEVEL = 60

#: Colour of VP9 that needs no words: 4:2:0 with samples beside each other, BT.709, limited range.
_VP9_USUAL_COLOUR = ("01", "01", "01", "01", "00")
_UNSPECIFIED = 2


def codecs_parameter(tracks: Iterable[AnyTrack]) -> str:
    """The value of CODECS for a file with these tracks, such as `avc1.64001f,mp4a.40.2`."""
    return ",".join(map(codec_string, tracks))


def codec_string(track: AnyTrack) -> str:
    """The name of a track's codec with its profile and level."""
    if isinstance(track, VideoTrack):
        return _video_string(track)
    if track.codec is Codec.AAC:
        return f"mp4a.{AAC_OBJECT:x}.{aac_object_type(track.configuration) or 2}"
    if track.codec is Codec.MP3:
        return f"mp4a.{mp3_object(track):X}"
    return _PLAIN[track.codec]


def mp3_object(track: AudioTrack) -> int:
    """The object type of MP3, by its rate."""
    return _MP3_OBJECT if track.timescale > 24000 else _MP3_LOW_RATE_OBJECT


def _video_string(track: VideoTrack) -> str:
    configuration = track.configuration
    match track.codec:
        case Codec.AVC:
            # Profile, constraints and level.
            return f"avc1.{configuration[1:4].hex()}"
        case Codec.HEVC:
            return _hevc_string(configuration)
        case Codec.AV1:
            return _av1_string(configuration)
    return _vp9_string(track)


def _hevc_string(configuration: bytes) -> str:
    """ISO/IEC 14496-15, annex E.3."""
    space = ("", "A", "B", "C")[configuration[1] >> 6]
    tier = "H" if configuration[1] & 0x20 else "L"
    flags = int(f"{int.from_bytes(configuration[2:6]):032b}"[::-1], 2)
    constraints = configuration[6:12].rstrip(b"\0")
    parts = [
        "hvc1",
        f"{space}{configuration[1] & 0x1F}",
        f"{flags:X}",
        f"{tier}{configuration[12]}",
        *(f"{constraint:X}" for constraint in constraints),
    ]
    return ".".join(parts)


def _av1_string(configuration: bytes) -> str:
    """Profile, level, tier and bit depth (AV1 Codec ISO Media File Format Binding, section 5)."""
    profile, level = configuration[1] >> 5, configuration[1] & 0x1F
    flags = configuration[2]
    tier = "H" if flags & 0x80 else "M"
    depth = 8 if not flags & 0x40 else 12 if profile == 2 and flags & 0x20 else 10
    return f"av01.{profile}.{level:02d}{tier}.{depth:02d}"


def _vp9_string(track: VideoTrack) -> str:
    """Profile, level and bit depth; the colour too if it is said and unusual, such as HDR."""
    record = vp9_record(track.configuration) or bytes(8)
    level = record[1] or _vp9_level(track.width * track.height)
    text = f"vp09.{record[0]:02d}.{level:02d}.{record[2] >> 4 or 8:02d}"
    colours = record[3:6]
    colour = (f"{record[2] >> 1 & 7:02d}", *(f"{number:02d}" for number in colours), f"{record[2] & 1:02d}")
    if colour == _VP9_USUAL_COLOUR or _UNSPECIFIED in colours or 0 in colours[:2]:
        return text
    return ".".join((text, *colour))


def _vp9_level(pixels: int) -> int:
    return next((level for largest, level in _VP9_LEVELS if pixels <= largest), _HIGHEST_VP9_LEVEL)
