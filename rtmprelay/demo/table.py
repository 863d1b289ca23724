"""What the demo shows while it runs: a table for terminals, or a line for logs. Pure text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import attrs

IDENTICAL = "identical"
DIFFERS = "DIFFERS"

#: Seconds over which bitrates are measured: two groups of pictures, so that keyframes do not make them jump.
_RATE_WINDOW = 4.0

_GREEN = "\x1b[32m"
_RED = "\x1b[31m"
_PLAIN = "\x1b[0m"

_GAP = "  "


@attrs.frozen
class Row:
    """The source or a receiver, at a moment."""

    name: str
    state: str
    messages: int
    kbps: float | None = None
    #: In seconds: usual, and the worst of late.
    latency: float | None = None
    worst_latency: float | None = None
    #: What is known of the media: `identical`, `DIFFERS` or something else.
    media: str = ""


class Rate:
    """The bitrate of somebody, from a count of bytes that only grows."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def update(self, now: float, size: int) -> float | None:
        """Kilobits a second over the last seconds; None while nothing can be said."""
        samples = self._samples
        samples.append((now, size))
        while len(samples) > 2 and now - samples[1][0] >= _RATE_WINDOW:
            samples.popleft()
        begin, first = samples[0]
        return (size - first) * 8 / 1000 / (now - begin) if now > begin else None


@attrs.frozen
class _Column:
    title: str
    text: Callable[[Row], str]
    #: Narrow terminals do without those with the lowest.
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
    """The rows below their titles, no line longer than the terminal is wide."""
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
    """The same in one line, for where there is no terminal."""
    kbps = "" if source.kbps is None else f", {source.kbps:.0f} kbit/s"
    parts = [f"{row.name} {row.messages} {row.media}".rstrip() for row in receivers]
    return f"{seconds:.0f} s: {source.messages} messages sent{kbps}; {', '.join(parts)}"
