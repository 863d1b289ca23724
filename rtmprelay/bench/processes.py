"""CPU and memory of processes and of the machine, from /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import attrs

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


@attrs.frozen
class ProcessStat:
    """The fields of /proc/PID/stat that are used here."""

    parent: int
    cpu: float
    resident: int


def read_stat(line: str) -> ProcessStat:
    """Parse a line of /proc/PID/stat. The process name in it may contain spaces and brackets."""
    fields = line.rpartition(")")[2].split()
    return ProcessStat(
        parent=int(fields[1]),
        cpu=(int(fields[11]) + int(fields[12])) / _TICK,
        resident=int(fields[21]) * _PAGE,
    )


def family(stats: dict[int, ProcessStat], eldest: int) -> list[int]:
    """A process and all its descendants."""
    found = [eldest]
    for pid in found:
        found += [child for child, stat in stats.items() if stat.parent == pid and child not in found]
    return found


def _all_stats() -> dict[int, ProcessStat]:
    stats = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                stats[int(folder.name)] = read_stat((folder / "stat").read_text())
            except (OSError, ValueError, IndexError):
                continue  # The process has ended meanwhile.
    return stats


def _exact_cpu(pid: int) -> float:
    """CPU seconds of all threads that a process has now, with a resolution of nanoseconds."""
    total = 0
    try:
        for thread in (_PROC / str(pid) / "task").iterdir():
            total += int((thread / "schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    return total / 1e9


@attrs.frozen
class Sample:
    """A process with its children, and the machine, at one moment."""

    at: float
    exact_cpu: float
    coarse_cpu: float
    resident: int
    machine_busy: float
    machine_stolen: float

    def cpu_since(self, earlier: Sample) -> float:
        """The CPU of the processes between two samples.

        The exact figure misses threads that have ended. If it differs from the coarse one by more than a few ticks,
        some have, and the coarse one is right.
        """
        exact = self.exact_cpu - earlier.exact_cpu
        coarse = self.coarse_cpu - earlier.coarse_cpu
        return exact if abs(exact - coarse) <= 0.05 + 0.05 * coarse else coarse


def read_machine(line: str) -> tuple[float, float]:
    """CPU seconds used and stolen since the machine started, from the first line of /proc/stat."""
    user, nice, system, _idle, _wait, irq, soft, stolen = (int(field) for field in line.split()[1:9])
    return (user + nice + system + irq + soft) / _TICK, stolen / _TICK


def sample(pid: int) -> Sample:
    stats = _all_stats()
    members = [member for member in family(stats, pid) if member in stats]
    with (_PROC / "stat").open() as lines:
        busy, stolen = read_machine(lines.readline())
    return Sample(
        at=time.monotonic(),
        exact_cpu=sum(_exact_cpu(member) for member in members),
        coarse_cpu=sum(stats[member].cpu for member in members),
        resident=sum(stats[member].resident for member in members),
        machine_busy=busy,
        machine_stolen=stolen,
    )


def unread_bytes(tables: Iterable[str], port: int) -> int:
    """Bytes that wait in the kernel for the process that listens on a port, from /proc/net/tcp."""
    total = 0
    for table in tables:
        for line in table.splitlines()[1:]:
            fields = line.split()
            local, state, queues = fields[1], fields[3], fields[4]
            if state == "01" and int(local.rpartition(":")[2], 16) == port:
                total += int(queues.partition(":")[2], 16)
    return total


def unread_now(port: int) -> int:
    return unread_bytes([(_PROC / "net" / "tcp").read_text()], port)
