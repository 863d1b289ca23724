"""Where the demo shows itself: a table that is drawn again and again on a terminal, lines everywhere else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from rtmprelay.demo.table import Row, plain_line, table

#: Seconds between two tables, and between two lines.
TABLE_INTERVAL = 0.5
LINE_INTERVAL = 5.0


class Display:
    """Shows rows: the source's first, then those of the receivers."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    interval = LINE_INTERVAL

    def say(self, *lines: str) -> None:
        """Print lines that stay."""
        self._out.write("".join(f"{line}\n" for line in lines))
        self._out.flush()

    def show(self, seconds: float, rows: Sequence[Row]) -> None:
        """Show how it is now."""
        self.say(plain_line(seconds, rows[0], rows[1:]))


class TerminalDisplay(Display):
    """A table that replaces itself."""

    interval = TABLE_INTERVAL

    def __init__(
        self,
        out: TextIO,
        colour: bool = True,
        terminal_size: Callable[[], os.terminal_size] = shutil.get_terminal_size,
    ) -> None:
        super().__init__(out)
        self._colour = colour
        self._terminal_size = terminal_size
        self._drawn = 0
        self._size: os.terminal_size | None = None

    def say(self, *lines: str) -> None:
        """Print lines that stay; the next table comes below them."""
        self._drawn = 0
        super().say(*lines)

    def show(self, seconds: float, rows: Sequence[Row]) -> None:
        """Draw the table over the one before."""
        size = self._terminal_size()
        # In the last column some terminals go to the next line by themselves.
        lines = [*table(rows, max(1, size.columns - 1), self._colour), _running(seconds)[: size.columns - 1]]
        # What has left the screen at the top cannot be drawn over.
        lines = lines[: max(1, size.lines - 1)]
        # Another width breaks the old lines differently: nobody knows where they begin.
        up = f"\x1b[{self._drawn}A" if self._drawn and size == self._size else ""
        self._out.write(up + "".join(f"\r{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self._out.flush()
        self._drawn, self._size = len(lines), size


def _running(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{second:02d}, Ctrl-C ends it and checks everything"


def display_for(out: TextIO, environment: Mapping[str, str] | None = None) -> Display:
    """A table if that can be drawn, with colours if they are wanted."""
    environment = os.environ if environment is None else environment
    if not out.isatty() or environment.get("TERM", "dumb") == "dumb":
        return Display(out)
    return TerminalDisplay(out, colour=not environment.get("NO_COLOR"))
