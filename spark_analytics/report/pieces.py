"""What sections of the page are made of: a little HTML, and numbers as people say them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape

from spark_analytics.report.drawing import printable

_WIDE, _NARROW = 960.0, 360.0


def text(content: str) -> str:
    """Harmless, whoever wrote it."""
    return escape(printable(content))


def section(title: str, explanation: str, content: str) -> str:
    """A card: what one sees, what it means, and the thing itself, which is HTML."""
    return f'<section><h2>{text(title)}</h2><p class="soft">{text(explanation)}</p>{content}</section>\n'


def both(draw: Callable[[float], str]) -> str:
    """A plot for a desk and for a phone; the style shows one of them."""
    return f'<div class="wide">{draw(_WIDE)}</div><div class="narrow">{draw(_NARROW)}</div>'


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Names and their colours."""
    items = "".join(f'<li><i class="{colour}"></i>{text(name)}</li>' for name, colour in entries)
    return f'<ul class="legend">{items}</ul>'


def table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> str:
    """Columns are a name and a class: n for numbers, w for long texts, t for times. An empty one is left out."""
    used = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    columns, rows = [columns[index] for index in used], [[row[index] for index in used] for row in rows]
    head = "".join(f'<th class="{class_}">{text(name)}</th>' for name, class_ in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{class_}" data-name="{text(name)}">{text(cell)}</td>'
            for cell, (name, class_) in zip(row, columns, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


# -- numbers --------------------------------------------------------------------------------------------


def moment(time: datetime) -> str:
    """A time, to the second; midnight is a day."""
    if (time.hour, time.minute, time.second) == (0, 0, 0):
        return f"{time:%Y-%m-%d}"
    return f"{time:%Y-%m-%d %H:%M}" if not time.second else f"{time:%Y-%m-%d %H:%M:%S}"


def duration(seconds: float) -> str:
    """A length of time, in its two largest units."""
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    for size, name, smaller, smaller_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size:,} {name}" + (f" {rest} {smaller_name}" if rest else "")
    return f"{whole} s"


def hours(seconds: float) -> str:
    """A length of time in one unit: hours, if it has that many."""
    if seconds >= 3600:
        return f"{seconds / 3600:,.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else duration(seconds)


def bytes_in_words(size: float) -> str:
    """A number of bytes."""
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= power:
            value = size / power
            return f"{value:.1f} {unit}" if value < 100 else f"{value:,.0f} {unit}"
    return f"{size:.0f} B"


def quantity(value: float) -> str:
    """A number with as many digits as one wants to read."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def plural(count: int, noun: str) -> str:
    """So many of them."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
