"""docs/catalogue.rst says what the schemas say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.flv.datasource import TAGS
from spark_analytics.recordings import findings
from spark_analytics.recordings.results import STATUSES
from spark_analytics.store.schema import INCIDENTS, KEYFRAMES, RECORDINGS, SECONDS, SESSIONS, Table

PAGE = (Path(__file__).parents[2] / "docs" / "catalogue.rst").read_text()


def tables_in(text: str) -> list[list[list[str]]]:
    """The simple tables of a text, row by row, without their heads."""
    found = re.findall(r"^(=+(?: =+)+)\n.*\n\1\n((?:.*\n)+?)\1$", text, re.MULTILINE)
    return [
        [re.split(r" +", line, maxsplit=bars.count(" ")) for line in body.splitlines()]
        for bars, body in found
    ]


def section(title: str) -> str:
    match = re.search(rf"^{re.escape(title)}\n(~|-)+\n(.*?)(?=^[^\n]+\n(?:~~~|---)|\Z)", PAGE, re.M | re.S)
    assert match is not None, title
    return match[2]


@pytest.mark.parametrize(
    ("title", "table"),
    [(table.name, table) for table in (RECORDINGS, KEYFRAMES, SECONDS, INCIDENTS, SESSIONS)]
    + [('In a program: the data source "flv"', TAGS)],
)
def test_every_column_is_documented(title: str, table: Table) -> None:
    documented = tables_in(section(title))[0]
    expected = [[column.name, column.type, column.meaning.replace("`", "``")] for column in table.columns]
    assert documented == expected


def test_every_status_and_kind_is_documented() -> None:
    (statuses,) = tables_in(section("Statuses"))
    assert sorted(row[0].strip("`") for row in statuses) == sorted(STATUSES)
    kinds = tables_in(section("incidents"))[1]
    assert sorted(row[0].strip("`") for row in kinds) == sorted(findings.KINDS)
