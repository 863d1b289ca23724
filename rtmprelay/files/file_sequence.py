"""Files that are written one after the other, on a disk that may fail at any moment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import attrs

from rtmprelay.files.backoff import Outage
from rtmprelay.files.disk import WritableFile, attempt, error_name


@attrs.define(eq=False)
class CurrentFile:
    """The file that is being written."""

    file: WritableFile
    #: Whole messages or lines in it. A file without any is deleted when it ends.
    entries: int = attrs.field(init=False, default=0)


@attrs.frozen
class DiskFailure:
    """Why nothing is written."""

    path: Path
    #: Such as ENOSPC.
    error: str
    reason: str

    def __str__(self) -> str:
        return f"{self.error}: {self.reason} ({self.path})"


_C = TypeVar("_C", bound=CurrentFile)


class FileSequence(ABC, Generic[_C]):
    """One writer's files: at most one is open, and the next one is opened after a failure or when the current one ends.

    Everything here happens in the writer's thread; only the attributes may be read in others.

    Args:
        report_failure: Called at the beginning of each outage.

    Attributes:
        failure: Why nothing is written now; None while writing works.
    """

    def __init__(
        self,
        folder: Path,
        outage: Outage,
        monotonic: Callable[[], float],
        report_failure: Callable[[DiskFailure], None],
    ) -> None:
        self._folder = folder
        self._outage = outage
        self._monotonic = monotonic
        self._report_failure = report_failure
        self._current: _C | None = None
        # What the next failure is about, also while no file is open.
        self._last_path = folder
        self.failure: DiskFailure | None = None

    @property
    def path(self) -> Path | None:
        """The file that is being written."""
        current = self._current
        return None if current is None else current.file.path

    def finish(self, reason: str) -> None:
        """Complete the current file as far as the disk allows, or delete it if there is nothing in it."""
        current, self._current = self._current, None
        if current is None:
            return
        if current.entries:
            problem = attempt(lambda: self._complete(current))
            attempt(current.file.close)
            self._finished(current, reason, problem)
        else:
            attempt(lambda: None if current.file.is_deleted() else current.file.delete())
            attempt(current.file.close)

    @abstractmethod
    def _complete(self, current: _C) -> None:
        """Write what belongs at the end of a file, and wait until it is on the disk."""

    @abstractmethod
    def _finished(self, current: _C, reason: str, problem: OSError | None) -> None:
        """A file is closed; `problem` if it could not be completed."""

    def _opened(self, open_file: Callable[[], WritableFile]) -> WritableFile:
        try:
            file = open_file()
        except OSError as error:
            self._last_path = Path(error.filename or self._folder)
            raise
        self._last_path = file.path
        return file

    def _must_wait(self) -> bool:
        return self._outage.error is not None and self._outage.must_wait(self._monotonic())

    def _worked(self) -> None:
        self.failure = None
        if self._outage.error is not None:
            self._outage.worked(self._monotonic())

    def _failed(self, error: OSError) -> None:
        name = error_name(error)
        self.finish(f"the disk failed ({name})")
        self._note_failure(name, error.strerror or str(error))

    def _note_failure(self, error: str, reason: str, retry_at_once: bool = False) -> None:
        self.failure = DiskFailure(self._last_path, error, reason)
        if self._outage.failed(error, self._monotonic(), retry_at_once):
            self._report_failure(self.failure)
