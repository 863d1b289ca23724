"""The model of docs/explanation/cluster.rst: the page shows what the program says."""

from __future__ import annotations

import json
import runpy
import statistics
import sys
from pathlib import Path

from rtmprelay.cluster.directory import NodeRecord
from rtmprelay.cluster.redis_directory import RedisDirectory
from rtmprelay.cluster.settings import read_directory_address
from tests.cluster.redis import RedisServer, needs_redis
from tests.docs.pages import DOCS
from tests.helpers import real_reactor_test, the_reactor


def test_page_has_the_table_that_the_program_makes() -> None:
    model = runpy.run_path(str(DOCS / "explanation" / "cluster_model.py"))
    page = (DOCS / "explanation" / "cluster.rst").read_text()
    lines = model["table"](model["rows"]())
    assert len(lines) == 13
    assert [line for line in lines if line.rstrip() not in page] == []


def test_plot_is_that_of_the_program() -> None:
    model = runpy.run_path(str(DOCS / "explanation" / "cluster_model.py"))
    assert model["plot"](model["rows"]()) == (DOCS / "images" / "cluster-model.svg").read_text()


def test_larger_audiences_take_more_and_keeping_streams_together_takes_less() -> None:
    model = runpy.run_path(str(DOCS / "explanation" / "cluster_model.py"))
    found = model["rows"]()
    spread = [need.nodes for _, need, _ in found]
    assert spread == sorted(spread)
    assert all(together.nodes <= at_random.nodes for _, at_random, together in found[1:])


def test_constants_are_not_better_than_what_was_measured() -> None:
    model = runpy.run_path(str(DOCS / "explanation" / "cluster_model.py"))
    rows = json.loads((DOCS / "images" / "fan-out.json").read_text())["rows"]

    def most_of_a_core(workload: str, receivers: str, count: int) -> float:
        """How many a core would take, by the median of the rounds."""
        (runs,) = [
            row["runs"]
            for row in rows
            if row["case"]["workload"] == workload
            and row["case"][receivers] == count
            and row["case"]["chunk_size"] == 4096
            and not row["server"]["is_nginx"]
            and not row["server"]["options"]
        ]
        return count / float(statistics.median(run["cpu_seconds"] / run["seconds"] for run in runs))

    assert model["PLAYERS_OF_A_CORE"] <= most_of_a_core("fanout", "players", 1000) * 1.01
    assert model["PUBLISHERS_OF_A_CORE"] <= most_of_a_core("ingest", "publishers", 50) * 1.01


@needs_redis
@real_reactor_test
async def test_renewal_is_as_many_commands_as_the_model_says(tmp_path: Path) -> None:
    model = runpy.run_path(str(DOCS / "explanation" / "cluster_model.py"))
    with RedisServer(tmp_path) as server:
        node = NodeRecord("n", "run", "rtmp://127.0.0.1:1")
        directory = RedisDirectory(the_reactor(), read_directory_address(server.url))
        await directory.open()
        await directory.renew(node, {})
        for number in range(100):
            await directory.claim(f"live/{number}", node)
        before = server.commands()
        for _ in range(10):
            await directory.renew(node, {})
        # The question for the count is a command too.
        each = (server.commands() - before - 1) / 10
        await directory.close()
    sys.stdout.write(f"a renewal with 100 streams: {each:g} commands\n")
    assert each == model["COMMANDS_OF_A_RENEWAL"]
