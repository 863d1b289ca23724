"""docs/audience.rst and docs/events.rst say what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rtmprelay.events.lines import COMMON_FIELDS
from spark_analytics.store.schema import Table
from spark_analytics.store.tables import EVENT_TABLES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "audience.rst").read_text()


@pytest.mark.parametrize("table", EVENT_TABLES, ids=lambda table: table.name)
def test_every_column_is_documented(table: Table) -> None:
    match = re.search(rf"^{table.name}\n~+\n\n(.*?)\n\n(=+ =+ =+)\n[^\n]*\n\2\n(.*?)\2$", PAGE, re.M | re.S)
    assert match is not None
    assert " ".join(match[1].split()) == table.meaning.replace("`", "``")
    rows = [re.split(r" +", line, maxsplit=2) for line in match[3].splitlines()]
    assert rows == [[column.name, column.type, column.meaning.replace("`", "``")] for column in table.columns]


def test_the_common_fields_of_a_line_are_documented() -> None:
    page = (DOCS / "events.rst").read_text()
    named = [name for name in re.findall(r"^(\w+) {2,}\S", page, re.MULTILINE) if name != "field"]
    assert tuple(named) == COMMON_FIELDS
