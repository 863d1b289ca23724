"""How much one core carries: the load grows in steps until a server is late, loses a frame or has no time left."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from rtmprelay.bench.hls import HlsFigures, measure_hls
from rtmprelay.bench.measurement import measure
from rtmprelay.bench.plot import PlotLine, draw
from rtmprelay.bench.results import LEAST_IDLE_SHARE, MOST_OTHER_CORES, MOST_WORKER_SHARE, Case, Run
from rtmprelay.bench.rounds import Measure, progress
from rtmprelay.bench.servers import NGINX, OURS, SRS, Contestant, nginx_is_there, srs_is_there
from rtmprelay.bench.steps import SleepingReceivers
from rtmprelay.bench.stream import BITS_PER_SECOND
from rtmprelay.bench.workers import BenchError

#: Frames that are later than this are too late.
LATEST_MS = 250.0
#: A server that uses more of its core has no time left.
FULL = 0.95
#: Each step has so many times the load of the one before.
_GROWTH = 1.5

#: What is written at once when much is joined.
_JOINED = 40_000

_PLAYERS = "players"


@attrs.frozen
class Row:
    """One kind of load.

    Attributes:
        first: The load that begins.
        most: The load that ends: files and ports are limited too.
        case: The case for a load; None for viewers of HLS.
        peers: The other servers that can do this.
    """

    name: str
    first: int
    most: int
    case: Callable[[int, float], Case] | None
    peers: tuple[Contestant, ...] = ()


_PEERS = (NGINX, SRS)

ROWS = (
    Row(_PLAYERS, 500, 10_000, lambda load, seconds: Case("fanout", seconds, players=load), _PEERS),
    Row("publishers", 100, 3_000, lambda load, seconds: Case("ingest", seconds, publishers=load), _PEERS),
    Row(
        "publishers that are recorded",
        100,
        2_000,
        lambda load, seconds: Case("recording", seconds, publishers=load),
        _PEERS,
    ),
    Row("destinations", 50, 2_000, lambda load, seconds: Case("relay", seconds, destinations=load), _PEERS),
    Row("RTMPS players", 100, 5_000, lambda load, seconds: Case("fanout", seconds, players=load, tls=True)),
    Row(
        "RTMPS publishers",
        50,
        1_000,
        lambda load, seconds: Case("ingest", seconds, publishers=load, tls=True),
    ),
    Row("HLS viewers", 50, 1_000, None),
)


@attrs.frozen
class Step:
    """One load, and what became of it."""

    load: int
    cpu_share: float
    p99_ms: float | None
    kilobytes_per_player: float | None = None
    #: Why this load was too much; empty if it was carried.
    too_much: str = ""
    #: Why a larger load would say nothing about the server, if so.
    limit: str = ""


@attrs.define
class Climb:
    """The steps of one server on one row."""

    row: Row
    server: str
    steps: list[Step] = attrs.field(factory=list)

    @property
    def has_ended(self) -> bool:
        """Whether a larger load is pointless."""
        return bool(self.steps) and bool(self.steps[-1].too_much or self.steps[-1].limit)

    @property
    def carried(self) -> Step | None:
        """The largest load that was carried."""
        return next((step for step in reversed(self.steps) if not step.too_much), None)

    def cells(self) -> list[str]:
        """The line of the table."""
        last, carried = self.steps[-1], self.carried
        if carried is None:
            return [self.row.name, self.server, "-", "-", "-", "-", last.too_much]
        p99 = "-" if carried.p99_ms is None else f"{carried.p99_ms:.0f} ms"
        memory = "-" if carried.kilobytes_per_player is None else f"{carried.kilobytes_per_player:.1f} kB"
        why = f"{last.load}: {last.too_much}" if last.too_much else last.limit
        # Beyond this only the load generator or the table of loads ended.
        least = "" if last.too_much else "at least "
        share = f"{carried.cpu_share:.0%}"
        return [self.row.name, self.server, f"{least}{carried.load}", share, p99, memory, why]


def step_of(load: int, run: Run) -> Step:
    """What a run says about a load."""
    share = run.cpu_seconds / run.seconds
    reasons = []
    if run.lost or run.corrupt:
        reasons.append(f"{(run.lost or 0) + run.corrupt} frames lost")
    if run.p99_ms is not None and run.p99_ms > LATEST_MS:
        reasons.append(f"p99 {run.p99_ms:.0f} ms")
    if share > FULL:
        reasons.append("the core is full")
    if run.unread_bytes:
        reasons.append(f"{run.unread_bytes} bytes left unread")
    around = run.surroundings
    limit = ""
    if around.busiest_share > MOST_WORKER_SHARE:
        limit = "the load generator can do no more"
    elif around.idle_share < LEAST_IDLE_SHARE and around.other_cores < MOST_OTHER_CORES:
        limit = "the machine has no time left"
    return Step(load, share, run.p99_ms, run.kilobytes_per_player, ", ".join(reasons), limit)


def step_of_hls(figures: HlsFigures) -> Step:
    """The same for viewers of HLS: a part's newest frame is as old as it got on its way."""
    ages = figures.newest_ms
    p99 = ages[int(0.99 * len(ages))] if ages else None
    reasons = []
    if figures.failed:
        reasons.append(f"{figures.failed} requests failed")
    if p99 is None or p99 > LATEST_MS:
        reasons.append("no part came" if p99 is None else f"p99 {p99:.0f} ms")
    if figures.cpu_share > FULL:
        reasons.append("the core is full")
    return Step(figures.viewers, figures.cpu_share, p99, too_much=", ".join(reasons))


def climb_all(
    rows: Sequence[Row],
    seconds: float,
    measure_once: Measure = measure,
    hls_once: Callable[[int, float, str], HlsFigures] = measure_hls,
) -> list[Climb]:
    """Let the load of each row grow for all servers in turn."""
    done: list[Climb] = []
    for row in rows:
        peers = [peer for peer in row.peers if {NGINX: nginx_is_there, SRS: srs_is_there}[peer]()]
        climbs = {contestant: Climb(row, contestant.name) for contestant in (OURS_WITHOUT_BOUNDS, *peers)}
        done += climbs.values()
        load = row.first
        while load <= row.most and not all(climb.has_ended for climb in climbs.values()):
            for contestant, climb in climbs.items():
                if climb.has_ended:
                    continue
                try:
                    if row.case is None:
                        step = step_of_hls(hls_once(load, seconds, "333ms"))
                    else:
                        step = step_of(load, measure_once(contestant, row.case(load, seconds)))
                except BenchError as error:
                    step = Step(load, 0.0, None, too_much=str(error))
                climb.steps.append(step)
                progress(
                    f"{load} {row.name}: {contestant.name}: {step.cpu_share:.0%} {step.too_much or step.limit}"
                )
            load = int(load * _GROWTH)
        for climb in climbs.values():
            if not climb.has_ended:
                climb.steps[-1] = attrs.evolve(climb.steps[-1], limit="no larger load was tried")
    return done


#: One address has all players here.
OURS_WITHOUT_BOUNDS = Contestant(
    OURS.name,
    (
        "--limit=max_connections_per_address=none",
        "--limit=max_unconnected_per_address=20000",
        "--limit=connection_rate_per_address=none",
        "--limit=max_connections=20000",
    ),
)

HEADINGS = ("load", "server", "one core carries", "CPU", "latency p99", "a player", "ended by")


def as_rst(climbs: Sequence[Climb]) -> str:
    """The table for documents."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for cells in [list(HEADINGS), *[climb.cells() for climb in climbs]]:
        lines += [f"   {' ' if index else '*'} - {cell}" for index, cell in enumerate(cells)]
    return "\n".join(lines) + "\n"


def as_json(climbs: Sequence[Climb], about: dict[str, Any]) -> str:
    """Every step, and what the figures depend on."""
    rows = [
        {"row": climb.row.name, "server": climb.server, "steps": list(map(attrs.asdict, climb.steps))}
        for climb in climbs
    ]
    return json.dumps({"version": 1, "about": about, "rows": rows}, indent=1) + "\n"


def physical_limit(loads: Sequence[int], send: Callable[[], float]) -> PlotLine:
    """The least CPU that any server needs: the kernel's `send` of joined blocks, and nothing else.

    Args:
        send: The CPU microseconds of one.
    """
    each = BITS_PER_SECOND / 8 / _JOINED * send() / 1e6
    return PlotLine("sending alone", tuple((load, 100 * each * load) for load in loads))


def cost_of_a_send() -> float:
    """CPU microseconds of one `send` of a joined block to one of 200 players."""
    receivers = SleepingReceivers(200)
    try:
        return receivers.cost_of_sending(_JOINED, lambda: None, 20)
    finally:
        receivers.close()


def plot(climbs: Sequence[Climb], send: Callable[[], float] = cost_of_a_send) -> str:
    """CPU by the number of players, with the physical limit."""
    lines = [
        PlotLine(
            climb.server,
            tuple((step.load, 100 * step.cpu_share) for step in climb.steps if not step.too_much),
            climb.server == NGINX.name,
        )
        for climb in climbs
        if climb.row.name == _PLAYERS and climb.carried is not None
    ]
    loads = sorted({load for line in lines for load, _ in line.points})
    return draw(
        "CPU of one core by number of players",
        f"Loads with p99 below {LATEST_MS:g} ms and nothing lost; percent; less is better",
        "%",
        [*lines, physical_limit(loads, send)] if lines else [],
    )


def write_plot(climbs: Sequence[Climb], path: Path) -> None:
    """Draw the plot, unless no row of players was measured."""
    if any(climb.row.name == _PLAYERS and climb.carried is not None for climb in climbs):
        path.write_text(plot(climbs))
