"""Who has received how much: the byte counts that RTMP peers tell each other."""

from __future__ import annotations

import attrs

from rtmprelay.wire.limits import WINDOW_ACKNOWLEDGEMENT_SIZE

#: A peer that asks for an acknowledgement of every few bytes would get more from us than it sends.
SMALLEST_WINDOW = 4096

_MODULUS = 1 << 32


@attrs.define(eq=False)
class AcknowledgementAccount:
    """Counts what came in, says when to acknowledge it, and keeps what the peer acknowledged."""

    bytes_received: int = 0
    #: What the peer said arrived there, counted on over 2^32.
    bytes_acknowledged_by_peer: int = 0
    _window: int = WINDOW_ACKNOWLEDGEMENT_SIZE
    _last_acknowledged: int = 0

    def received(self, count: int) -> int | None:
        """Note that bytes came in; the sequence number to acknowledge, if one is due."""
        self.bytes_received += count
        if self.bytes_received - self._last_acknowledged < self._window:
            return None
        self._last_acknowledged = self.bytes_received
        return self.bytes_received % _MODULUS

    def set_window(self, size: int) -> None:
        """The peer wants an acknowledgement after each so many bytes."""
        self._window = max(size, SMALLEST_WINDOW)

    def peer_acknowledged(self, sequence_number: int) -> None:
        """The peer says how many bytes arrived there, modulo 2^32."""
        step = (sequence_number - self.bytes_acknowledged_by_peer) % _MODULUS
        # A step of more than half the circle is an old number that came late.
        if step < _MODULUS // 2:
            self.bytes_acknowledged_by_peer += step
