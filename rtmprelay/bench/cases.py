"""Which loads are measured with which servers, and what each is expected to reach."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rtmprelay.bench.measurement import JOINS_PER_SECOND
from rtmprelay.bench.results import Case
from rtmprelay.bench.servers import NGINX, OURS, Contestant, ours_with_window

#: Stands for the server's own default merge window.
DEFAULT_WINDOW = "default"


@attrs.frozen
class Plan:
    """How many players, destinations, publishers, rounds ... to measure."""

    players: Sequence[int] = (20, 200, 500, 1000)
    windows: Sequence[str] | None = None
    destinations: Sequence[int] = (10, 50)
    publishers: Sequence[int] = (10, 50)
    chunk_sizes: Sequence[int] = (4096, 128)
    joins: int = 100
    seconds: float = 8.0
    rounds: int = 3
    attempts: int = 3
    with_nginx: bool = True


#: About a minute.
QUICK = Plan(
    players=(200,),
    windows=(DEFAULT_WINDOW,),
    destinations=(10,),
    publishers=(50,),
    chunk_sizes=(4096,),
    joins=40,
    seconds=2.0,
    rounds=1,
    attempts=1,
)


def _windows(plan: Plan, players: int) -> Sequence[str]:
    if plan.windows is not None:
        return plan.windows
    return (DEFAULT_WINDOW, "120ms") if players >= 200 else (DEFAULT_WINDOW,)


def _contestants(plan: Plan, windows: Sequence[str] = (DEFAULT_WINDOW,)) -> list[Contestant]:
    ours = [OURS if window == DEFAULT_WINDOW else ours_with_window(window) for window in windows]
    return [*ours, *([NGINX] if plan.with_nginx else [])]


def cases(workload: str, plan: Plan) -> list[tuple[Case, list[Contestant]]]:
    """The cases of a workload, or of all."""
    made: list[tuple[Case, list[Contestant]]] = []
    if workload in ("fanout", "all"):
        for players in plan.players:
            case = Case("fanout", plan.seconds, players=players)
            made.append((case, _contestants(plan, _windows(plan, players))))
    if workload in ("relay", "all"):
        for count in plan.destinations:
            made.append((Case("relay", plan.seconds, destinations=count), _contestants(plan)))
    if workload in ("ingest", "all"):
        for size in plan.chunk_sizes:
            for count in plan.publishers:
                case = Case("ingest", plan.seconds, publishers=count, chunk_size=size)
                made.append((case, _contestants(plan)))
    if workload in ("join", "all"):
        # All must join, and the last one waits for a keyframe.
        seconds = plan.joins / JOINS_PER_SECOND + 3.0
        made.append((Case("join", seconds, players=20, joins=plan.joins), _contestants(plan)))
    if workload in ("recording", "all"):
        case = Case("recording", plan.seconds, publishers=max(plan.publishers))
        made.append((case, _contestants(plan)))
    return made


@attrs.frozen
class Goal:
    """Upper bounds, as ratios to nginx-rtmp in the same run and as absolute figures; None where there is no bound."""

    ratio: float | None = None
    p99_ms: float | None = None
    join_p99_ms: float | None = None
    kilobytes_per_player: float | None = None

    def __str__(self) -> str:
        parts = []
        if self.ratio is not None:
            parts.append(f"{self.ratio:g} x")
        if self.p99_ms is not None:
            parts.append(f"p99 {self.p99_ms:g} ms")
        if self.join_p99_ms is not None:
            parts.append(f"{self.join_p99_ms:g} ms")
        if self.kilobytes_per_player is not None:
            parts.append(f"{self.kilobytes_per_player:g} kB")
        return ", ".join(parts)

    def is_reached(self, **figures: float | None) -> bool | None:
        """Whether all bounds are kept; None without bounds, or if none is broken but a figure is missing."""
        bounds = {name: bound for name, bound in attrs.asdict(self).items() if bound is not None}
        measured = {name: figures[name] for name in bounds}
        if any(figure is not None and figure > bounds[name] for name, figure in measured.items()):
            return False
        return None if not bounds or None in measured.values() else True


def target_of(case: Case, window: str | None) -> Goal:
    """The target of a case for a server with this merge window; None stands for the default window."""
    match case.workload:
        case "fanout":
            return _fanout_target(case.players, window)
        case "relay":
            ratio = 1.5 if case.destinations <= 10 else 1.0 if case.destinations >= 50 else None
            return Goal(ratio=ratio, p99_ms=20.0)
        case "ingest":
            return Goal(ratio=3.0 if case.chunk_size >= 4096 else 6.0)
        case "join":
            return Goal(join_p99_ms=15.0)
        case _:
            return Goal()


def _fanout_target(players: int, window: str | None) -> Goal:
    # With few players, memory that all of them share counts as theirs.
    memory = 60.0 if players >= 200 else None
    if window is not None:
        wide = window == "120ms" and players >= 200
        return Goal(ratio=0.3 if wide else None, kilobytes_per_player=memory)
    if players <= 20:
        return Goal(p99_ms=10.0)
    ratio = None if players < 200 else 0.6 if players < 1000 else 0.8
    return Goal(ratio=ratio, p99_ms=60.0, kilobytes_per_player=memory)
