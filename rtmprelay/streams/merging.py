"""How long frames may wait for others, so that one read takes several frames and one write delivers several.

A read or a write costs more than most frames. On a server with little to do nothing waits; the more there is to do,
the longer the window in which frames are joined, up to a bound. The best place to wait is the publisher's socket:
frames that gather there cost nothing at all. Where only some receivers may wait, frames are joined for them alone.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime

#: Seconds over which the load is measured.
_MEASURED_FOR = 0.5


class Pace(Enum):
    """How soon a subscriber wants its frames."""

    #: Each frame as it arrives: the subscriber has its own buffer.
    AT_ONCE = "at once"
    #: A person watches: a server that has little to do holds nothing back.
    VIEWER = "viewer"
    #: Another server, with the network between: a few milliseconds do not matter there.
    SERVER = "server"


@attrs.frozen
class MergeRule:
    """From which load on frames wait, and how long at most.

    The load is counted in deliveries a second, as if each message went to each receiver alone. One delivery costs about
    10 microseconds, so 1,000 a second are about 1 % of a core.
    """

    longest: float
    idle_below: float
    busy_from: float

    def window(self, load: float) -> float:
        """How many seconds a frame may wait at this load."""
        share = (load - self.idle_below) / (self.busy_from - self.idle_below)
        return self.longest * min(1.0, max(0.0, share))


def viewer_rule(longest: float) -> MergeRule:
    """Twenty viewers of one stream notice nothing; with two hundred, the window is fully open."""
    return MergeRule(longest, idle_below=2_500, busy_from=10_000)


#: How much longer than a viewer's frame one of a stream that nobody watches may wait: a recording loses that much more
#: in a crash. With 50 publishers it saves two thirds of the reads, and half of the time that they take.
UNWATCHED = 3


def reading_rule(longest: float) -> MergeRule:
    """For streams that nobody watches: their load is counted in messages. A few publishers notice nothing."""
    return MergeRule(longest * UNWATCHED, idle_below=300, busy_from=1_500)


def server_rule(longest: float) -> MergeRule:
    """One or two destinations notice nothing. Of others the latency is to stay below 30 ms with the usual window."""
    return MergeRule(longest * 0.65, idle_below=150, busy_from=600)


class MergeWindow:
    """The window of one pace, for all streams of a server.

    The fan-out adds to `load`, and calls `measure` once `measure_at` is reached; that is two lines on the frame path
    and no call.
    """

    def __init__(self, rule: MergeRule, clock: IReactorTime) -> None:
        self._rule = rule
        self._clock = clock
        self._measured_at = clock.seconds()
        #: How many seconds a frame may wait now.
        self.seconds = 0.0
        #: The deliveries since the last measurement.
        self.load = 0
        #: When to measure next.
        self.measure_at = self._measured_at + _MEASURED_FOR

    def measure(self, now: float) -> None:
        """Choose the window by the load since the last measurement."""
        self.seconds = self._rule.window(self.load / (now - self._measured_at))
        self.load = 0
        self._measured_at = now
        self.measure_at = now + _MEASURED_FOR

    def call_later(self, seconds: float, function: Callable[[], None]) -> IDelayedCall:
        """Call something when the window closes."""
        return self._clock.callLater(seconds, function)


class Merging:
    """The windows of a server.

    Args:
        longest: The most that a viewer's frame waits, in seconds; 0 turns waiting off.
    """

    def __init__(self, clock: IReactorTime, longest: float) -> None:
        longest = max(0.0, longest)
        self._windows = {
            Pace.VIEWER: MergeWindow(viewer_rule(longest), clock),
            Pace.SERVER: MergeWindow(server_rule(longest), clock),
        }
        #: For reading streams that nobody watches.
        self.reading = MergeWindow(reading_rule(longest), clock)
        self._enabled = longest > 0

    def window(self, pace: Pace) -> MergeWindow | None:
        """The window for this pace; None if nothing ever waits."""
        return self._windows.get(pace) if self._enabled else None
