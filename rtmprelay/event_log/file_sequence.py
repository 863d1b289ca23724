"""The files of an event log, one after the other. Whatever happens, no line is ever written behind a torn one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import attrs

from rtmprelay.event_log.disk import EventFile, OpenFile, name_of
from rtmprelay.event_log.names import day_of
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.events import EventLogEvent, EventLogFailed

#: Bytes that are handed to the system at a time.
_LARGEST_WRITE = 1024 * 1024


@attrs.frozen
class Line:
    """One line, and when what it tells happened."""

    time: float
    data: bytes


@attrs.define(eq=False)
class _Current:
    path: Path
    file: EventFile
    day: int
    size: int = 0


class FileSequence:
    """Writes lines to files. A failure is told once, the lines wait, and a new file is tried later and later.

    Attributes:
        waiting: Lines that are to be written.
    """

    def __init__(
        self,
        folder: Path,
        settings: EventLogSettings,
        open_file: OpenFile,
        monotonic: Callable[[], float],
        report: Callable[[EventLogEvent], None],
        finished: Callable[[Path], None],
    ) -> None:
        """Args:
        finished: Told of each file that is complete.
        """
        self.waiting: deque[Line] = deque()
        self._folder = folder
        self._settings = settings
        self._open_file = open_file
        self._monotonic = monotonic
        self._report = report
        self._finished = finished
        self._current: _Current | None = None
        self._written = 0
        # An outage goes on until nothing has failed for a while.
        self._failing = False
        self._delay = 0.0
        self._retry_at = self._failed_at = 0.0

    @property
    def path(self) -> Path | None:
        """The file that is being written."""
        return None if self._current is None else self._current.path

    def write(self, lines: Iterable[Line], last_chance: bool = False) -> int:
        """Take lines, and write all that can be written; how many bytes that was.

        Args:
            last_chance: Do not wait for the time of the next attempt.
        """
        self.waiting.extend(lines)
        if not self.waiting or (self._failing and not last_chance and self._monotonic() < self._retry_at):
            return 0
        self._written = 0
        try:
            self._leave_deleted()
            while self.waiting:
                self._write_run()
        except OSError as error:
            self._fail(error)
        else:
            self._worked()
        return self._written

    def day_is_over(self, now: float) -> None:
        """Finish the file if it is of a day before; lines that are to come get a new one."""
        if self._current is not None and not self.waiting and day_of(now) > self._current.day:
            self.finish()

    def finish(self) -> None:
        """Complete the current file."""
        current, self._current = self._current, None
        if current is None:
            return
        with suppress(OSError):
            if current.size:
                current.file.sync()
            elif not current.file.is_deleted():
                current.file.delete()
        with suppress(OSError):
            current.file.close()
        if current.size:
            self._finished(current.path)

    # -- one write -------------------------------------------------------------------------------------------

    def _write_run(self) -> None:
        """Write as many lines at once as belong to the same file."""
        current = self._file_for(self.waiting[0])
        run: list[bytes] = []
        size = 0
        for line in self.waiting:
            fits = current.size + size + len(line.data) <= self._settings.max_file_size
            if run and (not fits or size > _LARGEST_WRITE or day_of(line.time) > current.day):
                break
            run.append(line.data)
            size += len(line.data)
        self._append(current, b"".join(run), len(run))

    def _file_for(self, line: Line) -> _Current:
        current = self._current
        if current is not None and current.size:
            full = current.size + len(line.data) > self._settings.max_file_size
            # A clock that is set back does not reopen a day.
            if full or day_of(line.time) > current.day:
                self.finish()
        if self._current is None:
            path, file = self._open_file(self._folder, line.time)
            self._current = _Current(path, file, day_of(line.time))
        return self._current

    def _append(self, current: _Current, data: bytes, lines: int) -> None:
        """Write lines as a whole. If the disk takes a part, what is left of the last line is removed again."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[current.file.append(rest) :]
        except OSError:
            taken = len(data) - len(rest)
            whole = data.rfind(b"\n", 0, taken) + 1
            self._drop_written(data.count(b"\n", 0, whole))
            current.size += whole
            if taken > whole:
                # If that fails too, a torn line is the last one of its file: the next one begins another.
                with suppress(OSError):
                    current.file.truncate(current.size)
            raise
        current.size += len(data)
        self._drop_written(lines)

    def _drop_written(self, count: int) -> None:
        for _ in range(count):
            self._written += len(self.waiting.popleft().data)

    def _leave_deleted(self) -> None:
        """Somebody removed the file, or the whole folder: what is written there would be lost."""
        current = self._current
        if current is not None and current.file.is_deleted():
            self._current = None
            with suppress(OSError):
                current.file.close()

    # -- failures --------------------------------------------------------------------------------------------

    def _fail(self, error: OSError) -> None:
        path = self.path or Path(error.filename or self._folder)
        self.finish()
        now = self._monotonic()
        settings = self._settings
        is_news = not self._failing
        self._delay = settings.retry_after if is_news else min(2 * self._delay, settings.longest_retry)
        self._failing = True
        self._failed_at, self._retry_at = now, now + self._delay
        if is_news:
            reason = error.strerror or str(error)
            self._report(EventLogFailed(path=str(path), error=name_of(error), reason=reason))

    def _worked(self) -> None:
        if self._failing and self._monotonic() - self._failed_at >= self._settings.recovered_after:
            self._failing = False
