"""What the system gives: the bound of a cgroup counts if it is less than the machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmprelay.errors import LimitExceededError
from rtmprelay.machine import OpenFiles, memory_of_machine


def machine(folder: Path, own: str, **limits: str) -> int:
    for name, limit in limits.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(limit)
    (folder / "own").write_text(own)
    return memory_of_machine(folder, folder / "own")


def test_without_a_cgroup_it_is_the_whole_machine(tmp_path: Path) -> None:
    assert memory_of_machine(tmp_path, tmp_path / "none") > 64 * 1024 * 1024


def test_smallest_bound_of_the_cgroup_and_those_above_it_counts(tmp_path: Path) -> None:
    (tmp_path / "system.slice" / "relay").mkdir(parents=True)
    (tmp_path / "system.slice" / "relay" / "memory.max").write_text("max\n")
    (tmp_path / "system.slice" / "memory.max").write_text("50000000\n")
    (tmp_path / "memory.max").write_text("90000000\n")
    assert machine(tmp_path, "0::/system.slice/relay\n") == 50_000_000


def test_version_1_of_cgroups_has_another_file(tmp_path: Path) -> None:
    (tmp_path / "memory" / "docker").mkdir(parents=True)
    (tmp_path / "memory" / "docker" / "memory.limit_in_bytes").write_text("40000000\n")
    assert machine(tmp_path, "3:cpu:/docker\n2:memory:/docker\n") == 40_000_000


def test_newcomers_leave_files_for_recordings_destinations_and_http() -> None:
    files = OpenFiles(limit=60, open_now=16)
    connections = http = 0
    files.add(lambda: connections)
    files.add(lambda: http)
    while files.left > 12:
        files.check()
        connections += 1
    with pytest.raises(LimitExceededError, match="ulimit -n") as raised:
        files.check()
    assert raised.value.limit == "open_files"
    assert connections == 60 - 16 - 4 - 12
    while files.has_room_for_http:
        http += 1
    assert http == 6
    assert files.left == 6


def test_files_that_are_kept_grow_with_the_limit_up_to_a_bound() -> None:
    for limit, kept in ((1_024, 102), (1_048_576, 1_000)):
        files = OpenFiles(limit, open_now=0)
        taken = limit - 4 - kept
        files.add(lambda taken=taken: taken)  # type: ignore[misc]
        with pytest.raises(LimitExceededError):
            files.check()
