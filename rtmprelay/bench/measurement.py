"""One run: a server is started, loaded and watched."""

from __future__ import annotations

import math
import resource
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import attrs

from rtmprelay.bench.connections import APP, HOST
from rtmprelay.bench.processes import Sample, sample, unread_now
from rtmprelay.bench.profiling import profiled
from rtmprelay.bench.results import Case, Run, surroundings
from rtmprelay.bench.servers import Contestant, Extras, RunningServer
from rtmprelay.bench.stream import MEASURED
from rtmprelay.bench.tasks import (
    Joined,
    JoinTask,
    PlayTask,
    PublishTask,
    Received,
    Sent,
    SinkTask,
    add_up,
    percentile_ms,
)
from rtmprelay.bench.workers import BenchError, Worker, Workers

#: Players that compare every byte and whose latency counts, in a process of their own.
PROBES = 8
JOINS_PER_SECOND = 20.0

_READY_WITHIN = 60.0
_ANSWER_WITHIN = 15.0
#: Seconds for the server to settle before anything is measured.
_WARM_UP = 1.2
#: More players in one process would make it late.
_MOST_IN_A_CROWD = 500
#: Seconds that the crowd sleeps between two looks at its sockets.
_CROWD_RESTS = 0.001


def allow_many_files() -> None:
    """A thousand players need a thousand file descriptors, here and in every process started from here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@attrs.define
class _Load:
    """The processes of the load generator for one run."""

    publishers: Worker
    #: The last of them are the probes, whose latency counts.
    receivers: list[Worker]
    joiner: Worker | None = None


def measure(contestant: Contestant, case: Case, profiles: Path | None = None) -> Run:
    """Run a case once; if `profiles` is a folder, write a profile of our server there."""
    with Workers() as workers:
        sinks, extras = _prepare_sinks(workers, case)
        with RunningServer(contestant, extras) as server:
            run = _measure_running(contestant, case, server, workers, sinks, profiles)
            if case.workload == "recording":
                # Recordings are complete only after the server has ended.
                server.stop()
                unrecorded = run.sent - recorded_frames(server.recordings())
                run = attrs.evolve(run, frames=run.frames + run.sent, lost=(run.lost or 0) + unrecorded)
            return run


def _prepare_sinks(workers: Workers, case: Case) -> tuple[Worker | None, Extras]:
    record = case.workload == "recording"
    if not case.destinations:
        return None, Extras(record=record, tls=case.tls)
    sinks = workers.start("destinations", SinkTask(case.destinations, PROBES))
    port = sinks.wait_for("listening", _ANSWER_WITHIN)
    urls = tuple(f"rtmp://{HOST}:{port}/{APP}/to{number}" for number in range(case.destinations))
    return sinks, Extras(urls, record, case.tls)


def _measure_running(
    contestant: Contestant,
    case: Case,
    server: RunningServer,
    workers: Workers,
    sinks: Worker | None,
    profiles: Path | None,
) -> Run:
    load, alone = _start_load(case, server, workers, sinks)
    load.publishers.order("warm up")
    time.sleep(_WARM_UP)
    own = time.process_time()
    before = sample(server.pid)
    for worker in workers.all:
        worker.order("open")
    with _profile(contestant, case, server.pid, profiles):
        time.sleep(case.seconds)
    load.publishers.order("close")
    sent = load.publishers.result("sent", Sent, _ANSWER_WITHIN)
    reports: list[Received] = []
    for worker in load.receivers:
        worker.order("expect", frames=sent.frames)
    for worker in load.receivers:
        reports.append(worker.result("received", Received, _ANSWER_WITHIN))
    joined = _joined(load)
    unread = sent.unsent + _wait_until_read(server.port)
    after = sample(server.pid)
    if server.has_ended:
        raise BenchError(f"{contestant.name} ended in the middle")
    run = _result(contestant, case, (before, after), sent, reports, workers, time.process_time() - own)
    probes = reports[-1].latency if reports else {}
    return attrs.evolve(
        run,
        p50_ms=percentile_ms(probes, 0.5),
        p99_ms=percentile_ms(probes, 0.99),
        kilobytes_per_player=(after.resident - alone.resident) / case.players / 1000
        if case.players
        else None,
        join_p50_ms=_percentile(joined, 0.5),
        join_p99_ms=_percentile(joined, 0.99),
        unread_bytes=unread,
    )


def _profile(
    contestant: Contestant, case: Case, pid: int, folder: Path | None
) -> AbstractContextManager[None]:
    if folder is None or contestant.is_nginx:
        return nullcontext()
    return profiled(pid, case.seconds - 0.5, folder / f"{contestant.name}, {case.title}.stacks")


def _start_load(
    case: Case, server: RunningServer, workers: Workers, sinks: Worker | None
) -> tuple[_Load, Sample]:
    """Connect everybody; also return a sample of the server taken before the first player joined."""
    publishers = workers.start(
        "publishers", PublishTask(server.port, case.publishers, case.chunk_size, case.tls)
    )
    publishers.wait_for("ready", _READY_WITHIN)
    load = _Load(publishers, [])
    if sinks is not None:
        sinks.wait_for("ready", _READY_WITHIN)
        load.receivers.append(sinks)
    time.sleep(0.3)
    alone = sample(server.pid)
    if case.players:
        load.receivers += _start_players(case.players, server.port, workers, case.tls)
    if case.joins:
        load.joiner = workers.start("joiners", JoinTask(server.port, case.joins, JOINS_PER_SECOND))
        load.joiner.wait_for("ready", _READY_WITHIN)
    return load, alone


def _start_players(count: int, port: int, workers: Workers, tls: bool) -> list[Worker]:
    """Start the crowd and the probes. One probe joins after each eighth of the crowd, so that they are spread over it."""
    steps = min(PROBES, count)
    crowd_size = count - steps
    crowds = [
        workers.start(f"crowd {number}", PlayTask(port, False, _CROWD_RESTS, tls))
        for number in range(math.ceil(crowd_size / _MOST_IN_A_CROWD))
    ]
    probes = workers.start("probes", PlayTask(port, True, 0.0, tls))
    for step in range(steps):
        for number, crowd in enumerate(crowds):
            joins = share(share(crowd_size, number, len(crowds)), step, steps)
            crowd.order("join", join=joins)
            crowd.wait_for("ready", _READY_WITHIN)
        probes.order("join", join=1)
        probes.wait_for("ready", _READY_WITHIN)
    return [*crowds, probes]


def share(whole: int, number: int, parts: int) -> int:
    """The size of part `number` when `whole` is split into `parts` nearly equal parts."""
    return whole * (number + 1) // parts - whole * number // parts


def _joined(load: _Load) -> list[float]:
    if load.joiner is None:
        return []
    load.joiner.order("expect")
    joined = load.joiner.result("joined", Joined, _ANSWER_WITHIN)
    if joined.failed:
        raise BenchError(f"{joined.failed} joins failed")
    return joined.milliseconds


def _percentile(values: list[float], share: float) -> float | None:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else None


def _wait_until_read(port: int) -> int:
    """Give the server time to read what its kernel holds; return the bytes left unread after that."""
    deadline = time.monotonic() + 2.0
    unread = unread_now(port)
    while unread and time.monotonic() < deadline:
        time.sleep(0.01)
        unread = unread_now(port)
    return unread


def _result(
    contestant: Contestant,
    case: Case,
    samples: tuple[Sample, Sample],
    sent: Sent,
    reports: list[Received],
    workers: Workers,
    own_cpu: float,
) -> Run:
    before, after = samples
    seconds = after.at - before.at
    cpu = after.cpu_since(before)
    used = {worker.name: worker.wait_for("used", _ANSWER_WITHIN)["cpu"] for worker in workers.all}
    around = surroundings(
        seconds,
        after.machine_busy - before.machine_busy,
        after.machine_stolen - before.machine_stolen,
        cpu,
        used,
        percentile_ms(sent.lateness, 0.99) or 0.0,
        own_cpu,
    )
    receivers = sum(report.receivers for report in reports)
    delivered = sum(report.bytes for report in reports) if reports else sent.bytes
    if sent.lost_connections or any(report.lost_connections for report in reports):
        raise BenchError(f"{contestant.name} closed connections")
    return Run(
        server=contestant.name,
        seconds=seconds,
        cpu_seconds=cpu,
        gigabytes=delivered / 1e9,
        surroundings=around,
        p99_all_ms=percentile_ms(add_up([report.latency for report in reports]), 0.99),
        sent=sent.frames,
        frames=sent.frames * receivers,
        lost=sent.frames * receivers - sum(report.frames for report in reports) if reports else None,
        corrupt=sum(report.corrupt + report.disordered for report in reports),
    )


def recorded_frames(files: list[Path]) -> int:
    """Count the frames of the measured time in the recordings."""
    total = 0
    for path in files:
        with path.open("rb") as file:
            kept = b""
            while data := file.read(1 << 22):
                total += (kept + data).count(MEASURED)
                kept = data[1 - len(MEASURED) :]
    return total
