"""A record of what was delivered, cheap to keep for many receivers of the same frames.

The digest is a polynomial in the hashes of the frames. Several frames are one multiplication and one addition, worked
out once for all receivers; and how frames were batched on the way makes no difference, so that two hops can be
compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable

import attrs

from rtmprelay.media import MediaFrame, milliseconds_between

#: A prime, so that no factor of the polynomial is lost.
_MODULUS = (1 << 127) - 1
_BASE = int.from_bytes(hashlib.blake2b(b"rtmprelay delivery digest", digest_size=15).digest())


@attrs.frozen
class FrameSummary:
    """What some frames add to a record."""

    multiplier: int
    addend: int
    #: The newest timestamp of coded media among them.
    newest: int | None
    #: The decoder configuration among them, by its key.
    headers: tuple[tuple[Hashable, bytes], ...]


def _frame_hash(frame: MediaFrame) -> int:
    state = hashlib.blake2b(frame.kind.to_bytes(1) + frame.timestamp_ms.to_bytes(4), digest_size=15)
    state.update(frame.payload)
    return int.from_bytes(state.digest())


def summarize_media(media: Iterable[MediaFrame], headers: Iterable[tuple[Hashable, bytes]]) -> FrameSummary:
    """The summary of coded frames and of the decoder configuration that came with them."""
    multiplier, addend = 1, 0
    newest: int | None = None
    for frame in media:
        multiplier = multiplier * _BASE % _MODULUS
        addend = (addend * _BASE + _frame_hash(frame)) % _MODULUS
        if newest is None or milliseconds_between(newest, frame.timestamp_ms) > 0:
            newest = frame.timestamp_ms
    return FrameSummary(multiplier, addend, newest, tuple(headers))


@attrs.define(eq=False)
class DeliveryRecord:
    """What one receiver got: a running digest, the newest timestamp, the decoder configuration, and when."""

    _value: int = 0
    newest: int | None = None
    headers: dict[Hashable, bytes] = attrs.field(factory=dict)
    last_time: float | None = None

    def add(self, summary: FrameSummary, now: float) -> None:
        """These frames were delivered."""
        self.last_time = now
        self._value = (self._value * summary.multiplier + summary.addend) % _MODULUS
        # Sound and pictures may overtake each other a little: what counts is the newest of all.
        if summary.newest is not None and (
            self.newest is None or milliseconds_between(self.newest, summary.newest) > 0
        ):
            self.newest = summary.newest
        if summary.headers:
            self.headers.update(summary.headers)

    @property
    def digest(self) -> str:
        """Of all audio and video that was delivered, in order."""
        return f"{self._value:032x}"
