"""The one value that travels through the whole relay: a media message."""

from __future__ import annotations

from enum import IntEnum

import attrs


class MediaKind(IntEnum):
    """What a message carries; the numbers are those of RTMP message types and FLV tags alike."""

    AUDIO = 8
    VIDEO = 9
    DATA = 18


#: Timestamps are milliseconds modulo this: RTMP has 32 bits for them, which wrap after 49.7 days.
TIMESTAMP_MODULUS = 1 << 32


@attrs.frozen
class MediaFrame:
    """One audio, video or data message, with its payload exactly as the publisher sent it."""

    kind: MediaKind
    timestamp_ms: int
    payload: bytes


def milliseconds_between(earlier: int, later: int) -> int:
    """The signed distance from one timestamp to another on the 32-bit circle."""
    half = TIMESTAMP_MODULUS >> 1
    return (later - earlier + half) % TIMESTAMP_MODULUS - half
