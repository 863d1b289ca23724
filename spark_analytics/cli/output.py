"""Answers as people, programs and spreadsheets want them."""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TextIO

import attrs

from spark_analytics.errors import CatalogueError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("table", "json", "csv")

#: What begins a formula in some spreadsheet, also after a tab or a return that it passes over.
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
_PLAIN_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)

#: Longer texts are cut in tables for people; the other formats have everything.
_WIDEST = 400


def add_format_argument(parser: argparse.ArgumentParser) -> None:
    """The option that every question has."""
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to write the answer")


def refuse_same_names(columns: Sequence[str], form: str) -> None:
    """See, before there is an answer, whether it can be written whole.

    Raises:
        CatalogueError: Two columns have the same name, and of those JSON has one only.
    """
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if form == "json" and twice:
        name = printable(twice[0])
        raise CatalogueError(
            f"Two columns are called {name}, and JSON has one: name them, as in `a.{name} AS a_{name}`."
        )


def write_rows(
    out: TextIO, columns: Sequence[str], rows: Sequence[Sequence[Any]], form: str = "table"
) -> None:
    """Write an answer."""
    if form == "json":
        for row in rows:
            values = dict(zip(columns, map(_plain, row), strict=True))
            out.write(json.dumps(values, ensure_ascii=False) + "\n")
    elif form == "csv":
        writer = csv.writer(_UnixLines(out), lineterminator="\r\n")
        writer.writerow(map(_harmless, columns))
        writer.writerows([[_cell(value) for value in row] for row in rows])
    else:
        _write_table(out, columns, rows)


@attrs.frozen
class _UnixLines:
    """Ends lines with a line feed alone; `csv` puts quotes around a return only where lines end with one."""

    out: TextIO

    def write(self, line: str) -> int:
        """One row."""
        return self.out.write(line.removesuffix("\r\n") + "\n")


def say_if_empty(count: int, form: str) -> None:
    """People read that there are 0 rows; programs get a table without any."""
    if not count and form == "table":
        sys.stderr.write("0 rows\n")


def write_table(out: TextIO, table: pa.Table, form: str = "table") -> None:
    """The same for an answer in Arrow."""
    columns = [
        [_with_objects(value, column.type) for value in column.to_pylist()] for column in table.columns
    ]
    write_rows(out, table.column_names, list(zip(*columns, strict=True)), form)


def _with_objects(value: Any, kind: pa.DataType) -> Any:
    """The same value, but maps, which Arrow gives as lists of pairs, as dictionaries. Its own option is not in all versions."""
    from pyarrow import types

    if value is None or not types.is_nested(kind):
        return value
    if types.is_map(kind):
        return {key: _with_objects(one, kind.item_type) for key, one in value}
    if types.is_struct(kind):
        return {field.name: _with_objects(value[field.name], field.type) for field in kind}
    return [_with_objects(one, kind.value_type) for one in value] if isinstance(value, list) else value


def _write_table(out: TextIO, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    if not rows:
        # Bare headings look like a mistake.
        return
    texts = [[_text(value) for value in row] for row in rows]
    widths = [max(len(name), *(len(row[number]) for row in texts)) for number, name in enumerate(columns)]
    right = [
        all(isinstance(row[number], int | float) or row[number] is None for row in rows)
        for number in range(len(columns))
    ]
    for line in [list(columns), ["-" * width for width in widths], *texts]:
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ]
        out.write("  ".join(cells).rstrip() + "\n")


def _cell(value: Any) -> Any:
    """As a spreadsheet knows it; what it does not know is JSON."""
    if value is None:
        return ""
    plain = _plain(value)
    if isinstance(plain, str):
        return _harmless(plain)
    is_json = isinstance(plain, bool | dict | list)
    return json.dumps(plain, ensure_ascii=False) if is_json else plain


def _harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula: names and reasons come from strangers. The sign in front is the one
    by which spreadsheets know that a text follows.
    """
    is_formula = text.startswith(_FORMULA_SIGNS) and not _PLAIN_NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def _plain(value: Any) -> Any:
    """As JSON knows it; times as ISO 8601 in UTC."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(
            timespec="milliseconds" if value.microsecond else "seconds"
        )
        return text + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)


def printable(text: str) -> str:
    """A text in one line, without what could move a terminal's cursor: names come from strangers."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _text(value: Any) -> str:
    """For people."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    plain = _plain(value)
    text = printable(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."
