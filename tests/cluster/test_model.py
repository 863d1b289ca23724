"""The model of docs/explanation/cluster.rst: the page shows what the program says."""

from __future__ import annotations

import runpy

from tests.docs.pages import DOCS


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
    _, _, million = found[-1]
    assert million.commands < 1000
