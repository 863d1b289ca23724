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
#: How many deliveries are noted before they are added up: a sum that is in the processor's cache costs a fraction.
_ADD_AT_ONCE = 64
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


class DeliveryRecord:
    """What one receiver got: a running digest, the newest timestamp, the decoder configuration, and when.

    Receivers only note what they got; the sums are done many at a time, or when somebody asks.
    """

    def __init__(self) -> None:
        self.last_time: float | None = None
        self._value = 0
        self._newest: int | None = None
        self._headers: dict[Hashable, bytes] = {}
        self._not_added: list[FrameSummary] = []

    def add(self, summary: FrameSummary, now: float) -> None:
        """These frames were delivered."""
        self.last_time = now
        self._not_added.append(summary)
        if len(self._not_added) >= _ADD_AT_ONCE:
            self._add_up()

    def _add_up(self) -> None:
        for summary in self._not_added:
            self._value = (self._value * summary.multiplier + summary.addend) % _MODULUS
            # Sound and pictures may overtake each other a little: what counts is the newest of all.
            if summary.newest is not None and (
                self._newest is None or milliseconds_between(self._newest, summary.newest) > 0
            ):
                self._newest = summary.newest
            if summary.headers:
                self._headers.update(summary.headers)
        self._not_added.clear()

    @property
    def newest(self) -> int | None:
        """The newest timestamp of what was delivered."""
        self._add_up()
        return self._newest

    @property
    def headers(self) -> dict[Hashable, bytes]:
        """The decoder configuration that was delivered last, by its key."""
        self._add_up()
        return self._headers

    @headers.setter
    def headers(self, headers: dict[Hashable, bytes]) -> None:
        self._add_up()
        self._headers = headers

    @property
    def digest(self) -> str:
        """Of all audio and video that was delivered, in order."""
        self._add_up()
        return f"{self._value:032x}"
