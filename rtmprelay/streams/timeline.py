"""The timestamps of a stream, which go on when a publisher leaves and another one comes."""

from __future__ import annotations

from rtmprelay.media import TIMESTAMP_MODULUS, milliseconds_between


class Timeline:
    """Moves the timestamps of a returning publisher behind those of the one before, by one offset for all tracks.

    The first publisher's timestamps stay as they are. Encoders begin at zero again when they reconnect; players
    that stayed would see time run backwards.
    """

    def __init__(self) -> None:
        #: The newest timestamp that was handed out; None before the first.
        self.newest: int | None = None
        self._newest_at = 0.0
        self._offset: int | None = 0
        self._resume_at = 0

    def resume(self, now: float) -> None:
        """The next frames come from another publisher, and are to follow on what has been."""
        if self.newest is None:
            return
        # The gap is as long as it really was, so that clocks that started with the stream stay right.
        gap_ms = max(1, round((now - self._newest_at) * 1000))
        self._resume_at = (self.newest + gap_ms) % TIMESTAMP_MODULUS
        self._offset = None

    def restart(self) -> None:
        """Nobody is left who saw what has been: the next publisher's timestamps stay as they are."""
        self.newest = None
        self._offset = 0

    def place(self, timestamp_ms: int, is_media: bool, now: float) -> int:
        """The timestamp of a frame on this timeline.

        Args:
            is_media: Coded audio or video. Metadata and headers often say zero, whatever follows them.
        """
        if self._offset == 0:
            placed = timestamp_ms
        elif self._offset is None:
            if not is_media:
                return self._resume_at
            self._offset = self._resume_at - timestamp_ms
            placed = self._resume_at
        else:
            placed = (timestamp_ms + self._offset) % TIMESTAMP_MODULUS
        if is_media and (self.newest is None or milliseconds_between(self.newest, placed) > 0):
            self.newest = placed
            self._newest_at = now
        return placed
