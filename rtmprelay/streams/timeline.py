"""The timestamps of a stream, which go on when its publisher leaves and another one takes its place."""

from __future__ import annotations

from rtmprelay.media import TIMESTAMP_MODULUS


class Timeline:
    """Shifts the timestamps of a returning publisher to follow those of the one before, by one offset for all tracks.

    The first publisher's timestamps stay as they are. Encoders start at zero again when they reconnect; without a shift,
    players that stayed would see time run backwards.
    """

    def __init__(self) -> None:
        #: What is added to timestamps; None until the first media of a publisher that returned. While it is 0 there is
        #: no need to call `place`.
        self.offset: int | None = 0
        self._resume_at = 0

    def resume(self, newest: int, seconds_since: float) -> None:
        """The next frames come from another publisher, and follow the newest one so far.

        Args:
            seconds_since: When that one arrived. The gap is as long as it really was, so clocks that started with the
                stream stay right.
        """
        gap_ms = max(1, round(seconds_since * 1000))
        self._resume_at = (newest + gap_ms) % TIMESTAMP_MODULUS
        self.offset = None

    def restart(self) -> None:
        """No subscriber is left that saw earlier frames: the next publisher's timestamps stay as they are."""
        self.offset = 0

    def place(self, timestamp_ms: int, is_media: bool) -> int:
        """The timestamp of a frame on this timeline.

        Args:
            is_media: Coded audio or video. Metadata and headers often say zero, whatever the media after them says.
        """
        if self.offset is None:
            if is_media:
                self.offset = self._resume_at - timestamp_ms
            return self._resume_at
        return (timestamp_ms + self.offset) % TIMESTAMP_MODULUS
