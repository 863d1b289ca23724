"""What one core carries: how the load grows, when it ends, and what is said about it."""

from __future__ import annotations

import json
from collections.abc import Callable
from xml.etree import ElementTree

import attrs
import pytest

from rtmprelay.bench import capacity, measurement
from rtmprelay.bench.__main__ import main
from rtmprelay.bench.capacity import ROWS, Row, as_json, as_rst, climb_all, plot, step_of, step_of_hls
from rtmprelay.bench.hls import HlsFigures
from rtmprelay.bench.measurement import measure
from rtmprelay.bench.results import Case, Run, Surroundings
from rtmprelay.bench.servers import NGINX, OURS, Contestant
from rtmprelay.bench.workers import BenchError

QUIET = Surroundings(0.0, 0.0, 0.5, 0.4, "publishers", 0.3, 1.0)
GOOD = Run("rtmprelay", 4.0, 1.0, 1.0, QUIET, p99_ms=40.0, sent=100, frames=1000, lost=0)


@pytest.fixture(autouse=True)
def only_nginx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "nginx_is_there", lambda: True)
    monkeypatch.setattr(capacity, "srs_is_there", lambda: False)


def row(name: str = "players") -> Row:
    (found,) = [one for one in ROWS if one.name == name]
    return found


@pytest.mark.parametrize(
    ("change", "too_much", "limit"),
    [
        ({}, "", ""),
        ({"p99_ms": 250.0}, "", ""),
        ({"p99_ms": 251.0}, "p99 251 ms", ""),
        ({"p99_ms": None}, "", ""),
        ({"lost": 1}, "1 frames lost", ""),
        ({"corrupt": 2}, "2 frames lost", ""),
        ({"cpu_seconds": 3.9}, "the core is full", ""),
        ({"unread_bytes": 5}, "5 bytes left unread", ""),
        ({"surroundings": attrs.evolve(QUIET, busiest_share=0.95)}, "", "the load generator can do no more"),
        ({"surroundings": attrs.evolve(QUIET, idle_share=0.0)}, "", "the machine has no time left"),
        # Then it is not the load that takes the time.
        ({"surroundings": attrs.evolve(QUIET, idle_share=0.0, other_cores=1.0)}, "", ""),
    ],
)
def test_a_load_is_too_much_when_it_is_late_lost_or_takes_the_core(
    change: dict[str, object], too_much: str, limit: str
) -> None:
    step = step_of(500, attrs.evolve(GOOD, **change))  # type: ignore[arg-type]
    assert (step.too_much, step.limit) == (too_much, limit)


@pytest.mark.parametrize(
    ("ages", "failed", "too_much"),
    [
        ([5.0] * 100, 0, ""),
        ([5.0] * 98 + [300.0] * 2, 0, "p99 300 ms"),
        ([5.0], 3, "3 requests failed"),
        ([], 0, "no part came"),
    ],
)
def test_viewers_of_hls_are_too_many_when_their_parts_are_old(
    ages: list[float], failed: int, too_much: str
) -> None:
    assert step_of_hls(HlsFigures(50, 4.0, 0.2, 100, 0.1, failed, ages, ages)).too_much == too_much


def loaded(ours: int, theirs: int) -> Callable[[Contestant, Case], Run]:
    """Servers that carry so many players."""

    def measure_once(contestant: Contestant, case: Case) -> Run:
        most = theirs if contestant == NGINX else ours
        late = 300.0 if case.players > most else 30.0
        return attrs.evolve(GOOD, p99_ms=late, cpu_seconds=0.002 * case.players / 4)

    return measure_once


def test_the_load_grows_until_each_server_has_too_much() -> None:
    ours, nginx = climb_all([row()], 1.0, loaded(2_000, 600))
    assert [step.load for step in ours.steps] == [500, 750, 1125, 1687, 2530]
    assert [step.load for step in nginx.steps] == [500, 750]
    assert ours.cells()[:3] == ["players", OURS.name, "1687"]
    assert ours.cells()[-1] == "2530: p99 300 ms"
    assert nginx.cells()[1:3] == [NGINX.name, "500"]


def test_a_load_without_end_is_told_as_at_least() -> None:
    (ours, _) = climb_all([attrs.evolve(row(), most=800)], 1.0, loaded(10**6, 0))
    assert ours.cells()[2] == "at least 750"
    assert ours.cells()[-1] == "no larger load was tried"


def test_a_server_that_fails_at_once_carries_nothing() -> None:
    def measure_once(contestant: Contestant, case: Case) -> Run:
        raise BenchError("it did not start")

    climbs = climb_all([row()], 1.0, measure_once)
    assert [climb.cells()[2] for climb in climbs] == ["-", "-"]
    assert "it did not start" in as_rst(climbs)


def test_every_row_of_ours_has_a_case_and_a_name_of_its_own() -> None:
    assert len({one.name for one in ROWS}) == len(ROWS) == 7
    titles = {one.case(10, 1.0).title for one in ROWS if one.case is not None}
    assert len(titles) == 6


def test_all_steps_are_written_down() -> None:
    document = json.loads(as_json(climb_all([row()], 1.0, loaded(600, 600)), {"cores": 2}))
    assert document["about"] == {"cores": 2}
    assert [step["load"] for step in document["rows"][0]["steps"]] == [500, 750]


def test_the_plot_has_the_physical_limit() -> None:
    drawn = plot(climb_all([row()], 1.0, loaded(2_000, 600)), send=lambda: 10.0)
    ElementTree.fromstring(drawn)
    # 2.5 Mbit/s are 7.8 blocks a second: 78 microseconds a player and second, 7.8 % for a thousand.
    assert "sending alone" in drawn
    assert "1687 players 13.2 %" in drawn
    assert "nginx-rtmp: 500 players" in drawn


def test_player_and_publisher_over_tls_get_and_send_every_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "_WARM_UP", 0.1)
    run = measure(OURS, Case("fanout", 0.5, players=3, tls=True))
    assert (run.lost, run.corrupt) == (0, 0)
    assert run.frames > 0


def test_row_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["capacity", "--rows", "elephants"])
    assert "there is no row 'elephants'" in capsys.readouterr().err
