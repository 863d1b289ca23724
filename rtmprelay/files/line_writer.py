"""Lines on their way from the reactor's thread to files: a bounded queue, and a thread that empties it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from twisted.internet.defer import Deferred, TimeoutError, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from rtmprelay.files.line_files import Line, LineFiles, LineSettings
from rtmprelay.files.writer_thread import CallInReactor, WriterThread, call_directly


class LineQueue:
    """Lines for the writer's thread, bounded in bytes. Lines that the writer has taken count until they are written."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._lines: list[Line] = []
        #: Bytes that wait.
        self.size = 0

    def put(self, line: Line, even_if_full: bool = False) -> bool:
        """Add a line; False if there is no room for it."""
        with self._lock:
            if self.size + len(line.data) > self._max_bytes and not even_if_full:
                return False
            self._lines.append(line)
            self.size += len(line.data)
        return True

    def take(self) -> list[Line]:
        with self._lock:
            lines, self._lines = self._lines, []
        return lines

    def written(self, size: int) -> None:
        """This many bytes of the lines that were taken are on the disk."""
        with self._lock:
            self.size -= size

    @property
    def has_room(self) -> bool:
        """Whether at least half of it is free."""
        return 2 * self.size <= self._max_bytes


class FolderUpkeep(Protocol):
    """Does something with finished files, a little at a time, while no lines wait."""

    def step(self, active: Path | None) -> bool:
        """Do one step. Returns whether there is more to do now. `active` is the file that is being written."""

    def close(self) -> None:
        """The server stops."""


class LineWriter:
    """Writes lines from the reactor's thread to files, and never lets the reactor wait for a disk.

    It is used from one start to one end: a thread that hangs on its disk may still use it when the next one starts.

    Args:
        path: The file or folder, for log lines.
        call_in_reactor: None for no thread: tests call `work` themselves.
        report_lost: Called in the reactor's thread with the number of lines that found no room, once there is room again.

    Attributes:
        lost: Lines that found no room and are not reported yet.
    """

    _log = Logger()

    def __init__(
        self,
        path: Path,
        files: LineFiles,
        settings: LineSettings,
        clock: IReactorTime,
        wall_clock: Callable[[], float],
        call_in_reactor: CallInReactor | None,
        report_lost: Callable[[int], None],
        upkeep: FolderUpkeep | None = None,
    ) -> None:
        self._path = str(path)
        self._files = files
        self._settings = settings
        self._clock = clock
        self._wall_clock = wall_clock
        self._call_in_reactor = call_in_reactor
        self._report_lost = report_lost
        self._upkeep = upkeep
        self._queue = LineQueue(settings.queue_bytes)
        self._unwritten = 0
        self._finished: Deferred[None] = Deferred()
        self.lost = 0
        self._thread = WriterThread(
            "rtmprelay-event-log", self, settings.flush_interval, settings.flush_bytes, self._thread_ended
        )

    # -- in the reactor's thread -----------------------------------------------------------------------------

    def start(self) -> None:
        if self._call_in_reactor is not None:
            self._thread.start()

    def put(self, line: Line, even_if_full: bool = False) -> None:
        """Queue a line. If there is no room for it, it is lost and counted."""
        if self._queue.put(line, even_if_full):
            self._thread.added(len(line.data))
            return
        self.lost += 1
        if self.lost == 1:
            self._log.warn(
                "The disk of {path} cannot keep up: events are lost from now on, and counted", path=self._path
            )

    def stop(self, lost_line: Callable[[int], Line]) -> Deferred[None]:
        """Write the rest; fires when the file is complete, or after `stop_timeout`.

        Args:
            lost_line: Makes the last line if lines were lost, from their number.
        """
        lost = self._take_lost()
        if lost:
            self.put(lost_line(lost), even_if_full=True)
        if self._call_in_reactor is None:
            self.finish()
            self._ended(None)
            return succeed(None)
        self._thread.stop()
        return self._finished.addTimeout(self._settings.stop_timeout, self._clock).addErrback(
            self._report_timeout
        )

    def _take_lost(self) -> int:
        lost, self.lost = self.lost, 0
        return lost

    def _report_room(self) -> None:
        lost = self._take_lost()
        if lost:
            self._report_lost(lost)

    def _ended(self, failure: Failure | None) -> None:
        if failure is not None:
            self._log.failure("A bug: no more events are written to {path}", failure, path=self._path)
        if self._unwritten:
            self._log.warn(
                "The last {count} events are not in {path}: its disk did not take them",
                count=self._unwritten,
                path=self._path,
            )
        if not self._finished.called:
            self._finished.callback(None)

    def _report_timeout(self, failure: Failure) -> None:
        failure.trap(TimeoutError)
        self._log.warn(
            "{path} was not completed within {timeout:g} s: its disk does not answer",
            path=self._path,
            timeout=self._settings.stop_timeout,
        )

    # -- in the writer's thread ------------------------------------------------------------------------------

    def work(self) -> float | None:
        # First the lines, then the end of the day: otherwise lines of the old day would get a file of their own.
        self._write()
        self._files.finish_day(self._wall_clock())
        has_more = self._upkeep is not None and self._upkeep.step(self._files.path)
        if self.lost and self._queue.has_room:
            self._in_reactor(self._report_room)
        if has_more:
            return 0
        return self._settings.flush_interval if self._files.waiting else self._settings.upkeep_interval

    def finish(self) -> None:
        self._write(last_chance=True)
        self._files.finish("the server stops")
        if self._upkeep is not None:
            self._upkeep.close()
        waiting = self._files.waiting
        self._unwritten = len(waiting)
        self._queue.written(sum(len(line.data) for line in waiting))
        waiting.clear()

    def _write(self, last_chance: bool = False) -> None:
        self._queue.written(self._files.write(self._queue.take(), last_chance))

    def _thread_ended(self, failure: Failure | None) -> None:
        self._in_reactor(self._ended, failure)

    def _in_reactor(self, function: Callable[..., object], *arguments: object) -> None:
        (self._call_in_reactor or call_directly)(function, *arguments)
