"""FLV: which codecs there are, what audio and video payloads say, and the file. No Twisted: Spark workers import this."""

from __future__ import annotations

from enum import Enum

import attrs


class Codec(Enum):
    """The codecs that FLV and Enhanced RTMP have a number or a FourCC for.

    The values are the names that events, the HTTP API and the log show.
    """

    AVC = "H.264 AVC"
    HEVC = "H.265 HEVC"
    VVC = "H.266 VVC"
    AV1 = "AV1"
    VP8 = "VP8"
    VP9 = "VP9"
    SORENSON_H263 = "Sorenson H.263"
    SCREEN_VIDEO = "Screen video"
    SCREEN_VIDEO_2 = "Screen video 2"
    VP6 = "On2 VP6"
    VP6_ALPHA = "On2 VP6 with alpha"

    AAC = "AAC"
    MP3 = "MP3"
    OPUS = "Opus"
    FLAC = "FLAC"
    AC3 = "AC-3"
    EAC3 = "E-AC-3"
    PCM = "PCM"
    ADPCM = "ADPCM"
    NELLYMOSER = "Nellymoser"
    G711_A_LAW = "G.711 A-law"
    G711_MU_LAW = "G.711 mu-law"
    SPEEX = "Speex"

    # Enum hashes a member's name in Python. Members are looked up for every frame.
    __hash__ = object.__hash__

    @property
    def display_name(self) -> str:
        return self.value


@attrs.frozen
class UnknownCodec:
    """A codec with a FourCC that is not in `Codec`. Its streams are relayed all the same."""

    fourcc: bytes

    @property
    def display_name(self) -> str:
        return f"FourCC '{self.fourcc.decode('ascii')}'"


AnyCodec = Codec | UnknownCodec


def display_name(codec: AnyCodec | None) -> str | None:
    """The name of a codec that may not be known yet."""
    return None if codec is None else codec.display_name
