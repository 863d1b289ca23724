"""Tables, JSON, plots and the command line of the benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import attrs
import pytest

from rtmprelay.bench import report
from rtmprelay.bench.__main__ import main
from rtmprelay.bench.cases import DEFAULT_WINDOW, QUICK, Plan, cases
from rtmprelay.bench.plot import PlotLine, cpu_plot, draw, latency_plot, spread, ticks
from rtmprelay.bench.results import WORKLOADS, Case
from rtmprelay.bench.rounds import Comparison, ResultRow
from rtmprelay.bench.servers import NGINX, OURS, Contestant, ours_with_window
from tests.bench.test_figures import NOISY, run_of


def row_of(case: Case, server: Contestant, *cpu: float) -> ResultRow:
    """Rounds that used this many CPU seconds."""
    return ResultRow(case, server, {number: run_of(server, used) for number, used in enumerate(cpu)})


def fan_out(players: int, cpu: float) -> Comparison:
    """A comparison of three servers."""
    case = Case("fanout", 8.0, players=players)
    ours = [row_of(case, OURS, cpu, cpu, cpu), row_of(case, ours_with_window("0"), 2 * cpu, 3 * cpu)]
    return Comparison(case, ours, row_of(case, NGINX, 2 * cpu, 2 * cpu, 2 * cpu))


@pytest.fixture
def comparisons() -> list[Comparison]:
    """Two sizes of fan-out, and joins without nginx-rtmp."""
    case = Case("join", 5.0, players=20, joins=9)
    joins = row_of(case, OURS, 1.0)
    joins.runs[0] = attrs.evolve(joins.runs[0], join_p99_ms=7.25, corrupt=2, unread_bytes=5)
    return [fan_out(200, 1.0), fan_out(20, 0.25), Comparison(case, [joins], None)]


def test_text_table_shows_ratio_and_target(comparisons: list[Comparison]) -> None:
    text = report.as_text(comparisons)
    lines = text.splitlines()
    assert lines[0].split()[:2] == ["load", "rtmprelay"]
    assert lines[2].startswith("fan-out, 200 players  ")
    assert lines[3].startswith("fan-out, 200 players, window 0  ")
    assert "1.00 s/GB" in lines[2]
    assert "0.50" in lines[2]
    assert "7.2 ms" in text
    assert "2 frames were not what was sent" in text
    assert "5 bytes were not read" in text
    assert "nginx-rtmp was not measured" in text


def test_rst_table_has_a_row_for_each_server(comparisons: list[Comparison]) -> None:
    """Each row of a list-table has as many cells as there are headings."""
    lines = report.as_rst(comparisons).splitlines()
    cells = [line for line in lines if line.startswith(("   * -", "     -"))]
    assert lines[0] == ".. list-table::"
    assert len(cells) == len(report.HEADINGS) * (1 + 5)
    assert all(cell.startswith("   * -") for cell in cells[:: len(report.HEADINGS)])


def test_notes_list_doubts_and_failures(comparisons: list[Comparison]) -> None:
    comparisons[0].ours[0].errors.append("it burnt")
    comparisons[1].ours[0].runs[0] = run_of(OURS, 1.0, NOISY)
    comparisons[1].ours[0].runs[1] = run_of(OURS, 1.0, NOISY)
    text = report.as_text(comparisons)
    assert "fan-out, 200 players, rtmprelay: not measured: it burnt" in text
    assert "fan-out, 20 players, rtmprelay: too noisy to tell (2 of 3 runs: other processes" in text


def test_json_is_read_back_unchanged(comparisons: list[Comparison]) -> None:
    text = report.as_json(comparisons, {"cores": 2})
    assert report.as_text(report.from_json(text)) == report.as_text(comparisons)


def test_merging_adds_rounds_to_a_case(comparisons: list[Comparison]) -> None:
    """A second measurement of a case is further rounds; other cases come after."""
    again = fan_out(200, 3.0)
    total = report.merged(comparisons[:2], [again, comparisons[2]])
    assert [one.case.title for one in total] == [one.case.title for one in comparisons]
    row = total[0].ours[0]
    assert [run.cpu_seconds for run in row.runs.values()] == [1.0, 1.0, 1.0, 3.0, 3.0, 3.0]
    assert total[0].nginx is not None
    assert list(total[0].nginx.runs) == list(row.runs)
    assert total[0].ratio(row) == pytest.approx(0.5)


# -- plots ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("largest", "expected"),
    [
        (0, [0, 1]),
        (9, [0, 2, 4, 6, 8, 10]),
        (1000, [0, 200, 400, 600, 800, 1000]),
        (0.03, [0, 0.01, 0.02, 0.03]),
    ],
)
def test_ticks_are_round_numbers(largest: float, expected: list[float]) -> None:
    assert ticks(largest) == pytest.approx(expected)


@pytest.mark.parametrize("places", [[10.0, 10.0, 10.0], [100.0, 99.0, 5.0], [50.0]])
def test_spread_labels_do_not_overlap(places: list[float]) -> None:
    moved = sorted(spread(places, 18.0, 100.0))
    assert all(after - before >= 18.0 for before, after in pairwise(moved))
    assert moved[-1] <= 100.0


def test_labels_with_room_are_not_moved() -> None:
    assert spread([10.0, 90.0, 50.0], 18.0, 100.0) == [10.0, 90.0, 50.0]


@pytest.mark.parametrize("plot", [cpu_plot, latency_plot])
def test_plot_has_a_line_for_every_server(
    plot: Callable[[Sequence[Comparison]], str], comparisons: list[Comparison]
) -> None:
    text = plot(comparisons)
    picture = ElementTree.fromstring(text)
    names = [element.text for element in picture.iter() if element.get("class", "").startswith("label")]
    assert names == ["rtmprelay", "rtmprelay, window 0", "nginx-rtmp"]
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}circle"))) == 6
    assert "200 players" in text
    assert "prefers-color-scheme: dark" in text


def test_plot_escapes_names() -> None:
    picture = ElementTree.fromstring(draw("<&>", "]]>", "%", [PlotLine('a<b&"c', ((1, 2.0),))]))
    texts = [element.text for element in picture.iter() if element.text]
    assert {"<&>", "]]>", 'a<b&"c'} <= set(texts)


def test_plot_without_fan_out_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        cpu_plot([])


# -- the command ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", WORKLOADS)
def test_workload_all_includes_each_one(workload: str) -> None:
    everything = cases("all", Plan())
    alone = cases(workload, Plan())
    assert alone
    assert all(case in everything for case in alone)
    assert {case.workload for case, _ in alone} == {workload}


def test_wide_window_is_measured_from_200_players() -> None:
    by_players = {case.players: contestants for case, contestants in cases("fanout", Plan())}
    assert len(by_players[20]) == 2
    assert len(by_players[200]) == 3
    quick = cases("all", QUICK)
    assert all(len(contestants) == 2 for _, contestants in quick)
    assert QUICK.windows == (DEFAULT_WINDOW,)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["fanout", "--players", "0"], "must be from 1 to 2000"),
        (["ingest", "--chunk", "64"], "must be from 128"),
        (["all", "--seconds", "1000"], "is not from 0.5 to 30"),
        (["draw"], "draw needs --json"),
        (["dance"], "invalid choice"),
    ],
)
def test_bad_argument_is_refused_with_the_reason(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert reason in capsys.readouterr().err


def test_draw_makes_plots_from_json(
    tmp_path: Path, comparisons: list[Comparison], capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables and plots of figures that were measured before."""
    figures, plot = tmp_path / "figures.json", tmp_path / "plot.svg"
    figures.write_text(report.as_json(comparisons, {}))
    assert main(["draw", "--json", str(figures), "--plot", str(plot), "--format", "rst"]) == 0
    assert capsys.readouterr().out.startswith(".. list-table::")
    ElementTree.parse(plot)
