"""What packets of sound say themselves, for codecs that have no decoder configuration or not all of it: AC-3, E-AC-3, FLAC.

ETSI TS 102 366 has both Dolby codecs, RFC 9639 has FLAC.
"""

from __future__ import annotations

import attrs

from rtmprelay.flv.bits import Bits

_SYNC_WORD = b"\x0b\x77"

#: Samples a second by their number; 3 is "see the next two bits" in E-AC-3, and means half of these.
_RATES = (48000, 44100, 32000)

#: Full channels by channel mode; two mono programmes are two channels.
_CHANNELS = (2, 1, 2, 3, 3, 4, 4, 5)

#: Blocks of 256 samples in a frame of E-AC-3.
_BLOCKS = (1, 2, 3, 6)
_BLOCK = 256

#: Bit stream numbers: up to 8 is AC-3 (9 and 10 at half and a quarter of the rate), from 11 to 16 E-AC-3.
_LAST_AC3 = 10
_LAST_EAC3 = 16

#: Frames in a packet of E-AC-3: eight programmes with eight parts each. More would only cost time.
_MAX_FRAMES = 64

_FLAC_MARKER = b"fLaC"
_STREAMINFO_SIZE = 34
_BLOCK_HEADER_SIZE = 4
_LAST_BLOCK = 0x80

#: A coded number in the header of a FLAC frame has this many bytes at most, and starts after four.
_FLAC_NUMBER_AT = 4


@attrs.frozen
class DolbyPacket:
    """The start of a packet of AC-3 or E-AC-3.

    Attributes:
        specific: The content of the box that describes it in an MP4, `dac3` or `dec3`.
    """

    rate: int
    channels: int
    samples: int
    specific: bytes


def read_ac3(packet: bytes) -> DolbyPacket | None:
    """Read the first frame of a packet of AC-3; None if it is none."""
    try:
        bits = Bits(packet)
        if packet[:2] != _SYNC_WORD:
            return None
        bits.read(32)
        rate_number, size_number, version, kind, mode = (bits.read(count) for count in (2, 6, 5, 3, 3))
        if rate_number > 2 or size_number > 37 or version > _LAST_AC3:
            return None
        # How centre and surround are mixed down.
        bits.read(2 * (mode & 1 and mode != 1) + 2 * (mode >= 4) + 2 * (mode == 2))
        low = bits.read(1)
    except IndexError:
        return None
    fields = ((rate_number, 2), (version, 5), (kind, 3), (mode, 3), (low, 1), (size_number >> 1, 5), (0, 5))
    rate = _RATES[rate_number] >> max(0, version - 8)
    return DolbyPacket(rate, _CHANNELS[mode] + low, 6 * _BLOCK, _packed(fields))


@attrs.frozen
class _EnhancedFrame:
    """One frame of E-AC-3."""

    dependent: bool
    programme: int
    size: int
    rate_number: int
    rate: int
    blocks: int
    mode: int
    low: int
    version: int
    #: The channels that a dependent frame adds, by their places; 0 if it does not say.
    places: int


def read_eac3(packet: bytes) -> DolbyPacket | None:
    """Read all frames of a packet of E-AC-3; None if it is something else."""
    frames: list[_EnhancedFrame] = []
    at = 0
    try:
        while at < len(packet) and len(frames) < _MAX_FRAMES:
            frame = _read_enhanced_frame(packet[at : at + 16])
            if frame is None:
                break
            frames.append(frame)
            at += frame.size
    except IndexError:
        pass
    own = [frame for frame in frames if not frame.dependent]
    if not own or frames[0].dependent:
        return None
    first = own[0]
    samples = sum(frame.blocks for frame in own if frame.programme == first.programme) * _BLOCK
    kbps = round(sum(frame.size for frame in frames) * 8 * first.rate / samples / 1000)
    programmes = {frame.programme: frame for frame in reversed(own)}
    fields = [(min(kbps, 0x1FFF), 13), (len(programmes) - 1, 3)]
    for number in sorted(programmes):
        fields += _programme_fields(programmes[number], frames)
    added = sum(_added_channels(frame.places) for frame in frames if frame.dependent)
    return DolbyPacket(first.rate, _CHANNELS[first.mode] + first.low + added, samples, _packed(fields))


def _read_enhanced_frame(data: bytes) -> _EnhancedFrame | None:
    if data[:2] != _SYNC_WORD:
        return None
    bits = Bits(data)
    bits.read(16)
    kind, programme, size, rate_number = (bits.read(count) for count in (2, 3, 11, 2))
    detail = bits.read(2)
    if rate_number == 3 and detail > 2:
        return None
    rate = _RATES[detail] // 2 if rate_number == 3 else _RATES[rate_number]
    blocks = 6 if rate_number == 3 else _BLOCKS[detail]
    mode, low, version = (bits.read(count) for count in (3, 1, 5))
    if not _LAST_AC3 < version <= _LAST_EAC3:
        return None
    return _EnhancedFrame(
        kind == 1,
        programme,
        2 * size + 2,
        rate_number,
        rate,
        blocks,
        mode,
        low,
        version,
        _places(bits, mode) if kind == 1 else 0,
    )


def _places(bits: Bits, mode: int) -> int:
    """The channel map of a dependent frame, after loudness and compression of one or two programmes."""
    for _ in range(2 if mode == 0 else 1):
        bits.read(5)
        if bits.read(1):
            bits.read(8)
    return bits.read(16) if bits.read(1) else 0


def _programme_fields(frame: _EnhancedFrame, frames: list[_EnhancedFrame]) -> list[tuple[int, int]]:
    dependents = [other for other in frames if other.dependent] if frame.programme == 0 else []
    fields = [(frame.rate_number, 2), (frame.version, 5), (0, 1), (0, 1), (0, 3), (frame.mode, 3)]
    fields += [(frame.low, 1), (0, 3), (min(len(dependents), 15), 4)]
    if not dependents:
        return [*fields, (0, 1)]
    places = 0
    for dependent in dependents:
        # The map has left first, in its highest bit; the box has only what comes after the right surround.
        for bit in range(8):
            places |= (dependent.places >> (10 - bit) & 1) << bit
        places |= (dependent.places >> 1 & 1) << 8
    return [*fields, (places, 9)]


def _added_channels(places: int) -> int:
    """Channels that a dependent frame adds to those of its programme. Some places are pairs."""
    pairs = (10, 9, 6, 5, 4)
    singles = (8, 7, 3, 1)
    return 2 * sum(places >> bit & 1 for bit in pairs) + sum(places >> bit & 1 for bit in singles)


def _packed(fields: tuple[tuple[int, int], ...] | list[tuple[int, int]]) -> bytes:
    """Numbers of so many bits each, one after the other, filled up to whole bytes."""
    value = count = 0
    for number, size in fields:
        value = value << size | number
        count += size
    missing = -count % 8
    return (value << missing).to_bytes((count + missing) // 8)


# -- FLAC ----------------------------------------------------------------------------------------------------


@attrs.frozen
class FlacHeader:
    """The decoder configuration of FLAC.

    Attributes:
        blocks: Its metadata blocks, STREAMINFO first, as an MP4 has them.
    """

    rate: int
    channels: int
    sample_bits: int
    blocks: bytes


def read_flac_header(configuration: bytes) -> FlacHeader | None:
    """Read the marker, which some leave out, and STREAMINFO; None if it is something else."""
    data = configuration.removeprefix(_FLAC_MARKER)
    if len(data) == _STREAMINFO_SIZE:
        data = bytes([_LAST_BLOCK]) + _STREAMINFO_SIZE.to_bytes(3) + data
    if len(data) < _BLOCK_HEADER_SIZE + _STREAMINFO_SIZE or data[0] & 0x7F or data[1:4] != b"\0\0\x22":
        return None
    bits = Bits(data[_BLOCK_HEADER_SIZE + 10 :])
    rate, channels, sample_bits = bits.read(20), bits.read(3) + 1, bits.read(5) + 1
    if not rate:
        return None
    # Comments and cover pictures are left out: only STREAMINFO is needed, and so it is the last block.
    blocks = bytes([_LAST_BLOCK]) + data[1 : _BLOCK_HEADER_SIZE + _STREAMINFO_SIZE]
    return FlacHeader(rate, channels, sample_bits, blocks)


def flac_packet_samples(packet: bytes) -> int | None:
    """How many samples a frame of FLAC has; None if it is none."""
    if len(packet) < 6 or packet[0] != 0xFF or packet[1] & 0xFE != 0xF8:
        return None
    code = packet[2] >> 4
    if code == 0:
        return None
    if code == 1:
        return 192
    if code <= 5:
        return 576 << (code - 2)
    if code >= 8:
        return 256 << (code - 8)
    # The size follows the number of the frame, which is coded as characters of UTF-8 are.
    first = packet[_FLAC_NUMBER_AT]
    at = _FLAC_NUMBER_AT + (1 if first < 0x80 else 8 - (first ^ 0xFF).bit_length())
    size = packet[at : at + code - 5]
    return int.from_bytes(size) + 1 if len(size) == code - 5 else None
