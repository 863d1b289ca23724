"""How much of the tests a run does, and that it says what it leaves out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import rounds

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("full_run", "expected"), [(False, 3), (True, 50)])
def test_rounds_are_few_by_default_and_all_in_the_full_run(
    full_run: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "full_run", full_run)
    assert rounds.rounds(3, full=50) == expected
    monkeypatch.setenv("RTMPRELAY_TRIES", "7")
    assert rounds.rounds(3, full=50, variable="RTMPRELAY_TRIES") == 7
    monkeypatch.setenv("RTMPRELAY_TRIES", "")
    assert rounds.rounds(3, full=50, variable="RTMPRELAY_TRIES") == expected


@pytest.mark.parametrize("full", [False, True], ids=["by default", "full"])
def test_run_lists_in_one_line_what_it_leaves_out(full: bool) -> None:
    """One test marked `full`, one marked `fewer_rounds`, and one with examples of hypothesis."""
    modules = ("bench/test_end_to_end.py", "hostile/test_soak.py", "wire/test_chunk_properties.py")
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    command += ["--full"] if full else []
    done = subprocess.run(
        [*command, *(f"tests/{module}" for module in modules)],
        cwd=ROOT,
        # Options of the run that this test belongs to.
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("Not run by default")]
    assert ("test_every_kind_of_load_at_once" in done.stdout) is full
    if full:
        assert lines == []
    else:
        (line,) = lines
        assert "tests that take minutes: 1 (bench 1)" in line
        assert "all rounds and examples of tests: " in line
        assert "hostile 1, wire " in line
