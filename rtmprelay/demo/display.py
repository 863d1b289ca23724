"""What the demo shows while it runs: a table that is redrawn on a terminal, or a line every few seconds elsewhere."""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

import attrs

from rtmprelay.screen import Screen

IDENTICAL = "identical"
DIFFERS = "DIFFERS"

#: Seconds between two tables, and between two lines.
_TABLE_INTERVAL = 0.5
_LINE_INTERVAL = 5.0

#: Seconds over which bitrates are measured: two groups of pictures, so that keyframes do not make them jump.
_RATE_WINDOW = 4.0

_GREEN = "\x1b[32m"
_RED = "\x1b[31m"
_PLAIN = "\x1b[0m"

_GAP = "  "


class Rate:
    """A bitrate, from a count of bytes that only grows."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def update(self, now: float, size: int) -> float | None:
        """Kilobits a second over the last seconds; None on the first call."""
        samples = self._samples
        samples.append((now, size))
        while len(samples) > 2 and now - samples[1][0] >= _RATE_WINDOW:
            samples.popleft()
        begin, first = samples[0]
        return (size - first) * 8 / 1000 / (now - begin) if now > begin else None


# -- text ----------------------------------------------------------------------------------------------------


@attrs.frozen
class Row:
    """The source or a receiver at one moment."""

    name: str
    state: str
    messages: int
    kbps: float | None = None
    #: In seconds: the median, and the worst of the last messages.
    latency: float | None = None
    worst_latency: float | None = None
    #: The result of the comparison so far: `identical`, `DIFFERS` or something else.
    media: str = ""


@attrs.frozen
class _Column:
    title: str
    text: Callable[[Row], str]
    #: Narrow terminals leave out the columns with the lowest.
    importance: int
    right: bool = False


def _kbps(row: Row) -> str:
    return "" if row.kbps is None else f"{row.kbps:.1f}"


def _latency(row: Row) -> str:
    if row.latency is None or row.worst_latency is None:
        return ""
    return f"{row.latency * 1000:.1f} ({row.worst_latency * 1000:.1f})"


_COLUMNS = (
    _Column("receiver", lambda row: row.name, 6),
    _Column("state", lambda row: row.state, 3),
    _Column("messages", lambda row: str(row.messages), 4, right=True),
    _Column("kbit/s", _kbps, 2, right=True),
    _Column("latency ms (worst)", _latency, 1, right=True),
    _Column("media", lambda row: row.media, 5),
)


def table(rows: Sequence[Row], width: int, colour: bool = False) -> list[str]:
    """The rows under their titles; no line is longer than the terminal is wide."""
    columns = list(_COLUMNS)
    while True:
        widths = [max(len(column.title), *(len(column.text(row)) for row in rows)) for column in columns]
        if len(columns) == 1 or sum(widths) + len(_GAP) * (len(columns) - 1) <= width:
            break
        columns.remove(min(columns, key=lambda column: column.importance))
    lines = [_line([column.title for column in columns], columns, widths, width)]
    for row in rows:
        line = _line([column.text(row) for column in columns], columns, widths, width)
        lines.append(_coloured(line, row.media) if colour else line)
    return lines


def _line(texts: Sequence[str], columns: Sequence[_Column], widths: Sequence[int], width: int) -> str:
    cells = (
        text.rjust(size) if column.right else text.ljust(size)
        for text, column, size in zip(texts, columns, widths, strict=True)
    )
    return _GAP.join(cells).rstrip()[:width]


def _coloured(line: str, media: str) -> str:
    colour = {IDENTICAL: _GREEN, DIFFERS: _RED}.get(media)
    if colour is None or not line.endswith(media):
        return line
    return f"{line.removesuffix(media)}{colour}{media}{_PLAIN}"


def plain_line(seconds: float, source: Row, receivers: Sequence[Row]) -> str:
    """The rows in one line, for output without a terminal."""
    kbps = "" if source.kbps is None else f", {source.kbps:.0f} kbit/s"
    parts = [f"{row.name} {row.messages} {row.media}".rstrip() for row in receivers]
    return f"{seconds:.0f} s: {source.messages} messages sent{kbps}; {', '.join(parts)}"


# -- output --------------------------------------------------------------------------------------------------


class Display:
    """Shows rows as lines: the source's row first, then those of the receivers."""

    interval = _LINE_INTERVAL

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def say(self, *lines: str) -> None:
        """Print lines that stay."""
        self._out.write("".join(f"{line}\n" for line in lines))
        self._out.flush()

    def show(self, seconds: float, rows: Sequence[Row]) -> None:
        """Show the state at `seconds` after the beginning."""
        self.say(plain_line(seconds, rows[0], rows[1:]))


class TerminalDisplay(Display):
    """Shows rows as a table that replaces the one before."""

    interval = _TABLE_INTERVAL

    def __init__(
        self,
        out: TextIO,
        colour: bool = True,
        terminal_size: Callable[[], os.terminal_size] = shutil.get_terminal_size,
    ) -> None:
        super().__init__(out)
        self._colour = colour
        self._screen = Screen(out, terminal_size)

    def say(self, *lines: str) -> None:
        """Print lines that stay; the next table appears below them."""
        self._screen.keep()
        super().say(*lines)

    def show(self, seconds: float, rows: Sequence[Row]) -> None:
        """Draw the table over the one before."""
        self._screen.draw(lambda columns: [*table(rows, columns, self._colour), _running(seconds)[:columns]])


def _running(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{second:02d}, Ctrl-C ends it and checks everything"


def display_for(out: TextIO, environment: Mapping[str, str] | None = None) -> Display:
    """A table if the terminal can draw one, in colour unless NO_COLOR is set; else lines."""
    environment = os.environ if environment is None else environment
    if not out.isatty() or environment.get("TERM", "dumb") == "dumb":
        return Display(out)
    return TerminalDisplay(out, colour=not environment.get("NO_COLOR"))
