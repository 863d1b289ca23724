"""Files of lines, in which every line is whole whatever the disk does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import attrs
from typing_extensions import override

from rtmprelay.files.backoff import Outage
from rtmprelay.files.disk import WritableFile
from rtmprelay.files.file_sequence import CurrentFile, DiskFailure, FileSequence
from rtmprelay.quantities import MEBIBYTE

#: Bytes that are handed to the system in one call.
_MAX_WRITE = MEBIBYTE


@attrs.frozen(kw_only=True)
class LineSettings:
    """How lines are written, and what that may cost."""

    #: Begin a new file when one would have more bytes than this. Each day begins a new file too.
    max_file_size: int = 64 * MEBIBYTE
    #: Bytes of lines that may wait for the disk: some 50,000 events.
    queue_bytes: int = 16 * MEBIBYTE
    #: Seconds for which lines are gathered for one write. A crash of this process loses as much.
    flush_interval: float = 0.5
    #: Waiting bytes that are written at once.
    flush_bytes: int = MEBIBYTE
    #: Seconds until a disk that failed is tried again; doubled each time, up to `longest_retry`.
    retry_after: float = 1.0
    longest_retry: float = 30.0
    #: Seconds without a failure after which an outage is over.
    recovered_after: float = 10.0
    #: Seconds between two looks at the folder for files to compress or to delete.
    upkeep_interval: float = 600.0
    #: Seconds for which a stopping server waits for the disk.
    stop_timeout: float = 10.0


@attrs.frozen
class Line:
    """One line with its line feed, and when its event happened (seconds since 1970)."""

    time: float
    data: bytes


@attrs.define(eq=False)
class _LineFile(CurrentFile):
    day: int
    size: int = attrs.field(init=False, default=0)


class LineFiles(FileSequence[_LineFile]):
    """Writes lines to files. Whatever the disk does, no line follows a torn one in the same file.

    Args:
        open_file: Opens a file for lines from this time on.
        file_finished: Called with each file that is complete.

    Attributes:
        waiting: Lines that are not written yet.
    """

    def __init__(
        self,
        folder: Path,
        settings: LineSettings,
        open_file: Callable[[float], WritableFile],
        monotonic: Callable[[], float],
        report_failure: Callable[[DiskFailure], None],
        file_finished: Callable[[Path], None] = lambda _: None,
    ) -> None:
        outage = Outage(settings.retry_after, settings.longest_retry, settings.recovered_after)
        super().__init__(folder, outage, monotonic, report_failure)
        self.waiting: deque[Line] = deque()
        self._max_file_size = settings.max_file_size
        self._open_file = open_file
        self._file_finished = file_finished
        self._written = 0

    def write(self, lines: Iterable[Line], last_chance: bool = False) -> int:
        """Add lines, and write all that can be written. Returns how many bytes were written.

        Args:
            last_chance: Do not wait for the time of the next attempt.
        """
        self.waiting.extend(lines)
        if not self.waiting or (self._must_wait() and not last_chance):
            return 0
        self._written = 0
        try:
            self._leave_deleted()
            while self.waiting:
                self._write_run()
        except OSError as error:
            self._failed(error)
        else:
            self._worked()
        return self._written

    def finish_day(self, now: float) -> None:
        """Finish the file if it belongs to an earlier day. The next line begins a new one."""
        if self._current is not None and not self.waiting and day_of(now) > self._current.day:
            self.finish("the day is over")

    def _write_run(self) -> None:
        """Write as many lines in one go as belong to the same file."""
        current = self._file_for(self.waiting[0])
        run: list[bytes] = []
        size = 0
        for line in self.waiting:
            fits = current.size + size + len(line.data) <= self._max_file_size
            if run and (not fits or size > _MAX_WRITE or day_of(line.time) > current.day):
                break
            run.append(line.data)
            size += len(line.data)
        self._append(current, b"".join(run), len(run))

    def _file_for(self, line: Line) -> _LineFile:
        current = self._current
        if current is not None and current.size:
            is_full = current.size + len(line.data) > self._max_file_size
            # A clock that is set back does not reopen a day.
            if is_full or day_of(line.time) > current.day:
                self.finish("the file is full" if is_full else "the day is over")
        if self._current is None:
            file = self._opened(lambda: self._open_file(line.time))
            self._current = _LineFile(file=file, day=day_of(line.time))
        return self._current

    def _append(self, current: _LineFile, data: bytes, count: int) -> None:
        """Write lines. If the disk takes a part of them, what it took of a torn line is removed again."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[current.file.append(rest) :]
        except OSError:
            taken = len(data) - len(rest)
            whole = data.rfind(b"\n", 0, taken) + 1
            self._note_written(current, data.count(b"\n", 0, whole), whole)
            if taken > whole:
                # If this fails too, the torn line is the last one of its file: the next line begins another.
                with suppress(OSError):
                    current.file.truncate(current.size)
            raise
        self._note_written(current, count, len(data))

    def _note_written(self, current: _LineFile, count: int, size: int) -> None:
        current.entries += count
        current.size += size
        self._written += size
        for _ in range(count):
            self.waiting.popleft()

    def _leave_deleted(self) -> None:
        """Close a file whose name or whose folder was removed: nobody would find what is written to it."""
        current = self._current
        if current is not None and current.file.is_deleted():
            self._current = None
            with suppress(OSError):
                current.file.close()

    @override
    def _complete(self, current: _LineFile) -> None:
        current.file.sync()

    @override
    def _finished(self, current: _LineFile, reason: str, problem: OSError | None) -> None:
        self._file_finished(current.file.path)


def day_of(time: float) -> int:
    """The number of a day, in UTC."""
    return int(time // 86400)
