"""Whether a peer still takes what is sent to it, judged by progress and not by the socket being open."""

from __future__ import annotations

from rtmprelay.rtmp.transport_buffers import untaken_bytes


class StallWatch:
    """Knows since when a peer has taken no byte although some wait for it."""

    def __init__(self) -> None:
        self._stuck_since: float | None = None
        self._taken: int | None = None

    def stuck_since(self) -> float | None:
        """The time of the last progress, while bytes wait; None while all is well."""
        return self._stuck_since

    def transport_full(self, transport: object, written: int, now: float) -> None:
        """The transport's buffer filled up. `written` is all that was ever written to it."""
        if self._stuck_since is None:
            self._stuck_since = now
            self._taken = _taken(transport, written)

    def transport_ready(self) -> None:
        """The transport's buffer was emptied."""
        self._stuck_since = None

    def look(self, transport: object, written: int, now: float) -> None:
        """Compare with the last look: if the peer has taken more since, that is progress."""
        if self._stuck_since is None:
            return
        taken = _taken(transport, written)
        if taken is not None and self._taken is not None and taken > self._taken:
            self._stuck_since = now
        self._taken = taken


def _taken(transport: object, written: int) -> int | None:
    untaken = untaken_bytes(transport)
    return None if untaken is None else written - untaken
