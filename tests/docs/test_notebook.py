"""The notebook of docs/tutorials/ask_in_a_notebook.rst: every cell is run, and answers what the page shows below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install '.[catalogue]'")
pytest.importorskip("pandas", reason="pandas is not installed: pip install '.[spark]'")

from tests.docs.pages import Block, blocks, shell_lines
from tests.docs.terminal import Terminal

PAGE = "docs/tutorials/ask_in_a_notebook.rst"

#: The first cell that needs Spark begins so.
WITH_SPARK = "from spark_analytics.engine.spark"


def steps() -> Iterator[tuple[Block, str | None]]:
    """What is typed, in order: lines for a shell, and cells with their answers."""
    of_page = [block for block in blocks() if block.page == PAGE]
    for block, after in zip(of_page, [*of_page[1:], None], strict=True):
        if block.language != "text":
            yield block, after.text if after is not None and after.language == "text" else None


def run_cell(text: str, names: dict[str, Any]) -> Any:
    """Run a cell; the value of its last expression, as a notebook shows it."""
    tree = ast.parse(text)
    last = tree.body.pop()
    exec(compile(tree, PAGE, "exec"), names)  # noqa: S102
    assert isinstance(last, ast.Expr), f"a cell without an answer: {text}"
    return eval(compile(ast.Expression(last.value), PAGE, "eval"), names)  # noqa: S307


def follow(terminal: Terminal, begin: int, end: int | None, names: dict[str, Any]) -> None:
    """Type a part of the page, and compare its answers."""
    for block, answer in list(steps())[begin:end]:
        if block.language == "sh":
            for line in shell_lines(block.text):
                if not line.startswith("pip install"):
                    terminal.run(line)
        else:
            assert block.language == "python"
            assert repr(run_cell(block.text, names)) == answer, str(block)


def first_with_spark() -> int:
    return next(number for number, (block, _) in enumerate(steps()) if block.text.startswith(WITH_SPARK))


def test_cells_without_spark_answer_what_the_page_shows(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(terminal.folder)
    names: dict[str, Any] = {}
    follow(terminal, 0, first_with_spark(), names)
    assert names["new"].version == 2


@pytest.mark.full
def test_cells_with_spark_answer_what_the_page_shows(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a session of its own: the folder in which Java was started is the one of the recordings."""
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")
    monkeypatch.chdir(terminal.folder)
    names: dict[str, Any] = {}
    try:
        follow(terminal, 0, None, names)
    finally:
        if "spark" in names:
            names["spark"].stop()
