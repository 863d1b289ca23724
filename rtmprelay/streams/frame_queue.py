"""A bounded queue of frames for a consumer whose transport is full.

When the queue is full it drops video up to a keyframe, so that what is delivered always decodes; audio is kept while it
fits; of metadata and decoder configuration the latest of each kind is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice, takewhile

from rtmprelay.media import milliseconds_between
from rtmprelay.streams.accounting import DeliveryAccount, DropReason
from rtmprelay.streams.frames import FrameRole, LiveFrame
from rtmprelay.streams.limits import QueueLimits

#: More decoder configuration in a row than this makes no sense, and looking past it would cost too much.
_MOST_STARTUP_FRAMES_IN_A_ROW = 256


def _is_video(frame: LiveFrame) -> bool:
    return frame.role is FrameRole.KEYFRAME or frame.role is FrameRole.INTER


def _first_timed(frames: Iterable[LiveFrame]) -> LiveFrame | None:
    """The first audio or video frame: metadata, decoder configuration and data may have any timestamp."""
    for frame in islice(frames, _MOST_STARTUP_FRAMES_IN_A_ROW):
        if frame.role <= FrameRole.AUDIO:
            return frame
    return None


class FrameQueue:
    """Frames in order. Each one that does not come out again is in the account with its reason."""

    def __init__(self, limits: QueueLimits, account: DeliveryAccount) -> None:
        self._limits = limits
        self._max_bytes = limits.max_bytes
        self._account = account
        # What a late joiner got from the startup cache goes out first. The cache's bounds hold for it, not these.
        self._startup: deque[LiveFrame] = deque()
        self._frames: deque[LiveFrame] = deque()
        self._bytes = 0
        self._is_waiting = False
        # The timestamp of the first frame that was dropped because of that.
        self._waiting_since: int | None = None

    def __len__(self) -> int:
        return len(self._startup) + len(self._frames)

    @property
    def bytes_queued(self) -> int:
        return self._bytes

    @property
    def is_waiting_for_keyframe(self) -> bool:
        """Whether video is dropped until a keyframe comes."""
        return self._is_waiting

    def wait_for_keyframe(self) -> None:
        """Drop video until a keyframe comes. An earlier wait does not count: it may be long ago."""
        self._is_waiting = True
        self._waiting_since = None

    def begin(self, startup: Iterable[LiveFrame], wait_for_keyframe: bool = False) -> None:
        """Put in what a late joiner needs first."""
        if wait_for_keyframe:
            self.wait_for_keyframe()
        else:
            self._is_waiting = False
        for frame in startup:
            self._account.messages_in += 1
            self._startup.append(frame)

    def push(self, frame: LiveFrame) -> None:
        """Put a live frame in, and make room if the queue is too full then."""
        account = self._account
        account.messages_in += 1
        if self._is_waiting:
            if frame.role is FrameRole.INTER and not self._waited_enough(frame):
                account.dropped(DropReason.WAITING_FOR_KEYFRAME, frame.size)
                return
            if _is_video(frame):
                self._is_waiting = False
        self._frames.append(frame)
        self._bytes += frame.size
        if self._too_full():
            self._make_room()

    def _waited_enough(self, frame: LiveFrame) -> bool:
        """Streams with intra refresh have no second keyframe: after the longest wait any frame will do."""
        if self._waiting_since is None:
            self._waiting_since = frame.frame.timestamp_ms
        waited = milliseconds_between(self._waiting_since, frame.frame.timestamp_ms)
        return waited > self._limits.max_keyframe_wait_ms

    def take(self, max_bytes: int) -> list[LiveFrame]:
        """Take frames out, in order: at least one, and no more once they have `max_bytes`.

        A larger frame comes alone, so that all receivers can share its encoded bytes.
        """
        taken: list[LiveFrame] = []
        size = 0
        while size < max_bytes:
            frames = self._startup or self._frames
            if not frames or (taken and frames[0].size > max_bytes):
                break
            frame = frames.popleft()
            if frames is self._frames:
                self._bytes -= frame.size
            size += frame.size
            taken.append(frame)
        return taken

    def clear(self, reason: DropReason) -> None:
        for frame in (*self._startup, *self._frames):
            self._account.dropped(reason, frame.size)
        self._startup.clear()
        self._frames.clear()
        self._bytes = 0

    def shrink(self, size: int) -> None:
        """Drop what is over so many bytes now, as if that were the bound."""
        self._max_bytes = min(size, self._limits.max_bytes)
        try:
            if self._too_full():
                self._make_room()
        finally:
            self._max_bytes = self._limits.max_bytes

    # -- making room -----------------------------------------------------------------------------------------

    def _too_full(self) -> bool:
        limits = self._limits
        if self._bytes > self._max_bytes or len(self._frames) > limits.max_frames:
            return True
        oldest, newest = _first_timed(self._frames), _first_timed(reversed(self._frames))
        if oldest is None or newest is None:
            return len(self._frames) > _MOST_STARTUP_FRAMES_IN_A_ROW
        return milliseconds_between(oldest.frame.timestamp_ms, newest.frame.timestamp_ms) > limits.max_ms

    def _make_room(self) -> None:
        self._count_startup()
        self._drop_superseded()
        keyframe = self._newest_keyframe()
        if keyframe is not None and self._fits_from(keyframe):
            self._drop_video_before(keyframe)
        else:
            self._drop_all_video()
        while self._frames and self._too_full():
            if not self._drop_oldest_audio_before_video() and not self._drop_all_video():
                self.clear(DropReason.QUEUE_FULL)

    def _count_startup(self) -> None:
        """From now on, treat what is left of the startup frames like all others."""
        self._bytes += sum(frame.size for frame in self._startup)
        self._startup.extend(self._frames)
        self._frames, self._startup = self._startup, deque()

    def _newest_keyframe(self) -> LiveFrame | None:
        return next((frame for frame in reversed(self._frames) if frame.role is FrameRole.KEYFRAME), None)

    def _fits_from(self, keyframe: LiveFrame) -> bool:
        """Whether this keyframe and all frames after it can stay, if the audio before it goes."""
        frames = list(self._frames)
        begin = frames.index(keyframe)
        kept = [frame for frame in frames[:begin] if frame.role is FrameRole.STARTUP] + frames[begin:]
        newest = next(frame for frame in reversed(kept) if frame.role <= FrameRole.AUDIO)
        limits = self._limits
        return (
            sum(frame.size for frame in kept) <= self._max_bytes
            and len(kept) <= limits.max_frames
            and milliseconds_between(keyframe.frame.timestamp_ms, newest.frame.timestamp_ms) <= limits.max_ms
        )

    def _drop_video_before(self, keyframe: LiveFrame) -> None:
        reached = False

        def superfluous(frame: LiveFrame) -> bool:
            nonlocal reached
            reached = reached or frame is keyframe
            return not reached and _is_video(frame)

        self._drop_where(superfluous)

    def _drop_all_video(self) -> bool:
        """Drop all video and wait for the next keyframe; False if there was none."""
        dropped = self._drop_where(_is_video)
        if dropped:
            self.wait_for_keyframe()
        return dropped

    def _drop_superseded(self) -> None:
        """Of each kind of startup frame, keep the latest."""
        latest = {frame.startup_key: frame for frame in self._frames if frame.role is FrameRole.STARTUP}
        self._drop_where(
            lambda frame: frame.role is FrameRole.STARTUP and latest[frame.startup_key] is not frame
        )

    def _drop_oldest_audio_before_video(self) -> bool:
        """Drop a quarter of it: one frame at a time, each push to a stalled consumer would cost a pass over the queue."""
        waiting = [
            frame
            for frame in takewhile(lambda frame: not _is_video(frame), self._frames)
            if frame.role is not FrameRole.STARTUP
        ]
        oldest = set(waiting[: len(waiting) // 4 + 1])
        return self._drop_where(lambda frame: frame in oldest)

    def _drop_where(self, superfluous: Callable[[LiveFrame], bool]) -> bool:
        kept: deque[LiveFrame] = deque()
        for frame in self._frames:
            if superfluous(frame):
                self._drop(frame)
            else:
                kept.append(frame)
        dropped = len(kept) < len(self._frames)
        self._frames = kept
        return dropped

    def _drop(self, frame: LiveFrame) -> None:
        self._bytes -= frame.size
        self._account.dropped(DropReason.QUEUE_FULL, frame.size)
