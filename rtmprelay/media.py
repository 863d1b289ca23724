"""A media message: the value that passes through the whole relay."""

from __future__ import annotations

from enum import IntEnum

import attrs


class MediaKind(IntEnum):
    """The kind of a message. The numbers are the types of RTMP messages and of FLV tags."""

    AUDIO = 8
    VIDEO = 9
    DATA = 18


#: Timestamps are milliseconds modulo this: RTMP has 32 bits for them, so they wrap after 49.7 days.
TIMESTAMP_MODULUS = 1 << 32


@attrs.frozen
class MediaFrame:
    """One audio, video or data message, with its payload exactly as the publisher sent it."""

    kind: MediaKind
    timestamp_ms: int
    payload: bytes


def milliseconds_between(earlier: int, later: int) -> int:
    """The signed distance from one timestamp to another, modulo 2^32."""
    half = TIMESTAMP_MODULUS >> 1
    return (later - earlier + half) % TIMESTAMP_MODULUS - half
