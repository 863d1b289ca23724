"""python -m rtmprelay.bench: measure rtmprelay, side by side with nginx-rtmp where that is installed."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import attrs

from rtmprelay.bench import capacity, report
from rtmprelay.bench.cases import QUICK, Plan, cases
from rtmprelay.bench.hls import measure_cached, measure_hls, varnish_is_there
from rtmprelay.bench.measurement import allow_many_files, measure
from rtmprelay.bench.plot import cpu_plot, latency_plot
from rtmprelay.bench.profiling import as_text
from rtmprelay.bench.results import WORKLOADS
from rtmprelay.bench.rounds import Comparison, compare, progress
from rtmprelay.bench.servers import nginx_is_there

NOISY, FAILED = 2, 1


def _numbers(least: int, most: int) -> Callable[[str], tuple[int, ...]]:
    def read(text: str) -> tuple[int, ...]:
        numbers = tuple(int(part) for part in text.split(","))
        if not all(least <= number <= most for number in numbers):
            raise argparse.ArgumentTypeError(f"each of {text} must be from {least} to {most}")
        return numbers

    return read


def _within(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        number = float(text)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from {least:g} to {most:g}")
        return number

    return read


_ROW_NAMES = ", ".join(row.name for row in capacity.ROWS)


def _rows(text: str) -> list[capacity.Row]:
    by_name = {row.name: row for row in capacity.ROWS}
    unknown = [name for name in text.split(",") if name not in by_name]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no row {unknown[0]!r}: choose from {_ROW_NAMES}")
    return [by_name[name] for name in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rtmprelay.bench", description=__doc__)
    add = parser.add_argument
    add(
        "workload",
        nargs="?",
        default="all",
        choices=[*WORKLOADS, "all", "hls", "capacity", "draw"],
        help="what to measure; hls: viewers of low-latency HLS, ours alone; capacity: how much one core carries, row by row (half an hour); draw: make tables and plots of a --json file again (default: all, half an hour)",
    )
    add("--quick", action="store_true", help="one short round of everything: about a minute")
    add("--players", type=_numbers(1, 2000), help="fan-out: 50,200,500,1000")
    add("--windows", type=lambda text: tuple(text.split(",")), help="fan-out: merge windows: default,0,120ms")
    add("--destinations", type=_numbers(1, 200), help="relay: 10,50")
    add("--publishers", type=_numbers(1, 500), help="ingest, recording: 10,50")
    add("--chunk", dest="chunk_sizes", type=_numbers(128, 65536), help="ingest: size of chunks: 4096,128")
    add("--joins", type=int, choices=range(1, 1001), metavar="N", help="join: how many")
    # The crowd of players answers no pings and keeps no time limits, which longer runs would meet.
    add("--seconds", type=_within(0.5, 30), help="measured time of each run")
    add("--rounds", type=int, choices=range(1, 21), metavar="N", help="runs of each server")
    add("--attempts", type=int, choices=range(1, 6), metavar="N", help="how often a noisy run is repeated")
    add("--rows", type=_rows, metavar="NAME,...", help="capacity: which rows; default: all, " + _ROW_NAMES)
    add("--without-nginx", dest="with_nginx", action="store_false", default=None, help="ours alone")
    add("--format", choices=["text", "rst"], default="text", help="of the table")
    add("--json", type=Path, metavar="FILE", help="write every run here; with draw: read them from here")
    add("--add", action="store_true", help="keep what --json FILE has, and add rounds or cases to it")
    add("--plot", type=Path, metavar="FILE.svg", help="draw CPU against players")
    add("--latency-plot", type=Path, metavar="FILE.svg", help="draw latency against players")
    add("--profile", type=Path, metavar="FOLDER", help="profile our server with py-spy")
    return parser


def plan_of(options: argparse.Namespace) -> Plan:
    """The defaults, or those of --quick, changed by the options."""
    plan = QUICK if options.quick else Plan()
    given = {
        field.name: value
        for field in attrs.fields(Plan)
        if (value := getattr(options, field.name)) is not None
    }
    plan = attrs.evolve(plan, **given)
    return attrs.evolve(plan, with_nginx=plan.with_nginx and nginx_is_there())


def about(plan: Plan) -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "twisted": version("twisted"),
        "rounds": plan.rounds,
        "seconds": plan.seconds,
    }


def _stopped(number: int, frame: object) -> NoReturn:
    # An exception, so that the `with` blocks end the processes that were started.
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.workload == "hls":
        return _measure_hls(options)
    if options.workload == "capacity":
        return _measure_capacity(options)
    if options.workload == "draw":
        if options.json is None:
            parser.error("draw needs --json FILE")
        comparisons = report.from_json(options.json.read_text())
    else:
        comparisons = _measure_all(options)
    for stacks in sorted(options.profile.glob("*.stacks")) if options.profile is not None else ():
        sys.stdout.write(f"{stacks.stem}\n{as_text(stacks.read_text())}\n")
    show = report.as_rst if options.format == "rst" else report.as_text
    sys.stdout.write(show(comparisons))
    for path, draw in ((options.plot, cpu_plot), (options.latency_plot, latency_plot)):
        if path is not None:
            path.write_text(draw(comparisons))
    rows = [row for comparison in comparisons for row in comparison.ours]
    if any(row.errors for row in rows):
        return FAILED
    return NOISY if any(row.doubts() for row in rows) else 0


def _measure_hls(options: argparse.Namespace) -> int:
    allow_many_files()
    failed = 0
    seconds = options.seconds or 8.0
    for part in ("333ms", "200ms"):
        for viewers in (0, *(options.players or (1, 100))):
            figures = measure_hls(viewers, seconds, part)
            failed += figures.failed
            sys.stdout.write("\n".join(figures.lines()) + "\n")
    if varnish_is_there():
        cached = measure_cached(200, seconds)
        failed += cached.failed
        sys.stdout.write("\n".join(cached.lines()) + "\n")
    else:
        progress(
            "Varnish is not installed, or its documented file is not here: nothing is measured behind a cache"
        )
    return FAILED if failed else 0


def _measure_capacity(options: argparse.Namespace) -> int:
    allow_many_files()
    signal.signal(signal.SIGTERM, _stopped)
    climbs = capacity.climb_all(options.rows or capacity.ROWS, options.seconds or 4.0)
    sys.stdout.write(capacity.as_rst(climbs))
    if options.json is not None:
        options.json.write_text(capacity.as_json(climbs, about(plan_of(options))))
    if options.plot is not None:
        capacity.write_plot(climbs, options.plot)
    return 0 if all(climb.carried for climb in climbs) else FAILED


def _measure_all(options: argparse.Namespace) -> list[Comparison]:
    plan = plan_of(options)
    allow_many_files()
    signal.signal(signal.SIGTERM, _stopped)
    if not plan.with_nginx:
        progress("nginx-rtmp is left out or not installed: there will be no ratios")
    if options.profile is not None:
        options.profile.mkdir(parents=True, exist_ok=True)
    measure_once = partial(measure, profiles=options.profile)
    earlier: list[Comparison] = []
    if options.add and options.json is not None and options.json.exists():
        earlier = report.from_json(options.json.read_text())
    comparisons: list[Comparison] = []
    for case, contestants in cases(options.workload, plan):
        comparisons.append(compare(case, contestants, plan.rounds, plan.attempts, measure_once))
        if options.json is not None:
            # After each case, so that a run that is interrupted loses little.
            options.json.write_text(report.as_json(report.merged(earlier, comparisons), about(plan)))
    return report.merged(earlier, comparisons)


if __name__ == "__main__":
    sys.exit(main())
