"""Writes the segments of all streams to a disk, in a thread. A disk that is full or slow costs the window, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from rtmprelay.files.disk import attempt
from rtmprelay.files.writer_thread import CallInReactor, WriterThread

#: Seconds for which work is gathered, and bytes that are written at once.
_FLUSH_INTERVAL = 0.2
_FLUSH_BYTES = 4 * 1024 * 1024

#: Bytes that may wait for the disk. What is over that is not written.
_MOST_WAITING = 64 * 1024 * 1024

#: Seconds between two warnings.
_QUIET = 60.0


@attrs.frozen
class _Job:
    """Something to do to files; `done` is told in the reactor whether it succeeded."""

    act: Callable[[], None]
    size: int
    done: Callable[[bool], object] | None = None


class SegmentWriter:
    """Does in a thread what is asked for, in order.

    Args:
        call_in_reactor: None for no thread: everything is done at once.
        monotonic: The seconds that warnings are counted with.
    """

    _log = Logger()

    def __init__(self, call_in_reactor: CallInReactor | None, monotonic: Callable[[], float]) -> None:
        self._call_in_reactor = call_in_reactor
        self._monotonic = monotonic
        self._jobs: deque[_Job] = deque()
        self._waiting = 0
        self._warned_at: float | None = None
        self._thread: WriterThread | None = None
        self._stopped: Deferred[None] | None = None

    # -- in the reactor's thread -----------------------------------------------------------------------------

    def write(self, path: Path, data: bytes, done: Callable[[bool], object] | None = None) -> None:
        """Write a whole file."""
        self._add(_Job(lambda: _write_file(path, data), len(data), done))

    def append(self, path: Path, data: bytes) -> None:
        self._add(_Job(lambda: _append(path, data), len(data)))

    def delete(self, path: Path) -> None:
        self._add(_Job(lambda: path.unlink(missing_ok=True), 0))

    def delete_folder(self, path: Path) -> None:
        self._add(_Job(lambda: shutil.rmtree(path, ignore_errors=True), 0))

    def stop(self) -> Deferred[None]:
        """Finish what was asked for, and end the thread; fires when that is done."""
        stopped: Deferred[None] = Deferred()
        thread, self._thread = self._thread, None
        if thread is None:
            stopped.callback(None)
        else:
            self._stopped = stopped
            thread.stop()
        return stopped

    def _add(self, job: _Job) -> None:
        if self._waiting + job.size > _MOST_WAITING:
            if job.done is not None:
                job.done(False)
            return
        self._waiting += job.size
        self._jobs.append(job)
        if self._call_in_reactor is None:
            self.work()
            return
        if self._thread is None:
            self._thread = WriterThread("rtmprelay-hls", self, _FLUSH_INTERVAL, _FLUSH_BYTES, self._ended)
            self._thread.start()
        self._thread.added(job.size)

    # -- in the writer's thread ------------------------------------------------------------------------------

    def work(self) -> float | None:
        while self._jobs:
            job = self._jobs.popleft()
            error = attempt(job.act)
            if error is not None:
                self._warn(error)
            self._tell(self._finished, job, error is None)
        return None

    def finish(self) -> None:
        self.work()

    def _finished(self, job: _Job, succeeded: bool) -> None:
        self._waiting -= job.size
        if job.done is not None:
            job.done(succeeded)

    def _tell(self, function: Callable[..., object], *arguments: object) -> None:
        if self._call_in_reactor is None:
            function(*arguments)
        else:
            self._call_in_reactor(function, *arguments)

    def _warn(self, error: OSError) -> None:
        now = self._monotonic()
        if self._warned_at is None or now - self._warned_at >= _QUIET:
            self._warned_at = now
            self._tell(self._log_warning, str(error))

    def _log_warning(self, error: str) -> None:
        self._log.warn(
            "A segment of HLS cannot be written, and viewers cannot go back as far: {error}", error=error
        )

    def _ended(self, failure: Failure | None) -> None:
        if failure is not None:
            self._tell(self._log.failure, "A bug: no segments of HLS are written any more", failure)
        self._tell(self._tell_stopped)

    def _tell_stopped(self) -> None:
        stopped, self._stopped = self._stopped, None
        if stopped is not None:
            stopped.callback(None)


def _write_file(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("wb") as file:
            file.write(data)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _append(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
