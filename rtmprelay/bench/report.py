"""The results for a terminal (text), for documents (reStructuredText) and for programs (JSON)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs
import cattrs

from rtmprelay.bench.results import Case, Run
from rtmprelay.bench.rounds import Comparison, ResultRow
from rtmprelay.bench.servers import NGINX, OURS, Contestant

HEADINGS = (
    "load",
    "rtmprelay",
    "nginx-rtmp",
    "ratio",
    "latency p50 / p99",
    "nginx-rtmp's",
    "lost",
    "a player",
    "target",
    "reached",
)

NOTE = (
    "CPU seconds of the server for each GB of media delivered (ingest, recording: received); joins: 99th percentile. "
    "Medians of {rounds} rounds, ratios within each round. "
    "Latency is from the publisher's send to the player's receive."
)


def _number(value: float | None, digits: int, unit: str = "") -> str:
    return "-" if value is None else f"{value:.{digits}f}{unit}"


def _figure(row: ResultRow | None) -> str:
    """The main figure of the case."""
    if row is None:
        return "-"
    if row.case.joins:
        return _number(row.median(lambda run: run.join_p99_ms), 1, " ms")
    return _number(row.median(lambda run: run.cpu_per_gigabyte), 2, " s/GB")


def _latency(row: ResultRow | None) -> str:
    if row is None:
        return "-"
    p50, p99 = row.median(lambda run: run.p50_ms), row.median(lambda run: run.p99_ms)
    return "-" if p99 is None else f"{_number(p50, 1)} / {_number(p99, 1)} ms"


def cells(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """The table without its headings."""
    table = []
    for comparison in comparisons:
        for row in comparison.ours:
            ratio = None if comparison.case.joins else comparison.ratio(row)
            reached = comparison.is_reached(row)
            lost = row.total(lambda run: run.lost)
            table.append(
                [
                    comparison.case.title + row.contestant.name.removeprefix(OURS.name),
                    _figure(row),
                    _figure(comparison.nginx),
                    _number(ratio, 2),
                    _latency(row),
                    _latency(comparison.nginx),
                    "-" if lost is None else f"{lost} of {row.total(lambda run: run.frames)}",
                    _number(row.median(lambda run: run.kilobytes_per_player), 1, " kB"),
                    str(comparison.target(row)) or "-",
                    {True: "yes", False: "no", None: "-"}[reached],
                ]
            )
    return table


def notes(comparisons: Sequence[Comparison]) -> list[str]:
    """What failed, what was wrong, and which figures to distrust."""
    found = []
    for comparison in comparisons:
        rows = [*comparison.ours, *([comparison.nginx] if comparison.nginx else [])]
        for row in rows:
            label = f"{comparison.case.title}, {row.contestant.name}"
            found += [f"{label}: not measured: {error}" for error in row.errors]
            found += [f"{label}: too noisy to tell ({doubt})" for doubt in row.doubts()]
            corrupt = row.total(lambda run: run.corrupt)
            if corrupt:
                found.append(f"{label}: {corrupt} frames were not what was sent")
            unread = row.total(lambda run: run.unread_bytes)
            if unread:
                found.append(f"{label}: {unread} bytes were not read at the end")
    if any(comparison.nginx is None for comparison in comparisons):
        found.append(
            "nginx-rtmp was not measured (Debian: nginx and libnginx-mod-rtmp), so there are no ratios"
        )
    return found


def _intro(comparisons: Sequence[Comparison]) -> str:
    rounds = max((len(row.runs) for comparison in comparisons for row in comparison.ours), default=0)
    return NOTE.format(rounds=rounds)


def as_text(comparisons: Sequence[Comparison]) -> str:
    table = [list(HEADINGS), *cells(comparisons)]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEADINGS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    text = [*lines, "", _intro(comparisons)]
    found = notes(comparisons)
    return "\n".join([*text, *(f"! {note}" for note in found)]) + "\n"


def as_rst(comparisons: Sequence[Comparison]) -> str:
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for line in [list(HEADINGS), *cells(comparisons)]:
        for index, cell in enumerate(line):
            lines.append(f"   {'*' if index == 0 else ' '} - {cell}")
    lines += ["", _intro(comparisons)]
    found = notes(comparisons)
    if found:
        lines += ["", *(f"* {note}" for note in found)]
    return "\n".join(lines) + "\n"


def as_json(comparisons: Sequence[Comparison], about: dict[str, Any]) -> str:
    """Every run, one on each line."""
    entries = []
    for comparison in comparisons:
        rows = [*comparison.ours, *([comparison.nginx] if comparison.nginx else [])]
        for row in rows:
            runs = [{"round": number, **attrs.asdict(run)} for number, run in row.runs.items()]
            head = {"case": attrs.asdict(row.case), "server": attrs.asdict(row.contestant)}
            body = ",\n".join("   " + json.dumps(run) for run in runs)
            entries.append(
                f'  {json.dumps(head)[:-1]}, "errors": {json.dumps(row.errors)}, "runs": [\n{body}]}}'
            )
    listed = ",\n".join(entries)
    return f'{{"version": 1, "about": {json.dumps(about)}, "rows": [\n{listed}\n]}}\n'


def merged(earlier: Sequence[Comparison], later: Sequence[Comparison]) -> list[Comparison]:
    """Join two sets of results; a case that is in both gets more rounds."""
    rows: dict[Case, dict[Contestant, ResultRow]] = {}
    for comparison in [*earlier, *later]:
        by_server = rows.setdefault(comparison.case, {})
        first = max((number for row in by_server.values() for number in row.runs), default=-1) + 1
        for row in [*comparison.ours, *([comparison.nginx] if comparison.nginx else [])]:
            target = by_server.setdefault(row.contestant, ResultRow(row.case, row.contestant))
            target.runs.update({first + number: run for number, run in row.runs.items()})
            target.errors += row.errors
    return [_comparison(case, list(by_server.values())) for case, by_server in rows.items()]


def _comparison(case: Case, rows: Sequence[ResultRow]) -> Comparison:
    ours = [row for row in rows if row.contestant != NGINX]
    return Comparison(case, ours, next((row for row in rows if row.contestant == NGINX), None))


def from_json(text: str) -> list[Comparison]:
    """What `as_json` wrote."""
    by_case: dict[Case, list[ResultRow]] = {}
    for entry in json.loads(text)["rows"]:
        case = cattrs.structure(entry["case"], Case)
        row = ResultRow(case, cattrs.structure(entry["server"], Contestant))
        row.errors = list(entry["errors"])
        row.runs = {run["round"]: cattrs.structure(run, Run) for run in entry["runs"]}
        by_case.setdefault(case, []).append(row)
    return [_comparison(case, rows) for case, rows in by_case.items()]
