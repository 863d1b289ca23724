"""Hands the frames of one stream to all subscribers of one pace, joined where that is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from twisted.internet.interfaces import IDelayedCall

from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.streams.frames import FrameBatch, LiveFrame, WritesLater
from rtmprelay.streams.merging import MergeWindow

#: So much is worth a write of its own, and waits for nothing more.
ENOUGH_BYTES = 65536
ENOUGH_FRAMES = 256


class FanOut:
    """Frames in, batches out. What waits here is part of the stream: nobody may join or leave past it."""

    def __init__(self, window: MergeWindow | None, failed: Callable[[IFrameSubscriber], None]) -> None:
        """Args:
        window: How long frames may wait; None if never.
        failed: Called from inside the `except` that caught a subscriber's error.
        """
        # Replaced, never changed: the loop over it may meet subscribers that come and go.
        self.subscribers: tuple[IFrameSubscriber, ...] = ()
        self._window = window
        self._failed = failed
        self._waiting: list[LiveFrame] = []
        self._waiting_bytes = 0
        self._timer: IDelayedCall | None = None

    def add(self, subscriber: IFrameSubscriber) -> None:
        """Hand everything that comes from now on to this one too."""
        self.flush()
        self.subscribers = (*self.subscribers, subscriber)

    def remove(self, subscriber: IFrameSubscriber) -> None:
        """Hand it nothing more."""
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

    def push(self, batch: FrameBatch, waited: float, now: float) -> None:
        """Frames came in, which may have waited so long already. This is the frame path."""
        window = self._window
        if window is None:
            self._deliver(batch)
            return
        window.count(batch.count * len(self.subscribers), now)
        if self._waiting:
            self._wait(batch)
        elif window.seconds > waited and batch.size < ENOUGH_BYTES:
            self._timer = window.call_later(window.seconds - waited, self._window_closed)
            self._wait(batch)
        else:
            self._deliver(batch)

    def _wait(self, batch: FrameBatch) -> None:
        self._waiting += batch.frames
        self._waiting_bytes += batch.size
        if self._waiting_bytes >= ENOUGH_BYTES or len(self._waiting) >= ENOUGH_FRAMES:
            self.flush()

    def _window_closed(self) -> None:
        self._timer = None
        self.flush()

    def flush(self) -> None:
        """Hand on what waits."""
        if self._waiting:
            batch = FrameBatch(self._waiting)
            self._forget_waiting()
            self._deliver(batch)

    def _forget_waiting(self) -> None:
        self._waiting = []
        self._waiting_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _deliver(self, batch: FrameBatch) -> None:
        writes: list[tuple[WritesLater, bytes]] = []
        batch.writes = writes
        for subscriber in self.subscribers:
            try:
                subscriber.frames_arrived(batch)
            except Exception:
                self._failed(subscriber)
        batch.writes = None
        for writer, data in writes:
            try:
                writer.write_now(data)
            except Exception:
                self._failed(cast(IFrameSubscriber, writer))
