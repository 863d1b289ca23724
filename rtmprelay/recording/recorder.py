"""Queues the frames of one live stream for the writer's thread. The stream never waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from enum import Enum

from twisted.internet.defer import Deferred
from zope.interface import implementer

from rtmprelay.interfaces import IStreamOutput
from rtmprelay.recording.flv_files import FlvFiles
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.recording.status import QUEUE_FULL, RecordingState, RecordingStatus
from rtmprelay.streams.frames import FrameBatch, FrameRole, LiveFrame
from rtmprelay.streams.limits import StreamLimits
from rtmprelay.streams.live_stream import LiveStream


class _Mark(Enum):
    """Something between frames in the queue."""

    WAIT_FOR_KEYFRAME = "wait"
    GAP = "gap"


@implementer(IStreamOutput)
class Recorder:
    """The recording of one stream, for as long as one publisher publishes it.

    The methods of `IStreamOutput` run in the reactor's thread, `work` in the writer's. Between them is a list of
    frames, bounded in bytes and messages; frames that the writer has taken count until they are written.

    Args:
        added: Called with the size of what was queued.
        ended: Called when no frames follow.

    Attributes:
        files: The files that the writer's thread writes.
        finished: Fires, in the reactor's thread, when the last file is complete.
    """

    def __init__(
        self,
        stream: LiveStream,
        files: FlvFiles,
        settings: RecordingSettings,
        added: Callable[[int], None],
        ended: Callable[[], None],
    ) -> None:
        self.stream = stream
        self.files = files
        self.finished: Deferred[None] = Deferred()
        self._settings = settings
        self._added = added
        self._ended = ended
        self._lock = threading.Lock()
        self._pending: list[LiveFrame | _Mark] = []
        self._bytes = 0
        self._messages = 0
        self._messages_in = 0
        self._lost = files.lost
        # Not None while frames are dropped: the decoder configuration that has come since.
        self._late_startup: dict[Hashable, LiveFrame] | None = None
        self._end_reason: str | None = None

    # -- in the reactor's thread -----------------------------------------------------------------------------

    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        frames: list[LiveFrame | _Mark] = list(startup)
        self._messages_in += len(frames)
        self._put(frames, len(frames), sum(frame.size for frame in startup))
        if wait_for_keyframe:
            self._put([_Mark.WAIT_FOR_KEYFRAME], 0, 0)

    def frames_arrived(self, batch: FrameBatch) -> None:
        self._messages_in += batch.count
        if self._late_startup is None and self._has_room(batch.size, batch.count):
            self._put(batch.frames, batch.count, batch.size)
        else:
            for frame in batch.frames:
                self._take_or_drop(frame)

    def write(self, data: bytes) -> None:
        """Never called: `frames_arrived` returns nothing to write."""

    def publisher_left(self) -> None:
        """The manager ends this recording."""

    def publisher_returned(self) -> None:
        """Never called: a publisher that returns gets a new recorder."""

    def end(self, reason: str) -> None:
        """Complete the file with what is queued. No frames follow."""
        # Before the reason: the writer reports the account as soon as it sees the reason.
        self._lost.drop(QUEUE_FULL, len(self._late_startup or ()))
        self._late_startup = None
        self._end_reason = reason
        self._ended()

    def _has_room(self, size: int, count: int) -> bool:
        settings = self._settings
        return (
            self._bytes + size <= settings.queue_bytes and self._messages + count <= settings.queue_messages
        )

    def _put(self, frames: Sequence[LiveFrame | _Mark], count: int, size: int) -> None:
        with self._lock:
            self._pending.extend(frames)
            self._bytes += size
            self._messages += count
        self._added(size)

    def _take_or_drop(self, frame: LiveFrame) -> None:
        """The queue is full, or was: resume at a keyframe when half of it is free."""
        if self._late_startup is None:
            if self._has_room(frame.size, 1):
                self._put((frame,), 1, frame.size)
                return
            self._late_startup = {}
            self._put((_Mark.GAP,), 0, 0)
        if frame.role is FrameRole.STARTUP and len(self._late_startup) < StreamLimits().startup_frames:
            replaced = self._late_startup.pop(frame.startup_key, None)
            self._late_startup[frame.startup_key] = frame
            self._lost.drop(QUEUE_FULL, 0 if replaced is None else 1)
        elif self._may_resume(frame):
            late, self._late_startup = list(self._late_startup.values()), None
            self._put((*late, frame), len(late) + 1, sum(one.size for one in late) + frame.size)
        else:
            self._lost.drop(QUEUE_FULL)

    def _may_resume(self, frame: LiveFrame) -> bool:
        settings = self._settings
        if self._bytes * 2 > settings.queue_bytes or self._messages * 2 > settings.queue_messages:
            return False
        if self.stream.video_codec is None:
            return frame.role is FrameRole.AUDIO
        return frame.role is FrameRole.KEYFRAME

    @property
    def bytes_queued(self) -> int:
        """Bytes that wait for the disk."""
        return self._bytes

    def status(self) -> RecordingStatus:
        files, lost = self.files, self._lost
        path = files.path
        state = RecordingState.WAITING if path is None else RecordingState.RECORDING
        return RecordingStatus(
            stream=self.stream.key,
            state=state if files.failure is None else RecordingState.FAILING,
            path=None if path is None else str(path),
            segment=files.segment,
            bytes=files.size,
            duration=files.duration,
            bytes_written=files.account.bytes,
            messages_in=self._messages_in,
            messages_written=files.account.written,
            messages_dropped=files.account.dropped + lost.dropped,
            messages_queued=self._messages + len(self._late_startup or ()),
            bytes_queued=self._bytes,
            dropped_by_reason=files.dropped_by_reason(),
            last_error=None if files.failure is None else str(files.failure),
        )

    # -- in the writer's thread ------------------------------------------------------------------------------

    def work(self) -> bool:
        """Write what is queued. Returns whether the recording has ended with it."""
        # Read before the queue: no frame is queued after the end.
        reason = self._end_reason
        with self._lock:
            items, self._pending = self._pending, []
            size, count = self._bytes, self._messages
        try:
            self._write(items)
        finally:
            with self._lock:
                self._bytes -= size
                self._messages -= count
        if reason is not None:
            self.files.finish(reason)
        return reason is not None

    def _write(self, items: list[LiveFrame | _Mark]) -> None:
        run: list[LiveFrame] = []
        for item in items:
            if isinstance(item, LiveFrame):
                run.append(item)
                continue
            self.files.write(run)
            run = []
            if item is _Mark.GAP:
                self.files.skip()
            else:
                self.files.wait_for_keyframe()
        self.files.write(run)
