"""What is made of figures: samples of /proc, doubts, targets, medians and ratios."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from rtmprelay.bench.cases import Goal, target_of
from rtmprelay.bench.measurement import share
from rtmprelay.bench.processes import Sample, family, read_machine, read_stat, sample, unread_bytes
from rtmprelay.bench.results import Case, Run, Surroundings, surroundings
from rtmprelay.bench.rounds import ResultRow, compare
from rtmprelay.bench.servers import NGINX, OURS, Contestant, Extras, nginx_configuration, ours_with_window
from rtmprelay.bench.workers import BenchError
from rtmprelay.errors import ConfigError

QUIET = Surroundings(0.01, 0.0, 0.7, 0.2, "probes", 0.1, 0.5)
NOISY = attrs.evolve(QUIET, other_cores=0.8)
CASE = Case("fanout", 1.0, players=200)


def run_of(server: Contestant, cpu: float, around: Surroundings = QUIET) -> Run:
    """A run that used this many CPU seconds."""
    return Run(server.name, 1.0, cpu, 1.0, around, p99_ms=5.0, frames=10, lost=0)


# -- /proc ---------------------------------------------------------------------------------------------------


def test_process_stat_is_parsed_whatever_the_name_holds() -> None:
    fields = ["S", "7", *["0"] * 9, "150", "50", *["0"] * 8, "3"]
    stat = read_stat(f"12 (a ) b (c) {' '.join(fields)}")
    assert stat.parent == 7
    assert stat.cpu == 200 / os.sysconf("SC_CLK_TCK")
    assert stat.resident == 3 * os.sysconf("SC_PAGE_SIZE")


def test_family_includes_grandchildren() -> None:
    stats = {
        pid: read_stat(f"{pid} (x) S {parent} " + "0 " * 20)
        for pid, parent in {2: 1, 3: 2, 4: 3, 5: 1}.items()
    }
    assert sorted(family(stats, 2)) == [2, 3, 4]


def test_machine_line_gives_busy_and_stolen_seconds() -> None:
    tick = os.sysconf("SC_CLK_TCK")
    assert read_machine(f"cpu {tick} 0 {tick} 999 999 0 {tick} {2 * tick} 0 0") == (3.0, 2.0)


def test_sample_of_this_process_has_memory_and_cpu() -> None:
    first = sample(os.getpid())
    assert first.resident > 1_000_000
    assert sample(os.getpid()).cpu_since(first) >= 0.0


@pytest.mark.parametrize(("exact", "coarse", "expected"), [(1.001, 1.01, 1.001), (0.5, 1.0, 1.0)])
def test_cpu_falls_back_to_ticks_when_threads_have_ended(
    exact: float, coarse: float, expected: float
) -> None:
    assert Sample(1, exact, coarse, 0, 0, 0).cpu_since(Sample(0, 0, 0, 0, 0, 0)) == expected


def test_unread_bytes_counts_established_connections_of_the_port() -> None:
    table = (
        "  sl  local_address rem_address   st tx_queue rx_queue\n"
        "   0: 0100007F:0BB8 0100007F:1234 01 00000000:00000010 00:00000000\n"
        "   1: 0100007F:0BB8 00000000:0000 0A 00000000:00000099 00:00000000\n"
        "   2: 0100007F:0BB9 0100007F:1234 01 00000000:00000020 00:00000000\n"
    )
    assert unread_bytes([table], 3000) == 16


# -- belief --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"other_cores": 0.5}, "other processes"),
        ({"stolen_cores": 0.2}, "the host"),
        ({"busiest_share": 0.95}, "probes"),
        ({"late_ms": 30.0}, "late"),
        ({"idle_share": 0.0}, "idle"),
    ],
)
def test_disturbed_run_names_what_disturbed_it(change: dict[str, Any], word: str) -> None:
    (doubt,) = attrs.evolve(QUIET, **change).doubts()
    assert word in doubt


def test_quiet_run_has_no_doubts() -> None:
    assert QUIET.doubts() == []


def test_other_cores_leave_out_server_workers_and_benchmark() -> None:
    around = surroundings(2.0, busy=3.0, stolen=0.2, server=1.0, workers={"a": 0.5, "b": 0.9}, late_ms=1.0)
    assert around.other_cores == pytest.approx(0.3)
    assert around.stolen_cores == pytest.approx(0.1)
    assert around.busiest_worker == "b"
    assert around.busiest_share == pytest.approx(0.45)


def test_unknown_workload_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown workload 'dance'"):
        Case("dance", 1.0)


# -- targets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "window", "target"),
    [
        (Case("fanout", 1, players=20), None, "p99 10 ms"),
        (Case("fanout", 1, players=50), None, "p99 60 ms"),
        (Case("fanout", 1, players=200), None, "0.6 x, p99 60 ms, 60 kB"),
        (Case("fanout", 1, players=1000), None, "0.8 x, p99 60 ms, 60 kB"),
        (Case("fanout", 1, players=200), "120ms", "0.3 x, 60 kB"),
        (Case("fanout", 1, players=50), "0", ""),
        (Case("relay", 1, destinations=10), None, "1.5 x, p99 20 ms"),
        (Case("relay", 1, destinations=50), None, "1 x, p99 20 ms"),
        (Case("ingest", 1, publishers=50), None, "3 x"),
        (Case("ingest", 1, publishers=50, chunk_size=128), None, "6 x"),
        (Case("join", 1, joins=10), None, "15 ms"),
        (Case("recording", 1), None, ""),
    ],
)
def test_target_depends_on_case_and_window(case: Case, window: str | None, target: str) -> None:
    assert str(target_of(case, window)) == target


@pytest.mark.parametrize(
    ("ratio", "p99", "expected"),
    [
        (0.5, 50.0, True),
        (0.7, 50.0, False),
        (0.5, 70.0, False),
        (None, 50.0, None),
        (None, 70.0, False),
    ],
)
def test_target_is_reached_when_all_bounds_are_kept(
    ratio: float | None, p99: float, expected: bool | None
) -> None:
    assert Goal(ratio=0.6, p99_ms=60.0).is_reached(ratio=ratio, p99_ms=p99) is expected


def test_case_without_target_is_neither_reached_nor_missed() -> None:
    assert Goal().is_reached() is None


# -- rounds --------------------------------------------------------------------------------------------------


def measured(figures: Callable[[Contestant, int], Run | BenchError]) -> Callable[[Contestant, Case], Run]:
    """A measurement that gives these; the number counts from zero."""
    count = iter(range(1000))

    def measure(contestant: Contestant, case: Case) -> Run:
        found = figures(contestant, next(count))
        if isinstance(found, BenchError):
            raise found
        return found

    return measure


def rest() -> None:
    """No need to wait."""


def test_servers_take_turns() -> None:
    order: list[str] = []

    def figures(server: Contestant, number: int) -> Run:
        order.append(server.name)
        return run_of(server, 1.0)

    compare(CASE, [OURS, NGINX], 3, 1, measured(figures), rest)
    ours, nginx = OURS.name, NGINX.name
    assert order == [ours, nginx, nginx, ours, ours, nginx]


def test_ratios_are_taken_within_a_round() -> None:
    """The machine gets three times slower; the ratio stays."""

    def figures(server: Contestant, number: int) -> Run:
        slow = (1.0, 2.0, 3.0)[number // 2]
        return run_of(server, slow * (0.5 if server == OURS else 1.0))

    comparison = compare(CASE, [OURS, NGINX], 3, 1, measured(figures), rest)
    (row,) = comparison.ours
    assert comparison.ratio(row) == pytest.approx(0.5)
    assert row.median(lambda run: run.cpu_per_gigabyte) == pytest.approx(1.0)
    assert comparison.is_reached(row) is None, "memory was not measured"


def test_a_noisy_run_is_repeated_and_the_quietest_counts() -> None:
    levels = [0.9, 0.4, 0.6]

    def figures(server: Contestant, number: int) -> Run:
        return run_of(server, float(number), attrs.evolve(QUIET, other_cores=levels[number]))

    comparison = compare(CASE, [OURS], 1, 3, measured(figures), rest)
    (row,) = comparison.ours
    assert row.runs[0].surroundings.other_cores == 0.4
    assert row.runs[0].attempts == 2
    assert "other processes" in row.doubts()[0]


def test_a_quiet_run_ends_the_attempts() -> None:
    def figures(server: Contestant, number: int) -> Run:
        return run_of(server, 1.0, NOISY if number == 0 else QUIET)

    comparison = compare(CASE, [OURS], 1, 3, measured(figures), rest)
    assert comparison.ours[0].runs[0].attempts == 2
    assert comparison.ours[0].doubts() == []


def test_a_failure_is_kept_and_the_rest_goes_on() -> None:
    def figures(server: Contestant, number: int) -> Run | BenchError:
        return BenchError("it did not start") if server == NGINX else run_of(server, 1.0)

    comparison = compare(CASE, [OURS, NGINX], 2, 2, measured(figures), rest)
    assert comparison.nginx is not None
    assert comparison.nginx.errors == ["it did not start"] * 2
    assert len(comparison.ours[0].runs) == 2
    assert comparison.ratio(comparison.ours[0]) is None


def test_one_noisy_run_of_three_leaves_the_row_without_doubts() -> None:
    row = ResultRow(
        CASE, OURS, {number: run_of(OURS, 1.0, NOISY if number == 0 else QUIET) for number in range(3)}
    )
    assert row.doubts() == []


# -- servers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("whole", "parts"), [(192, 8), (7, 3), (0, 5), (1, 8)])
def test_shares_add_up_to_the_whole(whole: int, parts: int) -> None:
    shares = [share(whole, number, parts) for number in range(parts)]
    assert sum(shares) == whole
    assert max(shares) - min(shares) <= 1


def test_our_command_has_window_destinations_and_recording(tmp_path: Path) -> None:
    command = ours_with_window("0").command(tmp_path, 4000, Extras(("rtmp://a/live/b",), record=True))
    assert command[command.index("--listen") + 1] == "127.0.0.1:4000"
    assert command[command.index("--merge-window") + 1] == "0"
    assert command[command.index("--relay-to") + 1] == "rtmp://a/live/b"
    assert "--record-all" in command


def test_nginx_configuration_has_push_and_recording(tmp_path: Path) -> None:
    text = nginx_configuration(tmp_path, 4000, Extras(("rtmp://a/live/b",), record=True))
    for part in ("listen 127.0.0.1:4000;", "worker_processes 1;", "access_log off;", "push rtmp://a/live/b;"):
        assert part in text
    assert f"record all; record_path {tmp_path}/recordings;" in text
    assert text.count("{") == text.count("}")
    assert "record" not in nginx_configuration(tmp_path, 4000, Extras())
