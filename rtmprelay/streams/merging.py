"""How long frames may wait for others, so that one read takes several and one write delivers several.

A read or a write costs more than most frames. On a server with little to do nothing waits; the more there is to do,
the longer the window in which frames are joined, up to a bound. The best place to wait is the socket of the publisher:
what gathers there costs nothing at all. Where only some receivers may wait, frames are joined for them alone.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime

#: Seconds over which the load is measured.
_MEASURE_FOR = 0.5


class Pace(Enum):
    """How soon a subscriber wants its frames."""

    #: Each frame as it comes: whoever has a buffer of its own.
    AT_ONCE = "at once"
    #: A person looks at it: a server that has little to do holds nothing back.
    VIEWER = "viewer"
    #: Another server, with the network between: a few milliseconds are not seen there.
    SERVER = "server"


@attrs.frozen
class MergeRule:
    """From which load on frames wait, and how long at most.

    The load is counted in deliveries a second, as if each message went to each receiver alone. One costs about
    10 microseconds, so 1,000 a second are about 1 % of a core.
    """

    longest: float
    idle_below: float
    busy_from: float

    def window(self, deliveries_per_second: float) -> float:
        """The seconds that a frame may wait at this load."""
        share = (deliveries_per_second - self.idle_below) / (self.busy_from - self.idle_below)
        return self.longest * min(1.0, max(0.0, share))


def viewer_rule(longest: float) -> MergeRule:
    """Twenty viewers of one stream notice nothing; with two hundred, the window is open wide."""
    return MergeRule(longest, idle_below=2_500, busy_from=10_000)


def intake_rule(longest: float) -> MergeRule:
    """For streams that nobody watches; they are counted in reads. A few publishers notice nothing."""
    return MergeRule(longest, idle_below=300, busy_from=1_500)


def server_rule(longest: float) -> MergeRule:
    """One or two destinations notice nothing. Beside a network of tens of milliseconds a third will do."""
    return MergeRule(longest * 0.3, idle_below=150, busy_from=600)


class MergeWindow:
    """The window of all streams of a server for subscribers of one pace."""

    def __init__(self, rule: MergeRule, clock: IReactorTime) -> None:
        self._rule = rule
        self._clock = clock
        #: Seconds that a frame may wait now.
        self.seconds = 0.0
        #: The load that was measured last, in deliveries a second.
        self.deliveries_per_second = 0.0
        self._deliveries = 0
        self._measured_at = clock.seconds()

    def count(self, deliveries: int, now: float) -> None:
        """So much is to be delivered; from time to time, think the window over."""
        self._deliveries += deliveries
        elapsed = now - self._measured_at
        if elapsed >= _MEASURE_FOR:
            self.deliveries_per_second = self._deliveries / elapsed
            self.seconds = self._rule.window(self.deliveries_per_second)
            self._deliveries = 0
            self._measured_at = now

    def call_later(self, seconds: float, function: Callable[[], None]) -> IDelayedCall:
        """Call something when the window closes."""
        return self._clock.callLater(seconds, function)


class Merging:
    """The windows of a server."""

    def __init__(self, clock: IReactorTime, longest: float) -> None:
        """Args:
        longest: The most that a viewer's frame waits, in seconds; 0 switches waiting off.
        """
        longest = max(0.0, longest)
        self._windows = {
            Pace.VIEWER: MergeWindow(viewer_rule(longest), clock),
            Pace.SERVER: MergeWindow(server_rule(longest), clock),
        }
        #: For reading streams that nobody watches.
        self.intake = MergeWindow(intake_rule(longest), clock)
        self._enabled = longest > 0

    def window(self, pace: Pace) -> MergeWindow | None:
        """The window for this pace; None if nothing ever waits."""
        return self._windows.get(pace) if self._enabled else None
