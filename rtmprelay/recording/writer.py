"""Writes all recordings of a relay, in the writer's thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from twisted.logger import Logger
from twisted.python.failure import Failure

from rtmprelay.events import RecordingDeleted, RecordingEvent
from rtmprelay.files.writer_thread import CallInReactor
from rtmprelay.recording.recorder import Recorder
from rtmprelay.recording.retention import delete_old
from rtmprelay.recording.settings import RecordingSettings


class RecordingWriter:
    """Empties the queues of all recorders, and deletes old recordings."""

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
        # Replaced, never changed: the other thread may be iterating over it.
        self._recorders: tuple[Recorder, ...] = ()
        self._recorders_lock = threading.Lock()
        self._work_lock = threading.Lock()
        self._next_look = 0.0

    def add(self, recorder: Recorder) -> None:
        """Write what this recorder queues, until it ends. Called in the reactor's thread."""
        with self._recorders_lock:
            self._recorders = (*self._recorders, recorder)

    def work(self) -> float | None:
        # A manager that was stopped and started has a new thread while the old one may still be at work.
        with self._work_lock:
            self._write_all()
            if not self._settings.has_retention:
                return None
            if self._monotonic() >= self._next_look:
                self._next_look = self._monotonic() + self._settings.retention_interval
                self._delete_old()
        return self._settings.retention_interval

    def finish(self) -> None:
        self.work()

    def _write_all(self) -> None:
        for recorder in self._recorders:
            try:
                ended = recorder.work()
            except Exception:
                # A bug in one recording must not cost the others.
                self._log_failure("The recording of {stream} failed", recorder.stream.key)
                ended = True
                with suppress(Exception):
                    recorder.files.finish("an error in the program")
            if ended:
                self._remove(recorder)

    def _remove(self, recorder: Recorder) -> None:
        with self._recorders_lock:
            self._recorders = tuple(other for other in self._recorders if other is not recorder)
        # A finished file may be one too many: look at once.
        self._next_look = 0.0
        self._call_in_reactor(recorder.finished.callback, None)

    def _delete_old(self) -> None:
        settings = self._settings
        paths = {recorder.files.path for recorder in self._recorders}
        active = {path for path in paths if path is not None}
        try:
            deleted = delete_old(
                settings.folder,
                active,
                self._wall_clock(),
                settings.keep,
                settings.max_total_size,
                app_quotas=settings.app_quotas,
            )
        except Exception:
            self._log_failure("Old recordings cannot be deleted")
            return
        for file in deleted:
            self._report(RecordingDeleted(path=str(file.path), bytes=file.bytes, reason=file.reason))

    def _log_failure(self, message: str, stream: str | None = None) -> None:
        failure = Failure()
        self._call_in_reactor(lambda: self._log.failure(message, failure, stream=stream))
