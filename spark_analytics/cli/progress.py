"""Shows how far a job is: a bar on a terminal, a line elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BAR_WIDTH = 40

#: Seconds between two looks.
_INTERVAL = 0.2

#: Who waits for longer than so many seconds is told what for.
PATIENCE = 1.0


class Progress:
    """What goes on, for people who wait. Nothing is shown of a question that is answered at once."""

    def __init__(self, out: TextIO, patience: float = 0.0) -> None:
        """Begin.

        Args:
            patience: Say nothing of what takes no longer than so many seconds.
        """
        self._out = out
        self._patience = patience
        self._is_terminal = out.isatty()
        self._begin = time.monotonic()
        self._spark: SparkSession | None = None
        self._what: str | Callable[[], str] = ""
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._width = 0

    def __enter__(self) -> Progress:
        if self._is_terminal or self._patience:
            self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            if self._width:
                self._show("")

    def say(self, what: str | Callable[[], str], spark: SparkSession | None = None) -> None:
        """What begins now, or goes on.

        Args:
            what: The words, or what finds them if they are shown at all.
        """
        is_new = what != self._what
        self._what = what
        self._spark = spark or self._spark
        if is_new and not self._is_terminal and not self._patience:
            self._write_line()

    def _watch(self) -> None:
        if self._over.wait(self._patience):
            return
        if not self._is_terminal:
            self._write_line()
            return
        while not self._over.wait(_INTERVAL):
            self._show(self._line())

    def _words(self) -> str:
        if not isinstance(self._what, str):
            self._what = self._what()
        return self._what

    def _write_line(self) -> None:
        self._out.write(f"{self._words()} ...\n")
        self._out.flush()

    def _line(self) -> str:
        seconds = int(time.monotonic() - self._begin)
        done, total = self._tasks()
        filled = _BAR_WIDTH * done // total if total else 0
        bar = f" [{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {done}/{total}" if total else ""
        return f"{self._words()}{bar} {seconds // 60}:{seconds % 60:02d}"

    def _tasks(self) -> tuple[int, int]:
        """Tasks that are done, and all that are known, of the stages that run now."""
        if self._spark is None:
            return 0, 0
        try:
            tracker = self._spark.sparkContext.statusTracker()
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:
            # The session is ending; there is nothing to show any more.
            return 0, 0
        known = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)

    def _show(self, line: str) -> None:
        self._out.write(f"\r{line.ljust(self._width)}" if line else "\r" + " " * self._width + "\r")
        self._width = len(line)
        self._out.flush()


@contextmanager
def told_if_long(what: str | Callable[[], str]) -> Iterator[None]:
    """Say on standard error what goes on in a block that takes over a second. Nothing of it is left when the answer comes."""
    with Progress(sys.stderr, PATIENCE) as progress:
        progress.say(what)
        yield
