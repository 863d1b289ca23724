"""How long a disk has not worked, and when it is tried again."""

from __future__ import annotations

import attrs

from rtmprelay.recording.settings import RecordingSettings


@attrs.define(eq=False)
class Outages:
    """Attempts come later and later while a disk fails; an outage is over when nothing has failed for a while.

    Attributes:
        error: What the current outage is called; None while there is none.
    """

    _settings: RecordingSettings
    error: str | None = None
    _delay: float = 0.0
    _retry_at: float = 0.0
    _failed_at: float = 0.0

    def failed(self, error: str, now: float, at_once: bool = False) -> bool:
        """Something failed; whether that is news.

        Args:
            at_once: There is no reason to wait before the next attempt.
        """
        is_news = self.error is None
        settings = self._settings
        if at_once:
            self._delay = 0.0
        elif is_news or not self._delay:
            self._delay = settings.retry_after
        else:
            self._delay = min(2 * self._delay, settings.longest_retry)
        self.error = error
        self._retry_at, self._failed_at = now + self._delay, now
        return is_news

    def worked(self, since: float, now: float) -> None:
        """Writing works, since then."""
        if now - max(self._failed_at, since) >= self._settings.recovered_after:
            self.error = None

    def must_wait(self, now: float) -> bool:
        """Whether it is too early for another attempt."""
        return self.error is not None and now < self._retry_at
