"""The demo's encoder: sends the test card at the pace of a live stream, and remembers what it sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from rtmprelay.demo.tape import SentTape
from rtmprelay.media import MediaFrame

#: A shorter wait, in seconds, is not worth a timer.
_MIN_WAIT = 0.0005


class Source:
    """Sends each frame when its timestamp is due.

    Attributes:
        tape: What was sent.
    """

    def __init__(
        self,
        clock: IReactorTime,
        frames: Iterator[MediaFrame],
        send: Callable[[MediaFrame], None],
        seconds: float | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            seconds: The length of the stream to send; None for all of it.
            on_end: Called after the last frame.
        """
        self.tape = SentTape()
        self._clock = clock
        self._frames = frames
        self._send = send
        self._seconds = seconds
        self._on_end = on_end
        self._began = 0.0
        self._next: MediaFrame | None = None
        self._timer: IDelayedCall | None = None

    @property
    def seconds(self) -> float:
        """Seconds since `start`; 0 before it."""
        return self._clock.seconds() - self._began if self._began else 0.0

    def start(self) -> None:
        self._began = self._clock.seconds()
        self._next = next(self._frames, None)
        self._send_what_is_due()

    def stop(self) -> None:
        """Send nothing more; `on_end` is not called."""
        self._next = None
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _send_what_is_due(self) -> None:
        while self._next is not None:
            due = self._next.timestamp_ms / 1000
            if self._seconds is not None and due >= self._seconds:
                break
            wait = due - self.seconds
            if wait > _MIN_WAIT:
                self._timer = self._clock.callLater(wait, self._send_what_is_due)
                return
            self.tape.add(self._next, self._clock.seconds())
            self._send(self._next)
            self._next = next(self._frames, None)
        self.stop()
        self._on_end()
