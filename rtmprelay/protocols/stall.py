"""Whether a peer still takes what is sent to it, judged by progress and not by the socket being open."""

from __future__ import annotations

from rtmprelay.protocols.transport_buffers import unsent_bytes


class StallWatch:
    """Knows since when a peer has taken no byte although some wait for it."""

    def __init__(self) -> None:
        self._stuck_since: float | None = None
        self._unsent: int | None = None

    def stuck_since(self) -> float | None:
        """The time of the last progress, while bytes wait; None while all is well."""
        return self._stuck_since

    def transport_full(self, now: float) -> None:
        """The transport's buffer filled up."""
        if self._stuck_since is None:
            self._stuck_since = now
            self._unsent = None

    def transport_ready(self) -> None:
        """The transport's buffer was emptied."""
        self._stuck_since = None

    def look(self, transport: object, now: float) -> None:
        """Compare with the last look: fewer unsent bytes are progress (nothing is added while the buffer is full)."""
        if self._stuck_since is None:
            return
        unsent = unsent_bytes(transport)
        if unsent is not None and self._unsent is not None and unsent < self._unsent:
            self._stuck_since = now
        self._unsent = unsent
