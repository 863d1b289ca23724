"""What the headers of the codecs themselves say: the size of the picture, and how the sound is sampled.

Publishers often leave these values out of their metadata, or copy fixed ones into it.
"""

from __future__ import annotations

import attrs

from rtmprelay.flv import Codec
from rtmprelay.flv.bits import Bits
from rtmprelay.flv.tags import video_content

#: Real configurations have a few hundred bytes; a huge one made of tiny parts would take long to walk through.
_MAX_CONFIGURATION_SIZE = 65536

#: Width and height have 16 bits in AV1, and no encoder makes larger pictures.
_MAX_SIDE = 65536

#: No picture has more macroblocks in a row: 16 times this is 65,536.
_MAX_MACROBLOCKS = 4096

#: H.264 profiles that say how colour is sampled, and may have scaling lists.
_HIGH_PROFILES = frozenset({44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244})

_HEVC_SEQUENCE_PARAMETER_SET = 33

#: Profile and its compatibility flags; the level after them has 8 bits.
_HEVC_PROFILE_BITS = 88
_HEVC_LEVEL_BITS = 8

_AV1_SEQUENCE_HEADER = 1

#: The rates that AAC has numbers for (ISO/IEC 14496-3, table 1.18).
_AAC_RATES = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)

#: Channels by AAC's channel configuration.
_AAC_CHANNELS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 8, 11: 7, 12: 8, 14: 8}

#: Object types that wrap another one: spectral band replication, parametric stereo.
_AAC_EXTENSIONS = frozenset((5, 29))

#: Object types with short frames: low delay, and enhanced low delay.
_AAC_LOW_DELAY = frozenset((23, 39))

_MP3_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}

#: Opus decodes at this rate, whatever it was made from.
OPUS_RATE = 48000

#: The frame sizes of Opus in samples, by the upper 5 bits of its first byte (RFC 6716, table 2).
_OPUS_FRAMES = (480, 960, 1920, 2880) * 3 + (480, 960) * 2 + (120, 240, 480, 960) * 4

#: A packet holds 120 ms at most.
_OPUS_MAX_SAMPLES = 5760


# -- pictures ------------------------------------------------------------------------------------------------


def picture_size(payload: bytes) -> tuple[int, int] | None:
    """Width and height in pixels, from a sequence header of H.264, HEVC or AV1; None if it cannot be read."""
    content = video_content(payload)
    if content is None or not content.configuration:
        return None
    configuration = content.of(payload)[:_MAX_CONFIGURATION_SIZE]
    try:
        match content.codec:
            case Codec.AVC:
                size = _avc_size(configuration)
            case Codec.HEVC:
                size = _hevc_size(configuration)
            case Codec.AV1:
                size = _av1_size(configuration)
            case _:
                return None
    except IndexError:
        return None
    return size if size is not None and 0 < size[0] <= _MAX_SIDE and 0 < size[1] <= _MAX_SIDE else None


def _parameter_set_bits(unit: bytes, header_size: int) -> Bits:
    """The parameter set in a NAL unit, without the bytes that keep start codes out of it."""
    return Bits(unit[header_size:].replace(b"\0\0\3", b"\0\0"))


def _crop(bits: Bits, chroma: int, width: int, height: int, line_unit: int = 1) -> tuple[int, int]:
    """Take the cropping, if there is any, off the coded size; it counts in samples of the coarser colour."""
    if bits.read(1):
        left, right, top, bottom = (bits.read_exponential() for _ in range(4))
        width -= (left + right) * (2 if chroma in (1, 2) else 1)
        height -= (top + bottom) * (2 if chroma == 1 else 1) * line_unit
    return width, height


def _read_chroma(bits: Bits) -> tuple[int, int]:
    """The chroma format, 0 grey, 1 4:2:0, 2 4:2:2, 3 4:4:4; and the one by which the cropping counts."""
    chroma = bits.read_exponential()
    # The flag says that there are three separate pictures, each sampled like a grey one.
    return chroma, 0 if chroma == 3 and bits.read(1) else chroma


def _avc_size(configuration: bytes) -> tuple[int, int] | None:
    """From the first sequence parameter set (ISO/IEC 14496-15 and 14496-10)."""
    size = int.from_bytes(configuration[6:8])
    if not configuration[5] & 31:
        return None
    bits = _parameter_set_bits(configuration[8 : 8 + size], 1)
    profile = bits.read(8)
    bits.read(16)
    bits.read_exponential()
    chroma = 1
    if profile in _HIGH_PROFILES:
        chroma_format, chroma = _read_chroma(bits)
        _skip_scaling(bits, 12 if chroma_format == 3 else 8)
    _skip_picture_order(bits)
    bits.read_exponential()
    bits.read(1)
    columns = bits.read_exponential() + 1
    rows = bits.read_exponential() + 1
    # A picture of two fields has twice the height of one.
    fields = 2 - bits.read(1)
    bits.read(fields)
    if columns > _MAX_MACROBLOCKS or rows > _MAX_MACROBLOCKS:
        return None
    return _crop(bits, chroma, columns * 16, rows * 16 * fields, fields)


def _skip_scaling(bits: Bits, lists: int) -> None:
    """Bit depths, and the scaling lists."""
    bits.read_exponential()
    bits.read_exponential()
    bits.read(1)
    if bits.read(1):
        for number in range(lists):
            if bits.read(1):
                _skip_scaling_list(bits, 16 if number < 6 else 64)


def _skip_scaling_list(bits: Bits, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + bits.read_signed()) % 256
        last = following or last


def _skip_picture_order(bits: Bits) -> None:
    bits.read_exponential()
    kind = bits.read_exponential()
    if kind == 0:
        bits.read_exponential()
    elif kind == 1:
        bits.read(1)
        bits.read_signed()
        bits.read_signed()
        for _ in range(min(bits.read_exponential(), 255)):
            bits.read_signed()


def _hevc_size(configuration: bytes) -> tuple[int, int] | None:
    """From the first sequence parameter set (ISO/IEC 14496-15 and 23008-2)."""
    at = 23
    for _ in range(configuration[22]):
        kind = configuration[at] & 0x3F
        count = int.from_bytes(configuration[at + 1 : at + 3])
        at += 3
        for _ in range(count):
            size = int.from_bytes(configuration[at : at + 2])
            unit = configuration[at + 2 : at + 2 + size]
            if kind == _HEVC_SEQUENCE_PARAMETER_SET:
                return _read_hevc_parameter_set(unit)
            if len(unit) < size or not size:
                return None
            at += 2 + size
    return None


def _read_hevc_parameter_set(unit: bytes) -> tuple[int, int]:
    bits = _parameter_set_bits(unit, 2)
    bits.read(4)
    sub_layers = bits.read(3)
    bits.read(1)
    _skip_hevc_profiles(bits, sub_layers)
    bits.read_exponential()
    _, chroma = _read_chroma(bits)
    width = bits.read_exponential()
    height = bits.read_exponential()
    return _crop(bits, chroma, width, height)


def _skip_hevc_profiles(bits: Bits, sub_layers: int) -> None:
    bits.read(_HEVC_PROFILE_BITS + _HEVC_LEVEL_BITS)
    present = [(bits.read(1), bits.read(1)) for _ in range(sub_layers)]
    if sub_layers:
        bits.read(2 * (8 - sub_layers))
    for profile, level in present:
        bits.read(profile * _HEVC_PROFILE_BITS + level * _HEVC_LEVEL_BITS)


def _av1_size(configuration: bytes) -> tuple[int, int] | None:
    """The largest frame size in the sequence header (AV1 in ISO BMFF; AV1 specification, section 5.5)."""
    at = 4
    while at < len(configuration):
        header = configuration[at]
        at += 2 if header & 4 else 1
        if not header & 2:
            size = len(configuration) - at
        else:
            size, at = _read_leb128(configuration, at)
        if header >> 3 & 15 == _AV1_SEQUENCE_HEADER:
            return _read_av1_sequence_header(Bits(configuration[at : at + size]))
        at += size
    return None


def _read_leb128(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first; and where it ends."""
    value = 0
    for index in range(8):
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return value, at + index + 1
    raise IndexError


def _read_av1_sequence_header(bits: Bits) -> tuple[int, int]:
    bits.read(4)
    if bits.read(1):
        # A still picture: only the level comes before its size.
        bits.read(5)
    else:
        delay_bits = _skip_av1_timing(bits) if bits.read(1) else 0
        _skip_av1_operating_points(bits, delay_bits)
    width_bits = bits.read(4) + 1
    height_bits = bits.read(4) + 1
    return bits.read(width_bits) + 1, bits.read(height_bits) + 1


def _skip_av1_timing(bits: Bits) -> int:
    """Skip the timing; return how many bits a buffer delay has, 0 if there is none."""
    bits.read(64)
    if bits.read(1):
        bits.read_exponential()
    if not bits.read(1):
        return 0
    delay_bits = bits.read(5) + 1
    bits.read(32 + 5 + 5)
    return delay_bits


def _skip_av1_operating_points(bits: Bits, delay_bits: int) -> None:
    display_delay = bits.read(1)
    for _ in range(bits.read(5) + 1):
        bits.read(12)
        if bits.read(5) > 7:
            bits.read(1)
        if delay_bits and bits.read(1):
            bits.read(2 * delay_bits + 1)
        if display_delay and bits.read(1):
            bits.read(4)


# -- sound ---------------------------------------------------------------------------------------------------


@attrs.frozen
class Sampling:
    """Samples a second, channels, and how many samples a packet has if that is the same for all."""

    rate: int
    channels: int
    packet_samples: int


def aac_sampling(configuration: bytes) -> Sampling | None:
    """Read an AudioSpecificConfig; None if it cannot be read."""
    bits = Bits(configuration)
    try:
        object_type = _read_aac_object_type(bits)
        # The rate of the core: with band replication the output has twice as much, and so have its packets.
        rate = _read_aac_rate(bits)
        channels = _AAC_CHANNELS.get(bits.read(4), 2)
        if object_type in _AAC_EXTENSIONS:
            _read_aac_rate(bits)
            object_type = _read_aac_object_type(bits)
        short = bits.read(1)
    except IndexError:
        return None
    if not rate or not object_type:
        return None
    samples = (480 if short else 512) if object_type in _AAC_LOW_DELAY else (960 if short else 1024)
    return Sampling(rate, channels, samples)


def aac_object_type(configuration: bytes) -> int | None:
    """The object type of an AudioSpecificConfig, such as 2 for AAC LC; None if it cannot be read."""
    try:
        return _read_aac_object_type(Bits(configuration)) or None
    except IndexError:
        return None


def _read_aac_object_type(bits: Bits) -> int:
    object_type = bits.read(5)
    return 32 + bits.read(6) if object_type == 31 else object_type


def _read_aac_rate(bits: Bits) -> int:
    number = bits.read(4)
    if number == 15:
        return bits.read(24)
    return _AAC_RATES[number] if number < len(_AAC_RATES) else 0


def mp3_sampling(packet: bytes) -> Sampling | None:
    """Read the header of an MP3 frame (layer III of any MPEG version); None if it is none."""
    if len(packet) < 4 or packet[0] != 0xFF or packet[1] & 0xE6 != 0xE2:
        return None
    version, rate_number = packet[1] >> 3 & 3, packet[2] >> 2 & 3
    rates = _MP3_RATES.get(version)
    if rates is None or rate_number > 2:
        return None
    return Sampling(rates[rate_number], 1 if packet[3] >> 6 == 3 else 2, 1152 if version == 3 else 576)


def opus_packet_samples(packet: bytes) -> int | None:
    """How many samples an Opus packet has; None if it is none."""
    if not packet:
        return None
    frame = _OPUS_FRAMES[packet[0] >> 3]
    match packet[0] & 3:
        case 0:
            count = 1
        case 3:
            count = packet[1] & 63 if len(packet) > 1 else 0
        case _:
            count = 2
    samples = frame * count
    return samples if 0 < samples <= _OPUS_MAX_SAMPLES else None
