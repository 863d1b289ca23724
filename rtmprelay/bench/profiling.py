"""Where our server spends its time under load, by py-spy (`pip install py-spy`)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rtmprelay.bench.workers import BenchError

#: Samples a second. py-spy takes a whole core for that, so ignore the figures of a profiled run.
_RATE = 500


def _program() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise BenchError("a profile needs py-spy: pip install py-spy")
    return found


@contextmanager
def profiled(pid: int, seconds: float, stacks: Path) -> Iterator[None]:
    """Sample a process while the block runs, and write the stacks to a file."""
    command = [_program(), "record", "--pid", str(pid), "--duration", str(max(1, round(seconds)))]
    command += ["--rate", str(_RATE), "--nonblocking", "--format", "raw", "--output", str(stacks)]
    watching = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        yield
        _, errors = watching.communicate(timeout=30)
    finally:
        if watching.poll() is None:
            watching.kill()
            watching.wait()
    if watching.returncode:
        raise BenchError(f"py-spy: {errors.decode(errors='replace').strip()[-200:]}")


def by_place(stacks: str) -> list[tuple[float, str]]:
    """The share of samples of each line of code, the largest first."""
    seen: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        if stack:
            seen[stack.rpartition(";")[2]] += int(count)
    total = sum(seen.values())
    return [(count / total, place) for place, count in seen.most_common()]


def by_part(stacks: str) -> list[tuple[float, str]]:
    """The same by file."""
    parts: dict[str, float] = {}
    for share, place in by_place(stacks):
        part = place.partition("(")[2].partition(":")[0].rstrip(")")
        parts[part] = parts.get(part, 0.0) + share
    return sorted(((share, part) for part, share in parts.items()), reverse=True)


def as_text(stacks: str, most: int = 15) -> str:
    """The files and the lines that take most, for a terminal."""
    if not stacks.strip():
        return "py-spy saw the server do nothing\n"
    lines = [f"{share:6.1%}  {part}" for share, part in by_part(stacks)[:most]]
    lines += ["", *(f"{share:6.1%}  {place}" for share, place in by_place(stacks)[:most])]
    return "\n".join(lines) + "\n"
