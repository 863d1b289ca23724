"""What is measured: a case, one run of one server on it, and whether the machine was quiet enough."""

from __future__ import annotations

import os

import attrs

from rtmprelay.errors import ConfigError

WORKLOADS = ("fanout", "relay", "ingest", "join", "recording")

#: Beyond these limits a run says more about the machine than about the server.
MOST_OTHER_CORES = 0.25
MOST_STOLEN_CORES = 0.05
MOST_WORKER_SHARE = 0.9
MOST_LATE_MS = 20.0
LEAST_IDLE_SHARE = 0.03


@attrs.frozen
class Case:
    """A load: a workload and its numbers."""

    workload: str
    seconds: float
    publishers: int = 1
    players: int = 0
    destinations: int = 0
    joins: int = 0
    chunk_size: int = 4096
    #: Whether publishers and players come over TLS.
    tls: bool = False

    def __attrs_post_init__(self) -> None:
        if self.workload not in WORKLOADS:
            raise ConfigError(f"unknown workload {self.workload!r}: choose from {', '.join(WORKLOADS)}")

    @property
    def title(self) -> str:
        over_tls = " over TLS" if self.tls else ""
        match self.workload:
            case "fanout":
                return f"fan-out, {self.players} players{over_tls}"
            case "relay":
                return f"relay, {self.destinations} destinations"
            case "ingest":
                return f"ingest, {self.publishers} publishers{over_tls}, {self.chunk_size}-byte chunks"
            case "recording":
                return f"recording, {self.publishers} publishers"
            case _:
                return f"join to first keyframe, {self.joins} joins"


@attrs.frozen
class Surroundings:
    """What else the machine did during a run, in cores, and whether the load generator kept up."""

    other_cores: float
    stolen_cores: float
    idle_share: float
    generator_cores: float
    #: The busiest process of the load generator, and its share of a core.
    busiest_worker: str
    busiest_share: float
    #: How late the publisher sent its frames, 99th percentile.
    late_ms: float

    def doubts(self) -> list[str]:
        """Reasons to distrust the figures; empty if there are none."""
        found = []
        if self.other_cores > MOST_OTHER_CORES:
            found.append(f"other processes used {self.other_cores:.2f} cores")
        if self.stolen_cores > MOST_STOLEN_CORES:
            found.append(f"the host stole {self.stolen_cores:.2f} cores")
        if self.busiest_share > MOST_WORKER_SHARE:
            found.append(
                f"the {self.busiest_worker} of the load generator were busy {self.busiest_share:.0%} of the time"
            )
        if self.late_ms > MOST_LATE_MS:
            found.append(f"the load generator sent up to {self.late_ms:.0f} ms late")
        if self.idle_share < LEAST_IDLE_SHARE:
            found.append(f"the machine was idle only {self.idle_share:.0%} of the time")
        return found

    @property
    def disturbance(self) -> float:
        """The smaller of two is the quieter run."""
        return self.other_cores + self.stolen_cores


def surroundings(
    seconds: float,
    busy: float,
    stolen: float,
    server: float,
    workers: dict[str, float],
    late_ms: float,
    own: float = 0.0,
) -> Surroundings:
    """Work out the shares from the CPU seconds of the machine, the server, each worker and the benchmark itself."""
    cores = os.cpu_count() or 1
    busiest = max(workers, key=lambda name: workers[name])
    known = server + sum(workers.values()) + own
    return Surroundings(
        other_cores=max(0.0, busy - known) / seconds,
        stolen_cores=stolen / seconds,
        idle_share=max(0.0, 1.0 - (busy + stolen) / seconds / cores),
        generator_cores=sum(workers.values()) / seconds,
        busiest_worker=busiest,
        busiest_share=workers[busiest] / seconds,
        late_ms=late_ms,
    )


@attrs.frozen
class Run:
    """One run of one server."""

    server: str
    seconds: float
    cpu_seconds: float
    gigabytes: float
    surroundings: Surroundings
    #: Added latency of the probes; None where the server sends nothing on.
    p50_ms: float | None = None
    p99_ms: float | None = None
    #: The same for all receivers, including the crowd, which looks at its sockets only now and then.
    p99_all_ms: float | None = None
    #: Frames that were published, and how many the server should have sent on or recorded.
    sent: int = 0
    frames: int = 0
    lost: int | None = None
    corrupt: int = 0
    join_p50_ms: float | None = None
    join_p99_ms: float | None = None
    kilobytes_per_player: float | None = None
    #: Bytes that the server had not read at the end.
    unread_bytes: int = 0
    attempts: int = 1

    @property
    def cpu_per_gigabyte(self) -> float | None:
        """CPU seconds for each GB (10^9 bytes) of media delivered, or taken in where nothing is delivered."""
        return self.cpu_seconds / self.gigabytes if self.gigabytes else None
