"""How often a viewer could not keep up."""

from __future__ import annotations

import attrs

#: Shorter ones are the usual ebb and flow of a socket: a large keyframe fills it each time.
SHORTEST_STALL = 1.0


@attrs.define(eq=False, slots=True)
class StallMeter:
    """Counts the times in which media waited for its receiver for over a second.

    Attributes:
        count: Those that are over.
        seconds: How long they were, all together.
    """

    count: int = 0
    seconds: float = 0.0
    _since: float | None = None

    def transport_full(self, now: float) -> None:
        """The receiver takes nothing more."""
        if self._since is None:
            self._since = now

    def transport_ready(self, now: float) -> None:
        """The receiver has taken all that there was, or has gone."""
        if self._since is not None:
            lasted = now - self._since
            self._since = None
            if lasted >= SHORTEST_STALL:
                self.count += 1
                self.seconds += lasted
