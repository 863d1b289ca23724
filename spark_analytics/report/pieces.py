"""What sections of the page are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from spark_analytics.report.svg import printable

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
