"""The thread that writes all recordings of a relay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from twisted.logger import Logger
from twisted.python.failure import Failure

from rtmprelay.events import RecordingDeleted, RecordingEvent
from rtmprelay.recording.recorder import Recorder
from rtmprelay.recording.retention import delete_old
from rtmprelay.recording.settings import RecordingSettings

#: Runs a function in the reactor's thread.
CallInReactor = Callable[..., object]


class RecordingWriter:
    """Does all that touches the disk, in `work`: whoever calls it chooses the thread."""

    _log = Logger()

    def __init__(
        self,
        settings: RecordingSettings,
        call_in_reactor: CallInReactor,
        report: Callable[[RecordingEvent], None],
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._call_in_reactor = call_in_reactor
        self._report = report
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        # Replaced, never changed: the other thread may be looping over it.
        self._recorders: tuple[Recorder, ...] = ()
        self._lock = threading.Lock()
        self._working = threading.Lock()
        self._next_look = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to write."""
        return not self._recorders

    def add(self, recorder: Recorder) -> None:
        """Write what this one has, from now on."""
        with self._lock:
            self._recorders = (*self._recorders, recorder)

    def work(self) -> None:
        """Write everything that waits, once."""
        # A manager that starts again has a new thread while the one before may still be at its last round.
        with self._working:
            self._work()

    def _work(self) -> None:
        for recorder in self._recorders:
            try:
                over = recorder.work()
            except Exception:
                # A bug of ours must not cost the other recordings.
                self._call_in_reactor(self._tell_failure, Failure(), recorder.stream.key)
                over = True
                with suppress(Exception):
                    recorder.files.finish("an error in the program")
            if over:
                self._remove(recorder)
        if self._settings.has_retention and self._monotonic() >= self._next_look:
            self._next_look = self._monotonic() + self._settings.retention_interval
            try:
                self._delete_old()
            except Exception:
                self._call_in_reactor(self._tell_failure, Failure(), "old files")

    def _remove(self, recorder: Recorder) -> None:
        with self._lock:
            self._recorders = tuple(other for other in self._recorders if other is not recorder)
        # A file is finished: what is too much is too much now.
        self._next_look = 0.0
        self._call_in_reactor(recorder.finished.callback, None)

    def _tell_failure(self, failure: Failure, stream: str) -> None:
        self._log.failure("The recording of {stream} failed", failure, stream=stream)

    def _delete_old(self) -> None:
        settings = self._settings
        active = {recorder.files.path for recorder in self._recorders}
        for deleted in delete_old(
            settings.folder,
            {path for path in active if path is not None},
            self._wall_clock(),
            settings.keep,
            settings.max_total_size,
        ):
            self._report(RecordingDeleted(path=str(deleted.path), bytes=deleted.bytes, reason=deleted.reason))


class WriterThread:
    """Lets a writer work in a thread of its own, a few times a second, or at once when much waits.

    One for all recordings: they share a disk, so that more threads would only fight for it and for the interpreter;
    and while one waits for the disk, frames of all streams wait in queues that are bounded for each.
    """

    def __init__(self, writer: RecordingWriter, settings: RecordingSettings) -> None:
        self._writer = writer
        self._settings = settings
        self._condition = threading.Condition()
        self._urgent = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        # Only a hint for when to hurry; both threads touch it without a lock.
        self._waiting = 0

    def start(self) -> None:
        """Begin to work, if that has not happened yet."""
        if self._thread is None:
            self._stopping = False
            # A disk that hangs must not keep the process from ending.
            self._thread = threading.Thread(target=self._run, name="rtmprelay-recording", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Work once more, and end. Does not wait."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self._thread = None

    def added(self, size: int) -> None:
        """So many bytes more wait."""
        self._waiting += size
        if self._waiting >= self._settings.flush_bytes and not self._urgent:
            self.hurry()

    def hurry(self) -> None:
        """Work now."""
        with self._condition:
            self._urgent = True
            self._condition.notify()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            with self._condition:
                if not self._urgent and not self._stopping:
                    self._condition.wait(self._patience())
                self._urgent = False
                stopping = self._stopping
            self._waiting = 0
            self._writer.work()

    def _patience(self) -> float | None:
        if not self._writer.is_idle:
            return self._settings.flush_interval
        return self._settings.retention_interval if self._settings.has_retention else None
