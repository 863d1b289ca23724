"""The pages describe every column of the answers of commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.catalogue import Catalogue
from spark_analytics.cli.find import COLUMNS
from spark_analytics.questions.api import (
    list_audience,
    list_destinations,
    list_outages,
    list_streams,
    list_viewers,
)
from spark_analytics.questions.ask import Scope
from tests.spark.report_world import two_weeks, write

DOCS = Path(__file__).parents[2] / "docs"


def documented(page: str, command: str) -> list[str]:
    """The columns that a page describes below the name of a command."""
    match = re.search(
        rf"^``{command}`` has (?:[^\n]|\n(?!\n))*:\n\n(=+ =+)\n[^\n]*\n\1\n(.*?)^\1$",
        (DOCS / page).read_text(),
        re.M | re.S,
    )
    assert match is not None, command
    return [line.split()[0] for line in match[2].splitlines() if not line.startswith(" ")]


def test_the_columns_of_answers(tmp_path: Path) -> None:
    write(tmp_path, two_weeks(days=1))
    snapshot = Catalogue(tmp_path).open()
    answers = {
        "viewers": list_viewers(snapshot, Scope()),
        "viewers --minutes": list_audience(snapshot, Scope()),
        "destinations": list_destinations(snapshot, Scope(), by_day=True),
        "outages": list_outages(snapshot, Scope()),
    }
    for command, rows in answers.items():
        assert documented("audience.rst", command) == list(rows[0]), command
    assert documented("catalogue.rst", "streams") == list_streams(snapshot).column_names
    assert documented("catalogue.rst", "find") == list(COLUMNS)
