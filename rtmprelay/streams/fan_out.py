"""Decides when the frames of one stream go to its subscribers, and writes what they return."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TypeAlias

from twisted.internet.interfaces import IDelayedCall

from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.streams.frames import FrameBatch
from rtmprelay.streams.merging import MergeWindow, Merging, Pace

#: Frames that are together this large, or this many, do not wait for more.
ENOUGH_BYTES = 65536
ENOUGH_FRAMES = 256

#: A batch that is being delivered: to these subscribers, of which these are still to be asked; and what they returned.
_Delivery: TypeAlias = tuple[
    FrameBatch,
    tuple[IFrameSubscriber, ...],
    Iterator[IFrameSubscriber],
    deque[tuple[IFrameSubscriber, bytes]],
]


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

    def drop_waiting(self) -> None:
        """Forget the frames that wait: no subscriber is left."""
        self.waiting = []
        self.waiting_bytes = self.waiting_frames = 0
        self.stop_timer()

    def stop_timer(self) -> None:
        """The frames that wait are taken before their window closes."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class FanOut:
    """Frames in, writes out. Frames that wait here belong to the stream: a newcomer gets each of them exactly once.

    First all subscribers of a pace are asked what to write, then everything is written. A kernel that gets one write right
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
        # The lanes that have subscribers.
        self._in_use: tuple[_Lane, ...] = ()
        #: The windows of subscribers that would notice a delay: those without a window buffer everything themselves.
        self.windows: tuple[MergeWindow, ...] = ()

    def __iter__(self) -> Iterator[IFrameSubscriber]:
        return chain.from_iterable([lane.subscribers for lane in self._lanes.values()])

    def subscribers(self, pace: Pace) -> tuple[IFrameSubscriber, ...]:
        return self._lanes[pace].subscribers

    # -- subscribers -----------------------------------------------------------------------------------------

    def add(self, subscriber: IFrameSubscriber, pace: Pace) -> None:
        """Deliver every frame from now on to this subscriber too."""
        lane = self._lanes[pace]
        self._flush(lane)
        lane.subscribers = (*lane.subscribers, subscriber)
        self._subscribers_changed()

    def remove(self, subscriber: IFrameSubscriber) -> None:
        """Deliver nothing more to it, not even what waits."""
        for lane in self._lanes.values():
            if subscriber in lane.subscribers:
                lane.subscribers = tuple(other for other in lane.subscribers if other is not subscriber)
                if not lane.subscribers:
                    lane.drop_waiting()
        self._subscribers_changed()

    def _subscribers_changed(self) -> None:
        self._in_use = tuple(lane for lane in self._lanes.values() if lane.subscribers)
        self.windows = tuple(lane.window for lane in self._in_use if lane.window is not None)

    # -- frames ----------------------------------------------------------------------------------------------

    def publish(self, batch: FrameBatch, now: float, waited: float) -> None:
        """Deliver frames, now or when their window closes. This is the frame path.

        Every lane gets the frames before any subscriber is asked. So a newcomer, who may come because of what a
        subscriber does, finds each frame either delivered or waiting.

        Args:
            waited: The seconds that the frames may have waited already.
        """
        due: list[_Lane] = []
        for lane in self._in_use:
            lane.waiting.append(batch)
            window = lane.window
            if window is not None:
                window.load += batch.count * len(lane.subscribers)
                if now >= window.measure_at:
                    window.measure(now)
                lane.waiting_bytes += batch.size
                lane.waiting_frames += batch.count
                if lane.waiting_bytes < ENOUGH_BYTES and lane.waiting_frames < ENOUGH_FRAMES:
                    if lane.timer is not None:
                        continue
                    if window.seconds > waited:
                        lane.timer = window.call_later(
                            window.seconds - waited, partial(self._window_closed, lane)
                        )
                        continue
            due.append(lane)
        for lane in due:
            self._flush(lane)

    def _window_closed(self, lane: _Lane) -> None:
        lane.timer = None
        self._flush(lane)

    def flush(self) -> None:
        """Deliver everything that waits. Subscribers may call this while frames are delivered to them."""
        for lane in self._lanes.values():
            self._flush(lane)

    def _flush(self, lane: _Lane) -> None:
        if lane.delivery is not None:
            # What is being delivered comes first.
            self._finish(lane, lane.delivery)
        if lane.waiting:
            waiting, lane.waiting = lane.waiting, []
            lane.waiting_bytes = lane.waiting_frames = 0
            if lane.timer is not None:
                lane.stop_timer()
            batch = waiting[0]
            if len(waiting) > 1:
                batch = FrameBatch.of([frame for one in waiting for frame in one.frames])
            subscribers = lane.subscribers
            delivery = lane.delivery = (batch, subscribers, iter(subscribers), deque())
            self._finish(lane, delivery)
            lane.delivery = None

    def _finish(self, lane: _Lane, delivery: _Delivery) -> None:
        """Ask and write. A subscriber may flush the lane, which finishes the delivery from inside itself.

        So both steps are consumed as they go, and nothing is done twice.
        """
        batch, subscribers, to_ask, to_write = delivery
        for subscriber in to_ask:
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
