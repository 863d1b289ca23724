"""A bound on memory as containers and systemd units have it: a cgroup of the kernel, below the one of this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers import wait_for

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


class MemoryGroup:
    """A cgroup with a bound.

    Attributes:
        folder: Where the kernel shows it.
        command: What to put before a command that is to run in it.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self.folder = folder
        limit = folder / ("memory.max" if self.is_version_2 else "memory.limit_in_bytes")
        limit.write_text(str(most))
        self.command = ["sh", "-c", f'echo $$ > "{folder}/cgroup.procs"; exec "$@"', "sh"]

    @property
    def is_version_2(self) -> bool:
        return (self.folder / "memory.max").exists()

    def most_used(self) -> int:
        """Bytes that were used when most were: those of the kernel and of files that it keeps in memory too."""
        name = "memory.peak" if self.is_version_2 else "memory.max_usage_in_bytes"
        return int((self.folder / name).read_text())

    def kills(self) -> int:
        """How many processes the kernel ended because they wanted more."""
        name = "memory.events" if self.is_version_2 else "memory.oom_control"
        fields = dict(line.split() for line in (self.folder / name).read_text().splitlines())
        return int(fields.get("oom_kill", 0))


def _own_folder() -> Path:
    for line in _OWN.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return _ROOT / "memory" / path.strip("/")
        if not controllers:
            folder = _ROOT / path.strip("/")
            if (folder / "memory.max").exists():
                return folder
    raise FileNotFoundError("no cgroup bounds memory")


@contextmanager
def memory_group(most: int) -> Iterator[MemoryGroup]:
    """A cgroup with this bound, as long as this lasts. The test skips where none can be made, and says why."""
    try:
        folder = _own_folder() / f"rtmprelay-test-{os.getpid()}"
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup with a bound on memory can be made here: {error}")
    try:
        try:
            group = MemoryGroup(folder, most)
        except OSError as error:
            pytest.skip(f"the cgroup takes no bound on memory: {error}")
        yield group
    finally:
        # The kernel lets go of it a moment after the last process has ended.
        wait_for(lambda: _removed(folder), "the end of the cgroup")


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return False
    return True
