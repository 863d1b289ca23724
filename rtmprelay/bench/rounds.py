"""Many runs: servers take turns, noisy runs are repeated, and medians count."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import attrs

from rtmprelay.bench.cases import Goal, target_of
from rtmprelay.bench.measurement import measure
from rtmprelay.bench.processes import sample
from rtmprelay.bench.results import MOST_OTHER_CORES, Case, Run
from rtmprelay.bench.servers import NGINX, Contestant
from rtmprelay.bench.workers import BenchError

Measure = Callable[[Contestant, Case], Run]

#: Seconds to wait at most for a quiet machine before a run.
_WAIT_FOR_QUIET = 10.0


def progress(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


@attrs.define
class ResultRow:
    """All runs of one server on one case, by round."""

    case: Case
    contestant: Contestant
    runs: dict[int, Run] = attrs.field(factory=dict)
    errors: list[str] = attrs.field(factory=list)

    def median(self, figure: Callable[[Run], float | None]) -> float | None:
        values = [value for run in self.runs.values() if (value := figure(run)) is not None]
        return statistics.median(values) if values else None

    def total(self, figure: Callable[[Run], int | None]) -> int | None:
        values = [value for run in self.runs.values() if (value := figure(run)) is not None]
        return sum(values) if values else None

    def ratio_to(self, other: ResultRow | None, figure: Callable[[Run], float | None]) -> float | None:
        """The median of the ratios within each round: a disturbance hits both servers of a round."""
        if other is None:
            return None
        ratios = []
        for number, run in self.runs.items():
            mine = figure(run)
            theirs = figure(other.runs[number]) if number in other.runs else None
            if mine is not None and theirs:
                ratios.append(mine / theirs)
        return statistics.median(ratios) if ratios else None

    def doubts(self) -> list[str]:
        """Reasons to distrust this row, if more than a third of its runs were doubtful."""
        doubtful = [doubts for run in self.runs.values() if (doubts := run.surroundings.doubts())]
        if 3 * len(doubtful) <= len(self.runs):
            return []
        return [f"{len(doubtful)} of {len(self.runs)} runs: " + "; ".join(doubtful[-1])]


@attrs.frozen
class Comparison:
    """The rows of one case: one or more of ours, and that of nginx-rtmp if it was measured."""

    case: Case
    ours: list[ResultRow]
    nginx: ResultRow | None

    def target(self, row: ResultRow) -> Goal:
        window = row.contestant.options[-1] if row.contestant.options else None
        return target_of(self.case, window)

    def ratio(self, row: ResultRow) -> float | None:
        """The CPU of one of our rows as a multiple of nginx-rtmp's."""
        return row.ratio_to(self.nginx, lambda run: run.cpu_per_gigabyte)

    def is_reached(self, row: ResultRow) -> bool | None:
        """Whether one of our rows reached its target; None without a target or without the figures."""
        return self.target(row).is_reached(
            ratio=self.ratio(row),
            p99_ms=row.median(lambda run: run.p99_ms),
            join_p99_ms=row.median(lambda run: run.join_p99_ms),
            kilobytes_per_player=row.median(lambda run: run.kilobytes_per_player),
        )


def compare(
    case: Case,
    contestants: Sequence[Contestant],
    rounds: int,
    attempts: int,
    measure_once: Measure = measure,
    wait: Callable[[], None] | None = None,
) -> Comparison:
    """Let servers take turns: A B, B A, A B, so that a machine that slows down favours none."""
    rows = {contestant: ResultRow(case, contestant) for contestant in contestants}
    for number in range(rounds):
        order = list(contestants) if number % 2 == 0 else list(reversed(contestants))
        for contestant in order:
            row = rows[contestant]
            label = f"{case.title}: {contestant.name}, round {number + 1} of {rounds}"
            try:
                run = _believable(contestant, case, attempts, measure_once, wait or wait_for_quiet)
            except BenchError as error:
                row.errors.append(str(error))
                progress(f"{label}: {error}")
                continue
            row.runs[number] = run
            progress(f"{label}: {_short(run)}")
    ours = [row for contestant, row in rows.items() if contestant != NGINX]
    return Comparison(case, ours, rows.get(NGINX))


def _short(run: Run) -> str:
    parts = []
    if run.join_p99_ms is not None:
        parts.append(f"joined in {run.join_p99_ms:.1f} ms")
    elif run.cpu_per_gigabyte is not None:
        parts.append(f"{run.cpu_per_gigabyte:.2f} s/GB")
    if run.p99_ms is not None:
        parts.append(f"p99 {run.p99_ms:.1f} ms")
    if run.lost:
        parts.append(f"{run.lost} LOST")
    if run.corrupt:
        parts.append(f"{run.corrupt} CORRUPT")
    parts += [f"doubtful: {doubt}" for doubt in run.surroundings.doubts()]
    return ", ".join(parts)


def _believable(
    contestant: Contestant, case: Case, attempts: int, measure_once: Measure, wait: Callable[[], None]
) -> Run:
    """Measure until the machine was quiet, at most `attempts` times; otherwise return the quietest run."""
    best: Run | None = None
    failure: BenchError | None = None
    for attempt in range(1, attempts + 1):
        wait()
        try:
            run = attrs.evolve(measure_once(contestant, case), attempts=attempt)
        except BenchError as error:
            failure = error
            continue
        doubts = run.surroundings.doubts()
        if best is None or not doubts or run.surroundings.disturbance < best.surroundings.disturbance:
            best = run
        if not doubts:
            break
        if attempt < attempts:
            progress(f"  once more, because {'; '.join(doubts)}")
    if best is None:
        raise failure or BenchError("nothing was measured")
    return best


def wait_for_quiet() -> None:
    """Wait for half a second in which the machine is idle, up to _WAIT_FOR_QUIET."""
    deadline = time.monotonic() + _WAIT_FOR_QUIET
    before = sample(os.getpid())
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now = sample(os.getpid())
        if (now.machine_busy - before.machine_busy) / (now.at - before.at) < MOST_OTHER_CORES:
            return
        before = now
