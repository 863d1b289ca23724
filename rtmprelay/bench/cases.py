"""Which loads are measured, and with which servers."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rtmprelay.bench.measurement import JOINS_PER_SECOND
from rtmprelay.bench.results import Case
from rtmprelay.bench.servers import NGINX, OURS, Contestant, ours_with_window

#: The merge window that a server has when nothing is said.
DEFAULT_WINDOW = "default"


@attrs.frozen
class Plan:
    """How much of everything."""

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
        # Time for all to join, and for the last one to wait for a keyframe.
        seconds = plan.joins / JOINS_PER_SECOND + 3.0
        made.append((Case("join", seconds, players=20, joins=plan.joins), _contestants(plan)))
    if workload in ("recording", "all"):
        case = Case("recording", plan.seconds, publishers=max(plan.publishers))
        made.append((case, _contestants(plan)))
    return made
