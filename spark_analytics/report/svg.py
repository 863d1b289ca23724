"""A little SVG. Every text that comes from elsewhere is escaped here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

#: A number, a text, or nothing at all.
Value = float | str | None


def element(name: str, *children: str, **attributes: Value) -> str:
    """One element; children are markup already. `class_` and `stroke_width` become `class` and `stroke-width`."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            text = number(value) if isinstance(value, int | float) else escape(value, quote=True)
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{text}"')
    opening = " ".join(parts)
    return f"<{opening}>{''.join(children)}</{name}>" if children else f"<{opening}/>"


def number(value: float) -> str:
    """As short as a tenth of a pixel allows."""
    return f"{value:.1f}".removesuffix(".0")


def text(content: str, x: float, y: float, class_: str | None = None, anchor: str | None = None) -> str:
    """A line of text."""
    return element("text", escape(printable(content)), x=x, y=y, class_=class_, text_anchor=anchor)


def title(content: str) -> str:
    """What is shown when the mouse is over something."""
    return element("title", escape(printable(content)))


def printable(content: str) -> str:
    """Without characters that no document may have: names come from strangers."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in content)


def path(points: Iterable[tuple[float, float]], closed: bool = False) -> str:
    """The way through some points, as the attribute `d` wants it."""
    steps = " ".join(f"{number(x)} {number(y)}" for x, y in points)
    return f"M{steps}{'Z' if closed else ''}"


def drawing(width: float, height: float, label: str, children: Iterable[str]) -> str:
    """A whole picture, with what it shows in words for those who cannot see it."""
    return element(
        "svg",
        *children,
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
        aria_label=printable(label),
        class_="plot",
    )
