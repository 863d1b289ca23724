"""The benchmark itself: a real server, a little of every load, nothing about how fast it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmprelay.bench import measurement, report, rounds
from rtmprelay.bench.__main__ import main
from rtmprelay.bench.measurement import measure
from rtmprelay.bench.results import Case
from rtmprelay.bench.servers import OURS


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the pace of the server matters here nor what else the machine does."""
    monkeypatch.setattr(measurement, "_WARM_UP", 0.1)
    monkeypatch.setattr(rounds, "_WAIT_FOR_QUIET", 0.0)


@pytest.mark.full
def test_every_kind_of_load_at_once() -> None:
    """Players of both kinds, destinations, joins and a recording get every frame, unchanged."""
    run = measure(OURS, Case("recording", 0.8, players=10, destinations=2, joins=2))
    assert run.lost == 0
    assert run.corrupt == 0
    assert run.unread_bytes == 0
    assert run.frames >= 13 * 20
    assert run.gigabytes > 12 * 59_000 / 1e9
    assert run.cpu_seconds > 0
    assert run.p99_ms is not None
    assert run.join_p99_ms is not None


def test_command_measures_every_workload_quickly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It measures, prints a table, and writes what it was asked to."""
    figures, plot = tmp_path / "figures.json", tmp_path / "plot.svg"
    arguments = [
        "fanout",
        "--players",
        "3",
        "--seconds",
        "0.5",
        "--rounds",
        "1",
        "--attempts",
        "1",
        "--without-nginx",
    ]
    # 2 says that other tests ran beside it.
    assert main([*arguments, "--json", str(figures), "--plot", str(plot)]) in (0, 2)
    captured = capsys.readouterr()
    assert "fan-out, 3 players" in captured.out
    assert "round 1 of 1" in captured.err
    (comparison,) = report.from_json(figures.read_text())
    assert comparison.ours[0].runs[0].lost == 0
    assert plot.read_text().startswith("<svg")
