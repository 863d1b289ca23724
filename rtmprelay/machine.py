"""What the system gives this process: memory and open files."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

from rtmprelay.errors import LimitExceededError

#: The share of all open files that new connections leave for recordings, destinations and the operator, and its bounds.
_KEPT_SHARE = 0.1
_LEAST_KEPT = 12
_MOST_KEPT = 1_000

#: HTTP may go further than RTMP, so that an operator can see what is going on.
_KEPT_FROM_HTTP = 6

#: Files that are opened after the start whatever happens: logs, a resolver's socket.
_OWN_FILES = 4

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")
_OWN_MEMORY = Path("/proc/self/statm")


def memory_of_machine(root: Path = _CGROUPS, own: Path = _OWN_CGROUP) -> int:
    """Bytes of memory: those of the machine, or what the process's cgroups allow if that is less."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *_cgroup_limits(root, own)])


def _cgroup_limits(root: Path, own: Path) -> Iterator[int]:
    """The bounds of the process's cgroup and of all above it, of version 2 or 1."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        base, name = (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
        folder = base / path.strip("/")
        while True:
            limit = _read_number(folder / name)
            if limit is not None:
                yield limit
            if folder == base:
                break
            folder = folder.parent


def _read_number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def memory_of_process(own: Path = _OWN_MEMORY) -> int | None:
    """Bytes of memory that this process has now; None where the system does not tell."""
    try:
        pages = own.read_text().split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE") if pages.isdecimal() else None


class OpenFiles:
    """Counts the process's open files, so that new connections leave enough for recordings and destinations.

    Args:
        limit: How many files the process may have open; None to ask the system.
        open_now: How many it has open at the start; None to ask the system.
    """

    def __init__(self, limit: int | None = None, open_now: int | None = None) -> None:
        self.limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if limit is None else limit
        self._base = (_count_open_files() if open_now is None else open_now) + _OWN_FILES
        self._counters: list[Callable[[], int]] = []
        self._kept = min(_MOST_KEPT, max(_LEAST_KEPT, int(self.limit * _KEPT_SHARE)))

    def add(self, count: Callable[[], int]) -> None:
        """Count the files that a part of the relay has open, too."""
        self._counters.append(count)

    @property
    def left(self) -> int:
        """How many files can still be opened."""
        return self.limit - self._base - sum(count() for count in self._counters)

    def check(self) -> None:
        """Raise `LimitExceededError` if one more RTMP connection would leave too few files."""
        if self.left <= self._kept:
            raise LimitExceededError(
                "open_files",
                f"of {self.limit} open files the last {self._kept} are for recordings, destinations and HTTP:"
                " raise the limit (ulimit -n, LimitNOFILE=)",
            )

    @property
    def has_room_for_http(self) -> bool:
        """Whether one more HTTP connection leaves enough files."""
        return self.left > _KEPT_FROM_HTTP


def _count_open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        # Not on this system: what a server has open at its start.
        return 16
