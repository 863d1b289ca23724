"""What the configuration and the packets of audio codecs say: how sound is sampled, and how long a packet lasts."""

from __future__ import annotations

import attrs

from rtmprelay.flv.bits import Bits

#: The rates that AAC has numbers for (ISO/IEC 14496-3, table 1.18).
_AAC_RATES = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)

#: Channels by AAC's channel configuration.
_AAC_CHANNELS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 8, 11: 7, 12: 8, 14: 8}

#: Object types that put another one around the sound: spectral band replication, parametric stereo.
_AAC_EXTENSIONS = frozenset((5, 29))

#: Object types with short frames: low delay, and enhanced low delay.
_AAC_LOW_DELAY = frozenset((23, 39))

_MP3_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}

#: Opus decodes at this rate, whatever it was made from.
OPUS_RATE = 48000

#: The frame sizes of Opus in samples, by the upper 5 bits of its first byte (RFC 6716, table 2).
_OPUS_FRAMES = (480, 960, 1920, 2880) * 3 + (480, 960) * 2 + (120, 240, 480, 960) * 4

#: A packet holds 120 ms at most.
_OPUS_LONGEST = 5760


@attrs.frozen
class Sampling:
    """Samples a second, channels, and how many samples a packet has if that is the same for all."""

    rate: int
    channels: int
    packet_samples: int | None


def aac_sampling(configuration: bytes) -> Sampling | None:
    """Read an AudioSpecificConfig; None if it cannot be read."""
    try:
        return _read_aac(Bits(configuration[:64]))
    except IndexError:
        return None


def _read_aac(bits: Bits) -> Sampling | None:
    object_type = _read_object_type(bits)
    # The rate of the core: with band replication the output has twice as much, and so have its packets.
    rate = _read_rate(bits)
    channels = _AAC_CHANNELS.get(bits.read(4), 2)
    if object_type in _AAC_EXTENSIONS:
        _read_rate(bits)
        object_type = _read_object_type(bits)
    short = bits.read(1)
    if not rate or not object_type:
        return None
    samples = (480 if short else 512) if object_type in _AAC_LOW_DELAY else (960 if short else 1024)
    return Sampling(rate, channels, samples)


def _read_object_type(bits: Bits) -> int:
    object_type = bits.read(5)
    return 32 + bits.read(6) if object_type == 31 else object_type


def _read_rate(bits: Bits) -> int:
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
    return samples if 0 < samples <= _OPUS_LONGEST else None
