"""The beginning of a fragmented MP4: the type of the file, and its tracks (ISO/IEC 14496-12, 14496-14, -15)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from rtmprelay.flv import Codec
from rtmprelay.flv.sound_packets import read_flac_header
from rtmprelay.flv.vp9 import vp9_record
from rtmprelay.mp4.boxes import box, full_box
from rtmprelay.mp4.codec_strings import AAC_OBJECT, mp3_object
from rtmprelay.mp4.tracks import AnyTrack, AudioTrack, VideoTrack

_MOVIE_TIMESCALE = 1000
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


def init_segment(tracks: Sequence[AnyTrack]) -> bytes:
    """`ftyp` and `moov` of a stream without a known end; the media follows in fragments."""
    brands = (b"iso6", b"isom", b"mp41")
    movie_header = struct.pack(
        ">IIIIIH10x36s24xI", 0, 0, _MOVIE_TIMESCALE, 0, 0x10000, 0x100, _MATRIX, _NEXT_TRACK_ID
    )
    return box(b"ftyp", brands[0], bytes(4), *brands) + box(
        b"moov",
        full_box(b"mvhd", 0, 0, movie_header),
        *map(_track_box, tracks),
        box(b"mvex", *map(_track_extends, tracks)),
    )


def _track_extends(track: AnyTrack) -> bytes:
    defaults = struct.pack(">IIIII", track.track_id, 1, 0, 0, _SYNC_SAMPLE)
    return full_box(b"trex", 0, 0, defaults)


def _track_box(track: AnyTrack) -> bytes:
    is_video = isinstance(track, VideoTrack)
    size = (track.width << 16, track.height << 16) if isinstance(track, VideoTrack) else (0, 0)
    volume = 0 if is_video else 0x100
    # Flags: enabled, and shown.
    header = full_box(
        b"tkhd",
        0,
        3,
        struct.pack(">IIIII8xhhHxx36sII", 0, 0, track.track_id, 0, 0, 0, 0, volume, _MATRIX, *size),
    )
    media_header = struct.pack(">IIIIHH", 0, 0, track.timescale, 0, _UNDETERMINED_LANGUAGE, 0)
    handler, name = (b"vide", b"Video\0") if is_video else (b"soun", b"Sound\0")
    kind_header = full_box(b"vmhd", 0, 1, bytes(8)) if is_video else full_box(b"smhd", 0, 0, bytes(4))
    return box(
        b"trak",
        header,
        box(
            b"mdia",
            full_box(b"mdhd", 0, 0, media_header),
            full_box(b"hdlr", 0, 0, bytes(4), handler, bytes(12), name),
            box(b"minf", kind_header, _data_information(), _sample_table(track)),
        ),
    )


def _data_information() -> bytes:
    """The media is in this file itself."""
    return box(b"dinf", full_box(b"dref", 0, 0, (1).to_bytes(4), full_box(b"url ", 0, 1)))


def _sample_table(track: AnyTrack) -> bytes:
    """Only the type of the samples: the samples themselves are in the fragments."""
    none = bytes(4)
    entry = _video_entry(track) if isinstance(track, VideoTrack) else _audio_entry(track)
    return box(
        b"stbl",
        full_box(b"stsd", 0, 0, (1).to_bytes(4), entry),
        full_box(b"stts", 0, 0, none),
        full_box(b"stsc", 0, 0, none),
        full_box(b"stsz", 0, 0, none, none),
        full_box(b"stco", 0, 0, none),
    )


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
