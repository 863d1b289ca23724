"""The kinds of plots that the page has. Each can be drawn wide, for a desk, and narrow, for a phone."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import datetime

import attrs

from spark_analytics.report import drawing
from spark_analytics.report.drawing import Scale, nice_ticks, time_ticks

_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 10.0, 10.0, 34.0

#: Room for names to the left of their rows, or beside rows that have them above.
_NAMES, _MARGIN = 190.0, 10.0

#: Characters that fill a square, or nearly so.
_BROAD = frozenset("mwMW@%#&+<=>^~\N{HORIZONTAL ELLIPSIS}")

#: The narrowest gap between two labels of the time axis.
_TIME_LABEL = 78.0


@attrs.frozen
class Bar:
    """One of some bars. `hint` is shown when the mouse is over it."""

    #: A second line is written where it differs from the one before.
    label: str
    value: float
    hint: str
    class_: str = "c1"
    #: What is written beside a horizontal one.
    text: str = ""


@attrs.frozen
class Series:
    """A line. A value of None breaks it.

    Attributes:
        low, high: A band around the line, if there is one.
    """

    name: str
    points: Sequence[tuple[datetime, float | None]]
    class_: str = "c1"
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    filled: bool = False
    #: Each value holds until the next one: between one viewer and two there is no slope.
    stepped: bool = False


@attrs.frozen
class Span:
    """Something that lasted."""

    begin: datetime
    end: datetime
    class_: str
    hint: str


@attrs.frozen
class Strip:
    """A row of a timeline. The last spans are drawn over the first ones."""

    label: str
    spans: Sequence[Span]


def _short(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e4 else f"{value:g}"


def _value_axis(ticks: Sequence[float], scale: Scale, width: float) -> list[str]:
    parts = []
    for tick in ticks:
        y = scale(tick)
        parts.append(drawing.element("line", x1=_LEFT, x2=width - _RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(drawing.text(_short(tick), _LEFT - 6, y + 4, "tick", "end"))
    return parts


def _time_axis(begin: datetime, end: datetime, scale: Scale, top: float, bottom: float) -> list[str]:
    parts = []
    most = max(2, int((scale.end - scale.begin) / _TIME_LABEL))
    for tick in time_ticks(begin, end, most):
        x = scale(tick.time.timestamp())
        parts.append(drawing.element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
        anchor = "start" if x < scale.begin + 20 else "end" if x > scale.end - 20 else "middle"
        for line, words in enumerate(tick.label.split("\n")):
            parts.append(drawing.text(words, x, bottom + 14 + 12 * line, "tick", anchor))
    return parts


def bar_chart(bars: Sequence[Bar], width: float, label: str, height: float = 220.0) -> str:
    """Upright bars, with a label below as many as there is room for."""
    ticks = nice_ticks(max((bar.value for bar in bars), default=0.0))
    bottom = height - _BOTTOM
    scale = Scale(0.0, ticks[-1], bottom, _TOP)
    parts = _value_axis(ticks, scale, width)
    slot = (width - _LEFT - _RIGHT) / max(len(bars), 1)
    every = max(1, round(48.0 / slot + 0.499))
    gap = min(2.0, slot / 5)
    thickness = min(slot - gap, 48.0)
    second_line = ""
    for position, bar in enumerate(bars):
        x = _LEFT + slot * position + (slot - thickness) / 2
        y = scale(bar.value)
        shape = drawing.element(
            "rect",
            x=x,
            y=y,
            width=thickness,
            height=bottom - y,
            rx=min(2.0, thickness / 3),
            class_=bar.class_,
        )
        parts.append(drawing.element("g", drawing.title(bar.hint), shape))
        if position % every == 0:
            first, _, second = bar.label.partition("\n")
            lines = [first] if second == second_line else [first, second]
            second_line = second
            for number, words in enumerate(lines):
                parts.append(
                    drawing.text(words, x + thickness / 2, bottom + 14 + 12 * number, "tick", "middle")
                )
    return drawing.drawing(width, height, label, parts)


def line_chart(
    series: Sequence[Series],
    begin: datetime,
    end: datetime,
    width: float,
    label: str,
    height: float = 220.0,
    whole: bool = False,
) -> str:
    """Lines over time; `whole` for what is counted."""
    highest = max(
        (
            value
            for one in series
            for value in (*one.high, *(point[1] for point in one.points))
            if value is not None
        ),
        default=0.0,
    )
    ticks = nice_ticks(highest, whole=whole)
    bottom = height - _BOTTOM
    y = Scale(0.0, ticks[-1], bottom, _TOP)
    x = Scale(begin.timestamp(), end.timestamp(), _LEFT, width - _RIGHT)
    parts = [*_value_axis(ticks, y, width), *_time_axis(begin, end, x, _TOP, bottom)]
    for one in series:
        for run in _unbroken(one):
            parts += _line(one, run, x, y, bottom)
    return drawing.drawing(width, height, label, parts)


def _unbroken(series: Series) -> list[range]:
    """The runs of points that have a value."""
    runs: list[range] = []
    begin: int | None = None
    for index, (_, value) in enumerate(series.points):
        if value is not None and begin is None:
            begin = index
        elif value is None and begin is not None:
            runs.append(range(begin, index))
            begin = None
    if begin is not None:
        runs.append(range(begin, len(series.points)))
    return runs


def _line(series: Series, run: range, x: Scale, y: Scale, bottom: float) -> list[str]:
    places = [(x(series.points[i][0].timestamp()), y(series.points[i][1] or 0.0)) for i in run]
    if series.stepped:
        after = [*(x(series.points[i][0].timestamp()) for i in run[1:]), _end_of(series, run, x)]
        places = [
            (at, value) for (left, value), right in zip(places, after, strict=True) for at in (left, right)
        ]
    if len(places) == 1:
        # A line through one point would hardly be seen.
        ((at, value),) = places
        return [drawing.element("circle", cx=at, cy=value, r=3, class_=series.class_)]
    parts = []
    if series.low and series.high:
        lower = [(x(series.points[i][0].timestamp()), y(series.low[i] or 0.0)) for i in run]
        upper = [(x(series.points[i][0].timestamp()), y(series.high[i] or 0.0)) for i in run]
        parts.append(
            drawing.element(
                "path", d=drawing.path([*upper, *reversed(lower)], True), class_=f"{series.class_} band"
            )
        )
    if series.filled:
        under = [(places[0][0], bottom), *places, (places[-1][0], bottom)]
        parts.append(drawing.element("path", d=drawing.path(under, True), class_=f"{series.class_} band"))
    parts.append(drawing.element("path", d=drawing.path(places), class_=f"{series.class_} line"))
    return parts


def _end_of(series: Series, run: range, x: Scale) -> float:
    """Where the last step of a run ends; all steps are equally long."""
    points = series.points
    if run[-1] + 1 < len(points) or len(points) < 2:
        return x(points[min(run[-1] + 1, len(points) - 1)][0].timestamp()) if len(points) > 1 else x.end
    return x((points[-1][0] + (points[-1][0] - points[-2][0])).timestamp())


def timeline(strips: Sequence[Strip], begin: datetime, end: datetime, width: float, label: str) -> str:
    """Rows of what lasted, one below the other. Where there is little room, names stand above their rows."""
    narrow = width < 600
    left = _MARGIN if narrow else _NAMES
    row = 40.0 if narrow else 28.0
    thickness = 16.0
    bottom = _TOP + row * len(strips)
    x = Scale(begin.timestamp(), end.timestamp(), left, width - _RIGHT)
    parts = _time_axis(begin, end, x, _TOP, bottom)
    for index, strip in enumerate(strips):
        top = _TOP + row * index + (row - thickness) / 2 + (8 if narrow else 0)
        ground = drawing.element(
            "rect", x=left, y=top, width=width - _RIGHT - left, height=thickness, class_="empty"
        )
        parts += [ground, _name(strip.label, left, top, narrow, width - 20)]
        for span in strip.spans:
            first, last = x(span.begin.timestamp()), x(span.end.timestamp())
            shape = drawing.element(
                "rect", x=first, y=top, width=max(last - first, 1.5), height=thickness, class_=span.class_
            )
            parts.append(drawing.element("g", drawing.title(span.hint), shape))
    return drawing.drawing(width, bottom + _BOTTOM, label, parts)


def horizontal_bars(bars: Sequence[Bar], highest: float, width: float, label: str) -> str:
    """Lying bars, each with its name and what is written beside it; where there is little room, above it."""
    narrow = width < 600
    left = _MARGIN if narrow else _NAMES
    right = width - (_RIGHT if narrow else 200.0)
    row = 42.0 if narrow else 28.0
    scale = Scale(0.0, highest, left, right)
    parts = []
    for index, bar in enumerate(bars):
        top = 4.0 + row * index + (20 if narrow else 6)
        parts.append(_name(bar.label, left, top, narrow, width - 20 - _width(bar.text)))
        track = drawing.element("rect", x=left, y=top, width=right - left, height=16, rx=3, class_="empty")
        length = max(scale(bar.value) - left, 1.5) if bar.value > 0 else 0.0
        shape = drawing.element("rect", x=left, y=top, width=length, height=16, rx=3, class_=bar.class_)
        parts.append(drawing.element("g", drawing.title(bar.hint), track, shape))
        x, y, anchor = (right, top - 5, "end") if narrow else (right + 8, top + 12, None)
        parts.append(drawing.text(bar.text, x, y, "value", anchor))
    return drawing.drawing(width, 8 + row * len(bars), label, parts)


def _name(words: str, left: float, top: float, above: bool, room: float) -> str:
    """What a row is called: above it, or to the left of it."""
    if above:
        return drawing.text(_fitting(words, room), left, top - 5, "name")
    return drawing.text(_fitting(words, left - 10), left - 8, top + 12, "name", "end")


def _fitting(words: str, room: float) -> str:
    """As much of a name as there is room for, its beginning and its end."""
    words = drawing.printable(words)
    if _width(words) <= room:
        return words
    kept = len(words)
    while kept > 4:
        kept -= 1
        half = kept // 2
        short = f"{words[: kept - half]}\N{HORIZONTAL ELLIPSIS}{words[-half:]}"
        if _width(short) <= room:
            return short
    return words[:3]


def _width(words: str) -> float:
    """About how wide a text is in pixels. Fonts differ: it is as wide as in those that are wider than most."""
    return sum(map(_width_of, words))


def _width_of(char: str) -> float:
    if unicodedata.east_asian_width(char) in "WF":
        return 13.0
    if char in _BROAD:
        return 12.0
    return 7.7 if char.isascii() and not char.isupper() else 9.8
