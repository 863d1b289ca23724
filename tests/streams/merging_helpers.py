"""Windows that stay as they are set, whatever the load, and subscribers that do things in the middle of a delivery."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.interfaces import IReactorTime
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.media import MediaFrame
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.frames import FrameBatch, LiveFrame
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.streams.merging import MergeRule, MergeWindow, Merging, Pace

#: So long frames wait in these tests, if nothing else is said.
WINDOW = 0.04


class FixedWindow(MergeWindow):
    """A window that the load does not change."""

    def __init__(self, clock: IReactorTime, seconds: float) -> None:
        super().__init__(MergeRule(seconds, 0.0, 1.0), clock)
        self.seconds = seconds

    @override
    def measure(self, now: float) -> None:
        """Leave it as it is."""


class FixedMerging(Merging):
    """The windows of a server, each as wide as the test says."""

    def __init__(
        self, clock: IReactorTime, viewer: float = WINDOW, server: float = WINDOW, reading: float = 0.0
    ) -> None:
        super().__init__(clock, longest=1.0)
        self.viewer = FixedWindow(clock, viewer)
        self.server = FixedWindow(clock, server)
        self.reading = FixedWindow(clock, reading)

    @override
    def window(self, pace: Pace) -> MergeWindow | None:
        return {Pace.VIEWER: self.viewer, Pace.SERVER: self.server}.get(pace)


class KeepingEncoder:
    """Makes bytes that tell which frames they are, and counts how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def encode(self, frames: Sequence[MediaFrame]) -> bytes:
        self.calls += 1
        return b"".join(
            b"%d:%d:%s\n" % (frame.kind, frame.timestamp_ms, frame.payload.hex().encode()) for frame in frames
        )


#: The one that all receivers share, as players do.
ENCODER = KeepingEncoder()


def encoded(frames: Sequence[MediaFrame]) -> list[bytes]:
    """Frames as a receiver keeps them."""
    return [b"%d:%d:%s" % (frame.kind, frame.timestamp_ms, frame.payload.hex().encode()) for frame in frames]


@implementer(IFrameSubscriber)
class Receiver(Consumer):
    """A consumer that keeps its writes, and the calls of its stream, in one list."""

    audience: str | None = "test"

    def __init__(self, limits: QueueLimits | None = None) -> None:
        self.log: list[bytes] = []
        self.writes: list[bytes] = []
        super().__init__(self.keep, ENCODER, limits)

    def keep(self, data: bytes) -> None:
        self.writes.append(data)
        self.log += data.split()

    @property
    def frames(self) -> list[bytes]:
        """All frames that were written."""
        return b"".join(self.writes).split()

    def publisher_left(self) -> None:
        self.log.append(b"left")

    def publisher_returned(self) -> None:
        self.log.append(b"returned")


class Meddler(Receiver):
    """Does something while frames are handed to it, or while they are written."""

    def __init__(
        self, *, asked: Callable[[], None] | None = None, writing: Callable[[], None] | None = None
    ) -> None:
        super().__init__()
        self._when_asked = asked
        self._when_writing = writing

    @override
    def frames_arrived(self, batch: FrameBatch) -> bytes | None:
        action, self._when_asked = self._when_asked, None
        if action is not None:
            action()
        return super().frames_arrived(batch)

    @override
    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        action, self._when_writing = self._when_writing, None
        super().begin(startup, wait_for_keyframe)
        self._when_writing = action

    @override
    def keep(self, data: bytes) -> None:
        action, self._when_writing = self._when_writing, None
        if action is not None:
            action()
        super().keep(data)
