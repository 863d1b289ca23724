"""Plots of fan-out by number of players, as SVG for light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape

import attrs

from rtmprelay.bench.results import Run
from rtmprelay.bench.rounds import Comparison, ResultRow
from rtmprelay.bench.servers import NGINX, OURS

WIDTH, HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 206, 72, 52
_LABEL_HEIGHT = 18.0

#: Each line's colour on a light and on a dark page, its dashes, its width.
_LOOKS = (
    ("#0b62c4", "#66aaff", "", 3.0),
    ("#c2410c", "#ff9d66", "", 2.0),
    ("#1f7a3a", "#63d08a", "", 2.0),
    ("#7a3fb0", "#c79bff", "", 2.0),
)
_NGINX_LOOK = ("#5f6670", "#a7b0bb", "7 5", 2.5)


@attrs.frozen
class PlotLine:
    """One server's name and its figures by number of players."""

    name: str
    points: tuple[tuple[int, float], ...]
    is_nginx: bool = False


def ticks(largest: float, about: int = 5) -> list[float]:
    """Round numbers from zero to at least the largest value."""
    if largest <= 0:
        return [0.0, 1.0]
    rough = largest / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    count = math.ceil(largest / step - 1e-9)
    return [number * step for number in range(count + 1)]


def spread(places: Sequence[float], distance: float, highest: float) -> list[float]:
    """Move labels apart as little as needed so that none covers another, and keep all of them above `highest`."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    moved = list(places)
    for before, index in zip([None, *order], order, strict=False):
        if before is not None:
            moved[index] = max(moved[index], moved[before] + distance)
    # Labels pushed past the end push the others back.
    limit = highest
    for index in reversed(order):
        moved[index] = min(moved[index], limit)
        limit = moved[index] - distance
    return moved


def lines_of(comparisons: Sequence[Comparison], figure: Callable[[Run], float | None]) -> list[PlotLine]:
    """A line for each server, ours first."""
    points: dict[str, list[tuple[int, float]]] = {}
    for comparison in comparisons:
        if comparison.case.workload == "fanout":
            rows: list[ResultRow] = [*comparison.ours, *([comparison.nginx] if comparison.nginx else [])]
            for row in rows:
                value = row.median(figure)
                if value is not None:
                    points.setdefault(row.contestant.name, []).append((comparison.case.players, value))
    names = sorted(points, key=lambda name: (name == NGINX.name, name != OURS.name))
    return [PlotLine(name, tuple(sorted(points[name])), name == NGINX.name) for name in names]


def _style(lines: Sequence[PlotLine]) -> str:
    light, dark = [], []
    plain = iter(_LOOKS * len(lines))
    for number, line in enumerate(lines):
        on_light, on_dark, dashes, thickness = _NGINX_LOOK if line.is_nginx else next(plain)
        light.append(
            f".s{number} {{ stroke: {on_light}; fill: {on_light}; stroke-dasharray: {dashes or 'none'};"
            f" stroke-width: {thickness}; }}"
        )
        dark.append(f".s{number} {{ stroke: {on_dark}; fill: {on_dark}; }}")
    return "\n".join(
        [
            "svg { font: 13px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; }",
            ".ground { fill: #ffffff; } text { fill: #24292f; stroke: none; }",
            ".grid { stroke: #d8dee4; stroke-width: 1; } .quiet { fill: #57606a; }",
            ".title { font-size: 17px; font-weight: 600; } polyline { fill: none !important; }",
            "circle { stroke: none !important; } .label { font-weight: 600; stroke: none !important; }",
            *light,
            "@media (prefers-color-scheme: dark) {",
            ".ground { fill: #0d1117; } text { fill: #e6edf3; }",
            ".grid { stroke: #30363d; } .quiet { fill: #9da7b3; }",
            *dark,
            "}",
        ]
    )


def draw(title: str, subtitle: str, unit: str, lines: Sequence[PlotLine]) -> str:
    if not lines:
        raise ValueError("there is nothing to draw: a plot needs fan-out")
    across = ticks(max(x for line in lines for x, _ in line.points))
    upward = ticks(max(y for line in lines for _, y in line.points))

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + x / across[-1] * (WIDTH - _LEFT - _RIGHT),
            HEIGHT - _BOTTOM - y / upward[-1] * (HEIGHT - _TOP - _BOTTOM),
        )

    figures = "; ".join(
        f"{line.name}: " + ", ".join(f"{x} players {y:.3g} {unit}" for x, y in line.points) for line in lines
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' role="img">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(figures)}</desc>",
        f"<style>\n{_style(lines)}\n</style>",
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        f'<text class="title" x="{_LEFT - 52}" y="26">{escape(title)}</text>',
        f'<text class="quiet" x="{_LEFT - 52}" y="46">{escape(subtitle)}</text>',
        *_axes(across, upward, unit, place),
    ]
    for number, line in enumerate(lines):
        parts += _curve(number, line, unit, place)
    parts += _labels(lines, place)
    return "\n".join([*parts, "</svg>"]) + "\n"


_Place = Callable[[float, float], tuple[float, float]]


def _axes(across: Sequence[float], upward: Sequence[float], unit: str, place: _Place) -> list[str]:
    parts = []
    for value in upward:
        x, y = place(0, value)
        end, _ = place(across[-1], value)
        text = f"{value:g} {unit}" if value == upward[-1] else f"{value:g}"
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{y:.1f}" x2="{end:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="quiet" x="{x - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for value in across:
        x, y = place(value, 0)
        parts.append(
            f'<text class="quiet" x="{x:.1f}" y="{y + 20:.1f}" text-anchor="middle">{value:g}</text>'
        )
    middle, y = place(across[-1] / 2, 0)
    parts.append(f'<text class="quiet" x="{middle:.1f}" y="{y + 40:.1f}" text-anchor="middle">players</text>')
    return parts


def _curve(number: int, line: PlotLine, unit: str, place: _Place) -> list[str]:
    places = [place(x, y) for x, y in line.points]
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline class="s{number}" points="{joined}"/>']
    for (x, y), (players, value) in zip(places, line.points, strict=True):
        text = escape(f"{line.name}, {players} players: {value:.3g} {unit}")
        parts.append(
            f'<circle class="s{number}" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{text}</title></circle>'
        )
    return parts


def _labels(lines: Sequence[PlotLine], place: _Place) -> list[str]:
    """The name of each line, at its right end."""
    ends = [place(*line.points[-1]) for line in lines]
    heights = spread([y + 4 for _, y in ends], _LABEL_HEIGHT, HEIGHT - _BOTTOM + 4)
    return [
        f'<text class="label s{number}" x="{x + 12:.1f}" y="{height:.1f}">{escape(line.name)}</text>'
        for number, (line, (x, _), height) in enumerate(zip(lines, ends, heights, strict=True))
    ]


def cpu_plot(comparisons: Sequence[Comparison]) -> str:
    lines = lines_of(comparisons, lambda run: 100 * run.cpu_seconds / run.seconds)
    return draw(
        "CPU of the server by number of players",
        "One stream of 2.5 Mbit/s to all; share of a core, in percent; less is better",
        "%",
        lines,
    )


def latency_plot(comparisons: Sequence[Comparison]) -> str:
    return draw(
        "Added latency by number of players",
        "From the publisher's send to the player's receive, 99th percentile",
        "ms",
        lines_of(comparisons, lambda run: run.p99_ms),
    )
