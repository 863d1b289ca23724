"""Whatever strangers write: only declared errors come of it, in bounded time and memory.

A seeded mutator makes the inputs: `RTMPRELAY_FUZZ_INPUTS=200000 pytest tests/hostile/test_parsers.py` is the long run, and
`python -m tests.hostile.fuzz` looks for others with atheris. Inputs that broke something once are files in `found/`, named
after the target; they are tried first.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.hostile.conversations import mutate
from tests.hostile.target import Target, TooCostlyError
from tests.hostile.targets import TARGETS
from tests.rounds import rounds

INPUTS = rounds(60, full=300, variable="RTMPRELAY_FUZZ_INPUTS")
#: Those whose memory is looked at, which takes much longer.
WEIGHED_INPUTS = rounds(10, full=30)
SEED = int(os.environ.get("RTMPRELAY_FUZZ_SEED", "11"))
#: Bytes of the longest input whose memory is looked at.
WEIGHED = rounds(5000, full=20_000)
FOUND = Path(__file__).parent / "found"


def inputs(name: str, count: int) -> list[bytes]:
    """What a mutator makes of sound samples, and some bytes by chance alone."""
    chance = random.Random(f"{SEED} {name}")
    samples = TARGETS[name].samples()
    made = [mutate(chance.choice(samples), chance) for _ in range(count)]
    return [*made, *(chance.randbytes(chance.choice((0, 1, 10, 3000))) for _ in range(count // 10))]


@pytest.mark.parametrize("name", TARGETS)
def test_sound_samples_are_read(name: str, tmp_path: Path) -> None:
    """Otherwise a mutator would try nothing but errors."""
    for sample in TARGETS[name].samples():
        TARGETS[name].read(sample, tmp_path)


@pytest.mark.fewer_rounds
@pytest.mark.parametrize("name", TARGETS)
def test_only_declared_errors_in_bounded_time(name: str, tmp_path: Path) -> None:
    for path in sorted(FOUND.glob(f"{name}-*")):
        TARGETS[name].attempt(path.read_bytes(), tmp_path)
        TARGETS[name].weigh(path.read_bytes(), tmp_path)
    for data in inputs(name, INPUTS):
        try:
            TARGETS[name].attempt(data, tmp_path)
        except BaseException:
            (tmp_path / f"{name}-input").write_bytes(data)
            raise


@pytest.mark.fewer_rounds
@pytest.mark.parametrize("name", TARGETS)
def test_memory_is_bounded_by_the_length_of_the_input(name: str, tmp_path: Path) -> None:
    for data in inputs(name, WEIGHED_INPUTS):
        TARGETS[name].weigh(data, tmp_path)


@pytest.mark.fewer_rounds
@pytest.mark.parametrize("name", TARGETS)
def test_the_bounds_hold_for_what_is_made_to_be_expensive(name: str, tmp_path: Path) -> None:
    costly = TARGETS[name].costly()
    assert costly
    for data in costly:
        TARGETS[name].attempt(data, tmp_path)
        # Not all of it: to weigh takes some thirty times as long as to read.
        TARGETS[name].weigh(data[:WEIGHED], tmp_path)


def wait_in_vain(seconds: float) -> None:
    """Keep the processor busy."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_the_bounds_catch_what_goes_over_them(tmp_path: Path) -> None:
    """What takes too long, what keeps far more than it was given, and what raises something else."""
    slow = Target(lambda data, _: wait_in_vain(0.4), list)
    with pytest.raises(TooCostlyError, match="3 bytes took "):
        slow.attempt(b"abc", tmp_path)
    hungry = Target(lambda data, _: [bytes(1000) for _ in data], list)
    with pytest.raises(TooCostlyError, match="bytes of memory"):
        hungry.weigh(bytes(3000), tmp_path)
    wrong = Target(lambda data, _: data[5], list)
    with pytest.raises(IndexError):
        wrong.attempt(b"", tmp_path)
