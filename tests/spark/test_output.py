"""Answers in the forms that programs read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="Spark is not installed: pip install '.[spark]'")

import pyarrow as pa

from spark_analytics.__main__ import main
from spark_analytics.cli.index import describe
from spark_analytics.cli.output import write_rows, write_table
from spark_analytics.recordings.discover import Listing
from spark_analytics.recordings.plan import Plan


def test_names_of_damaged_files_do_not_move_the_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {
        "path": "/rec/a\x1b[2Jb\n.flv", "status": "damaged", "error": None, "lost_bytes": 3, "size": 9, "duration_ms": 0,
    }  # fmt: skip
    plan = Plan(read=(), vanished=(), returned=(), kept=0)
    assert describe(plan, [row])[-1] == "  damaged: /rec/a?[2Jb?.flv (3 of 9 bytes lost)"

    def find_nothing(_: object, warn: Callable[[str], None]) -> Listing:
        warn("/rec/a\x1b[2J: no access")
        return Listing({}, ())

    monkeypatch.setattr("spark_analytics.cli.index.find_recordings", find_nothing)
    assert main(["index", str(tmp_path), "--out", str(tmp_path / "catalogue")]) == 0
    assert "/rec/a?[2J: no access\n" in capsys.readouterr().err


def written(values: list[object], form: str) -> str:
    out = io.StringIO()
    write_rows(out, ["value"], [(value,) for value in values], form)
    return out.getvalue()


def test_what_json_does_not_know_is_null() -> None:
    lines = written([float("nan"), float("inf"), [1.5, float("-inf")]], "json").splitlines()
    assert lines == ['{"value": null}', '{"value": null}', '{"value": [1.5, null]}']


def test_cells_of_a_spreadsheet_are_plain_or_json() -> None:
    text = written([{"full": 7, "ä": None}, [1, "a"], True, False, None, 1.5], "csv")
    cells = [row["value"] for row in csv.DictReader(io.StringIO(text))]
    assert cells == ['{"full": 7, "ä": null}', '[1, "a"]', "true", "false", "", "1.5"]


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|x", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-", "=", "-1-1", "+1e"]
)
def test_cell_that_a_spreadsheet_would_compute_is_marked_as_text(text: str) -> None:
    """Names of streams and of players come from strangers."""
    (row,) = csv.DictReader(io.StringIO(written([text], "csv"), newline=""))
    assert row["value"] == f"'{text}"


@pytest.mark.parametrize("value", ["-5", "+3", "-0.25", "1e-7", "-1E+9", -5, -0.25, "a=b", "1-2", ""])
def test_cell_with_a_plain_number_or_text_stays_as_it_is(value: object) -> None:
    (row,) = csv.DictReader(io.StringIO(written([value], "csv"), newline=""))
    assert row["value"] == str(value)


def test_name_of_a_column_is_no_formula_either() -> None:
    out = io.StringIO()
    write_rows(out, ["=1+1"], [], "csv")
    assert out.getvalue() == "'=1+1\n"


def test_maps_are_objects() -> None:
    """Also those within something else, as a question in SQL may make them."""
    reasons = pa.map_(pa.string(), pa.int64())
    table = pa.table(
        {
            "reasons": pa.array([[("full", 7)], None, []], reasons),
            "list": pa.array([[[("a", 1)], None], [], None], pa.list_(reasons)),
            "struct": pa.array([{"m": [("b", 2)]}, None, {"m": None}], pa.struct([("m", reasons)])),
        }
    )
    out = io.StringIO()
    write_table(out, table, "json")
    assert list(map(json.loads, out.getvalue().splitlines())) == [
        {"reasons": {"full": 7}, "list": [{"a": 1}, None], "struct": {"m": {"b": 2}}},
        {"reasons": None, "list": [], "struct": None},
        {"reasons": {}, "list": None, "struct": {"m": None}},
    ]
    out = io.StringIO()
    write_table(out, table.select(["reasons"]))
    assert out.getvalue().splitlines()[2] == '{"full": 7}'
