"""What the process uses of its machine: CPU, memory and disks, measured once a second and never on the path of a frame."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
from twisted.internet.interfaces import IReactorTime

from rtmprelay.machine import memory_of_machine, memory_of_process
from rtmprelay.web.api.sampling import HISTORY, INTERVAL
from rtmprelay.web.server.threads import InThread, at_once

#: Seconds between two looks at the disks. A disk that does not answer is not asked again until it does.
_DISKS_EVERY = 10.0

#: Samples that the CPU is averaged over.
_WINDOW = 5


@attrs.frozen
class Disk:
    """A disk that the relay writes to.

    Attributes:
        used_for: Such as "recordings".
        size: Its bytes.
        free: Those that this user may still write.
    """

    used_for: tuple[str, ...]
    size: int
    free: int


def look_at_disks(folders: Mapping[str, Path]) -> list[Disk]:
    """The disks of these folders, each once. A folder that is not there yet will be on the disk of the one above it."""
    found: dict[int, Disk] = {}
    for used_for, folder in folders.items():
        place = folder.absolute()
        while not place.exists() and place != place.parent:
            place = place.parent
        try:
            device, space = os.stat(place).st_dev, os.statvfs(place)
        except OSError:
            continue
        before = () if device not in found else found[device].used_for
        found[device] = Disk(
            (*before, used_for), space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
        )
    return list(found.values())


class MachineUse:
    """Samples the use of the machine.

    Args:
        folders: Those that the relay writes to, by what they are for.
        in_thread: Calls a function that waits for a disk.
        cpu_seconds: The time that the process has used of all cores.
    """

    def __init__(
        self,
        clock: IReactorTime,
        folders: Mapping[str, Path] | None = None,
        in_thread: InThread = at_once,
        cpu_seconds: Callable[[], float] = time.process_time,
        memory: Callable[[], int | None] = memory_of_process,
    ) -> None:
        self._clock = clock
        self._folders = dict(folders or {})
        self._in_thread = in_thread
        self._cpu_seconds = cpu_seconds
        self._memory = memory
        self._memory_size = memory_of_machine()
        self._points: deque[tuple[float, float]] = deque(maxlen=_WINDOW + 1)
        self._used: int | None = None
        self._looking = False
        self._looked_at: float | None = None
        self.disks: list[Disk] = []
        #: Percent of one core, and bytes, once a second, oldest first.
        self.cpu_history: deque[float | None] = deque(maxlen=HISTORY)
        self.memory_history: deque[int | None] = deque(maxlen=HISTORY)

    def sample(self) -> None:
        """Measure now."""
        now, spent = self._clock.seconds(), self._cpu_seconds()
        value = None
        if self._points and now - self._points[-1][0] >= INTERVAL / 4:
            value = round(100 * (spent - self._points[-1][1]) / (now - self._points[-1][0]), 1)
        self._points.append((now, spent))
        self._used = self._memory()
        self.cpu_history.append(value)
        self.memory_history.append(self._used)
        if not self._looking and (self._looked_at is None or now - self._looked_at >= _DISKS_EVERY):
            self._looking = True
            self._looked_at = now
            looking = self._in_thread(look_at_disks, self._folders)
            looking.addCallback(self._seen).addBoth(self._done)

    def _seen(self, disks: list[Disk]) -> None:
        self.disks = disks

    def _done(self, _: object) -> None:
        self._looking = False

    @property
    def cpu_percent(self) -> float | None:
        """Percent of one core over the last seconds."""
        if len(self._points) < 2:
            return None
        (begin, first), (end, last) = self._points[0], self._points[-1]
        return round(100 * (last - first) / (end - begin), 1) if end > begin else None

    def fields(self) -> dict[str, object]:
        """As JSON has it."""
        return {
            "cpu_percent": self.cpu_percent,
            "cores": os.cpu_count(),
            "memory_bytes": self._used,
            "memory_size": self._memory_size,
            "disks": [
                {"used_for": list(disk.used_for), "size": disk.size, "free": disk.free} for disk in self.disks
            ],
        }
