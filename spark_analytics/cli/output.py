"""Answers as people, programs and spreadsheets want them; and how far a job is: a bar on a terminal, a line elsewhere."""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

import attrs

from spark_analytics.errors import CatalogueError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


FORMATS = ("table", "json", "csv")

#: What begins a formula in some spreadsheet, also after a tab or a return that it passes over.
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
_PLAIN_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)

#: Longer texts are cut in tables for people; the other formats have everything.
_WIDEST = 400


def add_format_argument(parser: argparse.ArgumentParser) -> None:
    """The option that every question has."""
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to write the answer")


def refuse_same_names(columns: Sequence[str], form: str) -> None:
    """See, before there is an answer, whether it can be written whole.

    Raises:
        CatalogueError: Two columns have the same name, and of those JSON has one only.
    """
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if form == "json" and twice:
        name = printable(twice[0])
        raise CatalogueError(
            f"Two columns are called {name}, and JSON has one: name them, as in `a.{name} AS a_{name}`."
        )


def write_rows(
    out: TextIO, columns: Sequence[str], rows: Sequence[Sequence[Any]], form: str = "table"
) -> None:
    """Write an answer."""
    if form == "json":
        for row in rows:
            values = dict(zip(columns, map(_plain, row), strict=True))
            out.write(json.dumps(values, ensure_ascii=False) + "\n")
    elif form == "csv":
        writer = csv.writer(_UnixLines(out), lineterminator="\r\n")
        writer.writerow(map(_harmless, columns))
        writer.writerows([[_cell(value) for value in row] for row in rows])
    else:
        _write_table(out, columns, rows)


@attrs.frozen
class _UnixLines:
    """Ends lines with a line feed alone; `csv` puts quotes around a return only where lines end with one."""

    out: TextIO

    def write(self, line: str) -> int:
        """One row."""
        return self.out.write(line.removesuffix("\r\n") + "\n")


def say_if_empty(count: int, form: str) -> None:
    """People read that there are 0 rows; programs get a table without any."""
    if not count and form == "table":
        sys.stderr.write("0 rows\n")


def write_table(out: TextIO, table: pa.Table, form: str = "table") -> None:
    """The same for an answer in Arrow."""
    columns = [
        [_with_objects(value, column.type) for value in column.to_pylist()] for column in table.columns
    ]
    write_rows(out, table.column_names, list(zip(*columns, strict=True)), form)


def _with_objects(value: Any, kind: pa.DataType) -> Any:
    """The same value, but maps, which Arrow gives as lists of pairs, as dictionaries. Its own option is not in all versions."""
    from pyarrow import types

    if value is None or not types.is_nested(kind):
        return value
    if types.is_map(kind):
        return {key: _with_objects(one, kind.item_type) for key, one in value}
    if types.is_struct(kind):
        return {field.name: _with_objects(value[field.name], field.type) for field in kind}
    return [_with_objects(one, kind.value_type) for one in value] if isinstance(value, list) else value


def _write_table(out: TextIO, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    if not rows:
        # Bare headings look like a mistake.
        return
    texts = [[_text(value) for value in row] for row in rows]
    widths = [max(len(name), *(len(row[number]) for row in texts)) for number, name in enumerate(columns)]
    right = [
        all(isinstance(row[number], int | float) or row[number] is None for row in rows)
        for number in range(len(columns))
    ]
    for line in [list(columns), ["-" * width for width in widths], *texts]:
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ]
        out.write("  ".join(cells).rstrip() + "\n")


def _cell(value: Any) -> Any:
    """As a spreadsheet knows it; what it does not know is JSON."""
    if value is None:
        return ""
    plain = _plain(value)
    if isinstance(plain, str):
        return _harmless(plain)
    is_json = isinstance(plain, bool | dict | list)
    return json.dumps(plain, ensure_ascii=False) if is_json else plain


def _harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula: names and reasons come from strangers. The sign in front is the one
    by which spreadsheets know that a text follows.
    """
    is_formula = text.startswith(_FORMULA_SIGNS) and not _PLAIN_NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def _plain(value: Any) -> Any:
    """As JSON knows it; times as ISO 8601 in UTC."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(
            timespec="milliseconds" if value.microsecond else "seconds"
        )
        return text + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)


def printable(text: str) -> str:
    """A text in one line, without what could move a terminal's cursor: names come from strangers."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _text(value: Any) -> str:
    """For people."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    plain = _plain(value)
    text = printable(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


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
        # What goes on may be said late, on a busy machine.
        while self._over.wait(self._patience) or not self._what:
            if self._over.is_set():
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
