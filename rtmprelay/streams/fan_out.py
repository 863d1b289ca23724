"""Hands the frames of one stream to all subscribers of one pace, joined where that is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from twisted.internet.interfaces import IDelayedCall

from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.streams.frames import FrameBatch, WritesLater
from rtmprelay.streams.merging import MergeWindow

#: So much is worth a write of its own, and waits for nothing more.
ENOUGH_BYTES = 65536
ENOUGH_FRAMES = 256


class FanOut:
    """Frames in, batches out. What waits here is part of the stream: nobody may join past it."""

    def __init__(self, window: MergeWindow | None, failed: Callable[[IFrameSubscriber], None]) -> None:
        """Args:
        window: How long frames may wait; None if never.
        failed: Called from inside the `except` that caught a subscriber's error.
        """
        # Replaced, never changed: the loop over it may meet subscribers that come and go.
        self.subscribers: tuple[IFrameSubscriber, ...] = ()
        self._window = window
        self._failed = failed
        self._waiting: list[FrameBatch] = []
        self._waiting_bytes = 0
        self._waiting_frames = 0
        self._timer: IDelayedCall | None = None
        # What is being handed on at this moment, if anything is.
        self._delivery: _Delivery | None = None

    def add(self, subscriber: IFrameSubscriber) -> None:
        """Hand everything that comes from now on to this one too."""
        self.flush()
        self.subscribers = (*self.subscribers, subscriber)

    def remove(self, subscriber: IFrameSubscriber) -> None:
        """Hand it nothing more, not even what waits."""
        if subscriber in self.subscribers:
            self.subscribers = tuple(other for other in self.subscribers if other is not subscriber)
            if not self.subscribers:
                self._forget_waiting()

    @property
    def seconds(self) -> float:
        """How long frames may wait now."""
        return self._window.seconds if self._window is not None else 0.0

    @property
    def is_watched(self) -> bool:
        """Whether a delay would be noticed: those without a window buffer everything themselves."""
        return self._window is not None

    def push(self, batch: FrameBatch, waited: float, now: float) -> bool:
        """Take frames that came in, and may have waited so long already; whether to `flush` now. This is the frame path.

        Nobody is told yet: first all paces get the frames, so that whoever joins meanwhile, because of what somebody
        else was told, finds each frame either handed on or not.
        """
        self._waiting.append(batch)
        window = self._window
        if window is None:
            return True
        window.count(batch.count * len(self.subscribers), now)
        self._waiting_bytes += batch.size
        self._waiting_frames += batch.count
        if self._waiting_bytes >= ENOUGH_BYTES or self._waiting_frames >= ENOUGH_FRAMES:
            return True
        if self._timer is None:
            if window.seconds <= waited:
                return True
            self._timer = window.call_later(window.seconds - waited, self._window_closed)
        return False

    def _window_closed(self) -> None:
        self._timer = None
        self.flush()

    def flush(self) -> None:
        """Hand on what waits, behind what is being handed on just now: whoever is told something may call this."""
        if self._delivery is not None:
            self._go_on_with(self._delivery)
        waiting = self._waiting
        if waiting:
            self._forget_waiting()
            batch = waiting[0]
            if len(waiting) > 1:
                batch = FrameBatch([frame for one in waiting for frame in one.frames])
            self._delivery = delivery = _Delivery(batch, self.subscribers)
            self._go_on_with(delivery)
            self._delivery = None

    def _forget_waiting(self) -> None:
        self._waiting = []
        self._waiting_bytes = self._waiting_frames = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_on_with(self, delivery: _Delivery) -> None:
        batch, subscribers = delivery.batch, delivery.subscribers
        for subscriber in delivery.to_ask:
            # Whoever was told before may have taken this one off.
            if self.subscribers is not subscribers and subscriber not in self.subscribers:
                continue
            try:
                subscriber.frames_arrived(batch)
            except Exception:
                self._failed(subscriber)
        batch.writes = None
        for writer, data in delivery.to_write:
            try:
                writer.write_now(data)
            except Exception:
                self._failed(cast(IFrameSubscriber, writer))


class _Delivery:
    """One batch on its way to everybody, and how far it has come.

    Both steps are iterators: what is finished from inside itself is not done again behind that.
    """

    __slots__ = ("batch", "subscribers", "to_ask", "to_write")

    def __init__(self, batch: FrameBatch, subscribers: tuple[IFrameSubscriber, ...]) -> None:
        writes: list[tuple[WritesLater, bytes]] = []
        batch.writes = writes
        self.batch = batch
        self.subscribers = subscribers
        self.to_ask = iter(subscribers)
        self.to_write = iter(writes)
