"""Decides when the frames of one stream go to its subscribers, and writes what they return."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

from twisted.internet.interfaces import IDelayedCall

from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.streams.frames import FrameBatch
from rtmprelay.streams.merging import MergeWindow, Merging, Pace

#: So much is worth a write of its own, and waits for nothing more.
ENOUGH_BYTES = 65536
ENOUGH_FRAMES = 256


class _Delivery:
    """One batch on its way to the subscribers of a lane, and how far it has come.

    A subscriber that is called may flush the lane, which finishes the delivery from inside itself. So both steps are
    consumed as they go, and nothing is done twice.
    """

    __slots__ = ("batch", "subscribers", "to_ask", "to_write")

    def __init__(self, batch: FrameBatch, subscribers: tuple[IFrameSubscriber, ...]) -> None:
        self.batch = batch
        self.subscribers = subscribers
        self.to_ask: Iterator[IFrameSubscriber] = iter(subscribers)
        self.to_write: deque[tuple[IFrameSubscriber, bytes]] = deque()


class _Lane:
    """The subscribers of one pace, and the frames that wait to be joined for them."""

    __slots__ = ("delivery", "subscribers", "timer", "waiting", "waiting_bytes", "waiting_frames", "window")

    def __init__(self, window: MergeWindow | None) -> None:
        #: How long frames may wait; None if they never do.
        self.window = window
        # Replaced, never changed: the loop over it may meet subscribers that come and go.
        self.subscribers: tuple[IFrameSubscriber, ...] = ()
        self.waiting: list[FrameBatch] = []
        self.waiting_bytes = 0
        self.waiting_frames = 0
        self.timer: IDelayedCall | None = None
        self.delivery: _Delivery | None = None

    def take_waiting(self) -> list[FrameBatch]:
        """Everything that waits, and no timer for it any more."""
        waiting, self.waiting = self.waiting, []
        self.waiting_bytes = self.waiting_frames = 0
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        return waiting


class FanOut:
    """Frames in, writes out. Frames that wait here belong to the stream: a newcomer never misses them or gets them twice.

    First all subscribers of a pace are asked what to write, then it is all written. A kernel that gets one write right
    after the other wakes the receivers up once; with other work between two writes it does so for each, which costs
    twice as much.
    """

    def __init__(self, merging: Merging | None, failed: Callable[[IFrameSubscriber], None]) -> None:
        """Args:
        merging: How long frames may wait; without it they never do.
        failed: Called from inside the `except` that caught a subscriber's error.
        """
        self._failed = failed
        self._lanes = {pace: _Lane(merging.window(pace) if merging else None) for pace in Pace}
        # Those of them that have subscribers, and those of these whose subscribers notice a delay.
        self._in_use: tuple[_Lane, ...] = ()
        self._watched: tuple[_Lane, ...] = ()

    def __iter__(self) -> Iterator[IFrameSubscriber]:
        return chain.from_iterable([lane.subscribers for lane in self._lanes.values()])

    def subscribers(self, pace: Pace) -> tuple[IFrameSubscriber, ...]:
        """The subscribers of one pace."""
        return self._lanes[pace].subscribers

    @property
    def is_watched(self) -> bool:
        """Whether somebody would notice a delay: subscribers without a window buffer everything themselves."""
        return bool(self._watched)

    @property
    def shortest_window(self) -> float | None:
        """How long frames may wait for the most impatient of those who notice; None if nobody does."""
        return min((lane.window.seconds for lane in self._watched if lane.window is not None), default=None)

    # -- subscribers -----------------------------------------------------------------------------------------

    def add(self, subscriber: IFrameSubscriber, pace: Pace) -> None:
        """Hand every frame from now on to this subscriber too."""
        lane = self._lanes[pace]
        self._flush(lane)
        lane.subscribers = (*lane.subscribers, subscriber)
        self._lanes_changed()

    def remove(self, subscriber: IFrameSubscriber) -> None:
        """Hand it nothing more, not even what waits."""
        for lane in self._lanes.values():
            if subscriber in lane.subscribers:
                lane.subscribers = tuple(other for other in lane.subscribers if other is not subscriber)
                if not lane.subscribers:
                    lane.take_waiting()
        self._lanes_changed()

    def _lanes_changed(self) -> None:
        self._in_use = tuple(lane for lane in self._lanes.values() if lane.subscribers)
        self._watched = tuple(lane for lane in self._in_use if lane.window is not None)

    # -- frames ----------------------------------------------------------------------------------------------

    def publish(self, batch: FrameBatch, now: float, waited: float) -> None:
        """Hand on frames that came in, now or when their window closes. This is the frame path.

        All lanes get the frames before any subscriber is asked. So a newcomer, who may come because of what a
        subscriber does, finds each frame either delivered or waiting.

        Args:
            waited: The seconds that the frames may have waited already.
        """
        due = [lane for lane in self._in_use if self._push(lane, batch, now, waited)]
        for lane in due:
            self._flush(lane)

    def _push(self, lane: _Lane, batch: FrameBatch, now: float, waited: float) -> bool:
        """Put frames in a lane; whether to flush it now."""
        lane.waiting.append(batch)
        window = lane.window
        if window is None:
            return True
        window.count(batch.count * len(lane.subscribers), now)
        lane.waiting_bytes += batch.size
        lane.waiting_frames += batch.count
        if lane.waiting_bytes >= ENOUGH_BYTES or lane.waiting_frames >= ENOUGH_FRAMES:
            return True
        if lane.timer is None:
            if window.seconds <= waited:
                return True
            lane.timer = window.call_later(window.seconds - waited, partial(self._window_closed, lane))
        return False

    def _window_closed(self, lane: _Lane) -> None:
        lane.timer = None
        self._flush(lane)

    def flush(self) -> None:
        """Hand on everything that waits. Subscribers may call this while frames are handed to them."""
        for lane in self._lanes.values():
            self._flush(lane)

    def _flush(self, lane: _Lane) -> None:
        if lane.delivery is not None:
            # What is being delivered comes first.
            self._finish(lane, lane.delivery)
        if lane.waiting:
            waiting = lane.take_waiting()
            batch = waiting[0] if len(waiting) == 1 else _joined(waiting)
            delivery = lane.delivery = _Delivery(batch, lane.subscribers)
            self._finish(lane, delivery)
            lane.delivery = None

    def _finish(self, lane: _Lane, delivery: _Delivery) -> None:
        batch, subscribers, to_write = delivery.batch, delivery.subscribers, delivery.to_write
        for subscriber in delivery.to_ask:
            # One that was asked before may have unsubscribed this one.
            if lane.subscribers is not subscribers and subscriber not in lane.subscribers:
                continue
            try:
                data = subscriber.frames_arrived(batch)
            except Exception:
                self._failed(subscriber)
            else:
                if data is not None:
                    to_write.append((subscriber, data))
        while to_write:
            subscriber, data = to_write.popleft()
            try:
                subscriber.write(data)
            except Exception:
                self._failed(subscriber)


def _joined(batches: Iterable[FrameBatch]) -> FrameBatch:
    return FrameBatch([frame for batch in batches for frame in batch.frames])
