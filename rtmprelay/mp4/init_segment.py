"""The beginning of an MP4: the type of the file, and its tracks (ISO/IEC 14496-12, 14496-14, -15)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import attrs

from rtmprelay.flv import Codec
from rtmprelay.flv.sound_packets import read_flac_header
from rtmprelay.flv.vp9 import vp9_record
from rtmprelay.mp4.boxes import box, full_box
from rtmprelay.mp4.codec_strings import AAC_OBJECT, mp3_object
from rtmprelay.mp4.tracks import AnyTrack, AudioTrack, VideoTrack

MOVIE_TIMESCALE = 1000
_NEXT_TRACK_ID = 3

#: No rotation, no scaling.
_MATRIX = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)

#: "und": three letters of five bits.
_UNDETERMINED_LANGUAGE = 0x55C4

#: The default flags of samples: they need no other one. The pictures in fragments bring their own flags.
_SYNC_SAMPLE = 0x02000000

# Descriptors of ISO/IEC 14496-1.
_ES_DESCRIPTOR = 3
_DECODER_CONFIG = 4
_DECODER_SPECIFIC_INFO = 5
_SYNC_LAYER_CONFIG = 6
_AUDIO_STREAM = 0x15


@attrs.frozen
class Extent:
    """What a file with a known end says of a track.

    Attributes:
        duration: In ticks of the track.
        shown_ms: How long it is shown, with what comes before it.
        edits: The box that says when it is shown.
        tables: The boxes that say where its samples are.
    """

    duration: int
    shown_ms: int
    edits: bytes
    tables: bytes


_NONE = bytes(4)

#: The samples are in the fragments.
_UNKNOWN = Extent(
    0,
    0,
    b"",
    full_box(b"stts", 0, 0, _NONE)
    + full_box(b"stsc", 0, 0, _NONE)
    + full_box(b"stsz", 0, 0, _NONE, _NONE)
    + full_box(b"stco", 0, 0, _NONE),
)


def init_segment(tracks: Sequence[AnyTrack]) -> bytes:
    """`ftyp` and `moov` of a stream without a known end; the media follows in fragments."""
    brands = (b"iso6", b"isom", b"mp41")
    return box(b"ftyp", brands[0], bytes(4), *brands) + box(
        b"moov",
        _movie_header(0),
        *(_track_box(track, _UNKNOWN) for track in tracks),
        box(b"mvex", *map(_track_extends, tracks)),
    )


def whole_movie(tracks: Sequence[tuple[AnyTrack, Extent]]) -> bytes:
    """`ftyp` and `moov` of a file that knows where all its samples are."""
    brands = (b"isom", b"iso2", b"mp41")
    shown_ms = max((extent.shown_ms for _, extent in tracks), default=0)
    return box(b"ftyp", brands[0], (512).to_bytes(4), *brands) + box(
        b"moov", _movie_header(shown_ms), *(_track_box(track, extent) for track, extent in tracks)
    )


def _movie_header(duration_ms: int) -> bytes:
    fields = struct.pack(
        ">IIIIIH10x36s24xI", 0, 0, MOVIE_TIMESCALE, duration_ms, 0x10000, 0x100, _MATRIX, _NEXT_TRACK_ID
    )
    return full_box(b"mvhd", 0, 0, fields)


def _track_extends(track: AnyTrack) -> bytes:
    defaults = struct.pack(">IIIII", track.track_id, 1, 0, 0, _SYNC_SAMPLE)
    return full_box(b"trex", 0, 0, defaults)


def _track_box(track: AnyTrack, extent: Extent) -> bytes:
    is_video = isinstance(track, VideoTrack)
    size = (track.width << 16, track.height << 16) if isinstance(track, VideoTrack) else (0, 0)
    volume = 0 if is_video else 0x100
    # Flags: enabled, and shown.
    header = full_box(
        b"tkhd",
        0,
        3,
        struct.pack(
            ">IIIII8xhhHxx36sII", 0, 0, track.track_id, 0, extent.shown_ms, 0, 0, volume, _MATRIX, *size
        ),
    )
    media_header = struct.pack(">IIIIHH", 0, 0, track.timescale, extent.duration, _UNDETERMINED_LANGUAGE, 0)
    handler, name = (b"vide", b"Video\0") if is_video else (b"soun", b"Sound\0")
    kind_header = full_box(b"vmhd", 0, 1, bytes(8)) if is_video else full_box(b"smhd", 0, 0, bytes(4))
    return box(
        b"trak",
        header,
        extent.edits,
        box(
            b"mdia",
            full_box(b"mdhd", 0, 0, media_header),
            full_box(b"hdlr", 0, 0, bytes(4), handler, bytes(12), name),
            box(b"minf", kind_header, _data_information(), _sample_table(track, extent)),
        ),
    )


def _data_information() -> bytes:
    """The media is in this file itself."""
    return box(b"dinf", full_box(b"dref", 0, 0, (1).to_bytes(4), full_box(b"url ", 0, 1)))


def _sample_table(track: AnyTrack, extent: Extent) -> bytes:
    """The type of the samples, and where they are."""
    entry = _video_entry(track) if isinstance(track, VideoTrack) else _audio_entry(track)
    return box(b"stbl", full_box(b"stsd", 0, 0, (1).to_bytes(4), entry), extent.tables)


#: The sample entry of a codec, and the box in it that holds the configuration.
_VIDEO_ENTRIES = {
    Codec.AVC: (b"avc1", b"avcC"),
    Codec.HEVC: (b"hvc1", b"hvcC"),
    Codec.AV1: (b"av01", b"av1C"),
    Codec.VP9: (b"vp09", b"vpcC"),
}


def _video_entry(track: VideoTrack) -> bytes:
    # 72 pixels an inch, one frame in a sample, no compressor name, 24 bits of colour, no colour table.
    fixed = struct.pack(">6xH16xHHII4xH32xHh", 1, track.width, track.height, 0x480000, 0x480000, 1, 0x18, -1)
    entry, configuration = _VIDEO_ENTRIES[track.codec]
    if track.codec is Codec.VP9:
        # The other configurations are not boxes with a version.
        record = vp9_record(track.configuration) or b""
        return box(entry, fixed, full_box(configuration, 1, 0, record))
    return box(entry, fixed, box(configuration, track.configuration))


def _audio_entry(track: AudioTrack) -> bytes:
    # The field for the rate ends at 65535 Hz; decoders read the real one from the configuration.
    rate = track.timescale if track.timescale <= 0xFFFF else 0
    flac = read_flac_header(track.configuration) if track.codec is Codec.FLAC else None
    sample_bits = 16 if flac is None else flac.sample_bits
    fixed = struct.pack(">6xH8xHH4xI", 1, track.channels, sample_bits, rate << 16)
    match track.codec:
        case Codec.OPUS:
            return box(b"Opus", fixed, box(b"dOps", _opus_specific(track.configuration)))
        case Codec.FLAC:
            blocks = b"" if flac is None else flac.blocks
            return box(b"fLaC", fixed, full_box(b"dfLa", 0, 0, blocks))
        case Codec.AC3:
            return box(b"ac-3", fixed, box(b"dac3", track.configuration))
        case Codec.EAC3:
            return box(b"ec-3", fixed, box(b"dec3", track.configuration))
    return box(b"mp4a", fixed, full_box(b"esds", 0, 0, _es_descriptor(track)))


def _opus_specific(head: bytes) -> bytes:
    """OpusHead (RFC 7845) as MP4 has it: version 0, the largest byte first, then the table of channels."""
    channels, skip, rate, gain, mapping = struct.unpack_from("<BHIhB", head, 9)
    specific = struct.pack(">BBHIhB", 0, channels, skip, rate, gain, mapping)
    return specific + (head[19 : 21 + channels] if mapping else b"")


def _es_descriptor(track: AudioTrack) -> bytes:
    if track.codec is Codec.AAC:
        kind, specific = AAC_OBJECT, _descriptor(_DECODER_SPECIFIC_INFO, track.configuration)
    else:
        kind, specific = mp3_object(track), b""
    # Zeros: the size of the decoder's buffer and the bitrates are not known.
    decoder = _descriptor(_DECODER_CONFIG, bytes([kind, _AUDIO_STREAM]) + bytes(11) + specific)
    sync_layer = _descriptor(_SYNC_LAYER_CONFIG, b"\x02")
    return _descriptor(_ES_DESCRIPTOR, track.track_id.to_bytes(2) + b"\0" + decoder + sync_layer)


def _descriptor(tag: int, content: bytes) -> bytes:
    """A descriptor; its size has four groups of seven bits."""
    size = len(content)
    groups = bytes((size >> shift & 0x7F) | (0x80 if shift else 0) for shift in (21, 14, 7, 0))
    return bytes([tag]) + groups + content
