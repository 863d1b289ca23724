"""A little SVG: elements, and where values are on paper. Texts from elsewhere are escaped here, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape

import attrs

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


# -- from values to places --------------------------------------------------------------------------------


@attrs.frozen
class Scale:
    """Straight from a range of values to a range of places."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """Where a value is; one that is outside is put on the edge."""
        if self.high <= self.low:
            return self.begin
        part = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)


def nice_ticks(highest: float, most: int = 5, whole: bool = False) -> list[float]:
    """Round values from 0 to at least the highest one.

    Args:
        whole: What is counted has no halves.
    """
    if not math.isfinite(highest) or highest < 1e-9:
        return [0.0, 1.0]
    rough = max(highest / most, 1.0) if whole else highest / most
    power = 10.0 ** math.floor(math.log10(rough))
    steps = [factor * power for factor in (1, 2, 2.5, 5, 10)]
    step = next(one for one in steps if one >= rough * (1 - 1e-9) and (not whole or float(one).is_integer()))
    count = math.ceil(highest / step - 1e-9)
    return [number * step for number in range(count + 1)]


_MINUTE, _HOUR, _DAY = 60, 3600, 86400

#: Seconds between two ticks of time, as people count them.
_TIME_STEPS = (
    *(seconds for seconds in (1, 5, 15, 30)),
    *(minutes * _MINUTE for minutes in (1, 5, 15, 30)),
    *(hours * _HOUR for hours in (1, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 7, 14, 28, 91, 182, 365)),
)


@attrs.frozen
class TimeTick:
    """A moment, and what is written there."""

    time: datetime
    label: str


def time_ticks(begin: datetime, end: datetime, most: int) -> list[TimeTick]:
    """At most so many round moments between two, in UTC."""
    seconds = max((end - begin).total_seconds(), 1.0)
    step = next((step for step in _TIME_STEPS if seconds / step <= most), None)
    if step is None:
        step = _TIME_STEPS[-1] * math.ceil(seconds / _TIME_STEPS[-1] / most)
    first = math.ceil(begin.timestamp() / step) * step
    times = [datetime.fromtimestamp(first + number * step, UTC) for number in range(most + 2)]
    ticks = []
    before: datetime | None = None
    for time in times:
        if time > end:
            break
        ticks.append(TimeTick(time, _label(time, before, step)))
        before = time
    return ticks


def _label(time: datetime, before: datetime | None, step: int) -> str:
    if step >= 28 * _DAY:
        return f"{time:%b %Y}"
    day = f"{time.day} {time:%b}"
    if step >= _DAY:
        return day
    clock = f"{time:%H:%M:%S}" if step < _MINUTE else f"{time:%H:%M}"
    # The day is written once.
    is_new_day = before is None or before.date() != time.date()
    return f"{clock}\n{day}" if is_new_day else clock
