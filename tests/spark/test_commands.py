"""The commands: what people ask, and what they are told when they ask for what is not there."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.__main__ import COMMANDS, main
from spark_analytics.cli.common import parse_time, plain_errors
from spark_analytics.cli.output import Progress, write_rows
from spark_analytics.errors import CatalogueError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_analytics.store.versions import Snapshot

Capture = pytest.CaptureFixture[str]


def ask(snapshot: Snapshot, *arguments: str) -> int:
    return main([*arguments, "--catalogue", str(snapshot.root)])


# -- lists ---------------------------------------------------------------------------------------------------


def test_streams(snapshot: Snapshot, capsys: Capture) -> None:
    assert ask(snapshot, "streams", "--format", "csv") == 0
    rows = {row["stream"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    assert (rows["film"]["files"], rows["film"]["damaged"], rows["film"]["incidents"]) == ("3", "0", "0")
    assert float(rows["film"]["hours"]) == pytest.approx(9 / 3600, rel=0.02)
    assert (rows["damaged"]["damaged"], rows["page"]["damaged"]) == ("1", "1")
    # The bitrate of the stream: files have room for an index at their beginning, and headers between frames.
    film = [row for row in snapshot.arrow("recordings").to_pylist() if row["stream"] == "film"]
    payload = sum(row["video_bytes"] + row["audio_bytes"] for row in film)
    assert float(rows["film"]["kbps"]) == pytest.approx(8 * payload / sum(row["duration_ms"] for row in film))
    assert rows["page"]["kbps"] == ""
    assert ask(snapshot, "streams") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["app", "stream", "files"]


def test_incidents(snapshot: Snapshot, capsys: Capture) -> None:
    assert (
        ask(snapshot, "incidents", "--stream", "live/damaged", "--kind", "garbage", "--format", "json") == 0
    )
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (row["kind"], row["stream"]) == ("garbage", "damaged")
    assert row["bytes"] >= 10_000
    one = ("incidents", "--stream", "live/damaged", "--kind", "garbage", "--format", "json")
    for option, count in (("--since", 1), ("--until", 0)):
        assert ask(snapshot, *one, option, row["wall"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == count, f"what is at {option}"
    assert ask(snapshot, "incidents", "--since", "1d", "--format", "json") == 0
    assert capsys.readouterr().out == ""
    assert ask(snapshot, "incidents", "--stream", "live/nobody") == 1
    assert "There is no recording of live/nobody" in capsys.readouterr().err
    assert (
        ask(
            snapshot,
            "incidents",
            "--since",
            "2026-01-01T13:00:00",
            "--until",
            "2026-01-02",
            "--format",
            "json",
        )
        == 0
    )
    assert len(capsys.readouterr().out.splitlines()) > 3


@pytest.mark.parametrize("engine", [(), ("--master", "local[2]")], ids=["DuckDB", "Spark"])
def test_sql(spark: SparkSession, snapshot: Snapshot, capsys: Capture, engine: tuple[str, ...]) -> None:
    question = (
        "SELECT stream, count(*) AS files FROM recordings WHERE app = 'live' AND stream = 'film' GROUP BY 1"
    )
    assert ask(snapshot, "sql", question, "--format", "csv", *engine) == 0
    assert capsys.readouterr().out == "stream,files\nfilm,3\n"
    assert ask(snapshot, "sql", "SELECT nonsense FROM recordings", *engine) == 1
    error = capsys.readouterr().err
    assert "nonsense" in error
    assert len(error.splitlines()) == 1
    spark.sql("SELECT 1").collect()


def test_sql_with_columns_of_the_same_name(snapshot: Snapshot, capsys: Capture) -> None:
    """An object of JSON has one of them only; in a table both can be seen."""
    question = "SELECT 1 AS path, 2 AS other, 3 AS path"
    assert ask(snapshot, "sql", question, "--format", "json") == 1
    out, error = capsys.readouterr()
    assert (out, error) == (
        "",
        "Two columns are called path, and JSON has one: name them, as in `a.path AS a_path`.\n",
    )
    for form, line in (("csv", "1,2,3"), ("table", "   1      2     3")):
        assert ask(snapshot, "sql", question, "--format", form) == 0
        assert capsys.readouterr().out.splitlines()[-1] == line


@pytest.mark.parametrize("engine", [(), ("--master", "local[2]")], ids=["DuckDB", "Spark"])
def test_sql_says_in_one_line_that_a_table_cannot_be_read(
    snapshot: Snapshot, tmp_path: Path, capsys: Capture, engine: tuple[str, ...]
) -> None:
    """Of a catalogue that was copied in part."""
    copy = shutil.copytree(snapshot.root, tmp_path / "copy")
    shutil.rmtree(copy / "keyframes")
    assert main(["sql", "SELECT * FROM keyframes", "--catalogue", str(copy), *engine]) == 1
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "keyframes" in error


# -- the rest ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["index", "--out", "x"], "Say what to index"),
        (["index", "/no/such/folder", "--out", "{tmp}/x"], "There is no file or folder /no/such/folder."),
        (["index", "/no/such/*.flv", "--out", "{tmp}/x"], "There is no folder /no/such, where"),
        (["index", "{tmp}/*.flv", "--out", "{tmp}/x"], "Nothing matches {tmp}/*.flv."),
        (["index", "{tmp}", "--events", "/no/logs", "--out", "{tmp}/x"], "There is no event log '/no/logs'"),
        (["index", "{tmp}", "--conf", "nonsense", "--out", "{tmp}/x"], "--conf nonsense: write KEY=VALUE"),
        (["incidents", "--kind", "nonsense"], "invalid choice: 'nonsense'"),
        (["incidents", "--since", "1d", "--until", "2d"], "--since 1d is later than --until 2d."),
        (["viewers", "--since", "today", "--until", "yesterday"], "--since today is later than"),
        (["viewers", "--since", "999999d"], "999999d is beyond the years 1 to 9999"),
        (
            ["incidents", "--since", "0001-01-01T00:00:00+01:00"],
            "0001-01-01T00:00:00+01:00 is beyond the years",
        ),
        (["report", "--html", "-", "--until", "9999-12-31T23:59:59-01:00"], "is beyond the years 1 to 9999"),
        (["find", "live/a", "--at", "9999999h"], "9999999h is no time"),
        (["find", "live/a", "--at", "²d"], "²d is no time"),
        (["index", "{tmp}"], "the following arguments are required: --out"),
        (["index", "{tmp}", "--out", "/dev/null/x"], "Not a directory"),
        (["streams", "--catalogue", "{tmp}"], "There is no catalogue in"),
        (["find", "live/a", "--at", "2026-01-01", "--seconds", "0"], "--seconds 0: write more than 0, and"),
        (["find", "live/a", "--at", "2026-01-01", "--seconds", "1e9"], "and at most 1000000"),
        (["find", "live/a", "--at", "2026-01-01", "--seconds", "nan"], "--seconds nan: write more than 0"),
        (["find", "live/a", "--at", "2026-01-01", "--cut", "-"], "--cut -: a clip needs a file"),
        (["dance"], "invalid choice: 'dance'"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], words: str, tmp_path: Path, capsys: Capture) -> None:
    arguments = [argument.format(tmp=tmp_path) for argument in arguments]
    words = words.format(tmp=tmp_path)
    try:
        status = main(arguments)
    except SystemExit as ended:
        status = int(str(ended.code))
    out, error = capsys.readouterr()
    assert (status, out) == (1, "")
    lines = [line for line in error.splitlines() if not line.endswith("...")]
    assert len(lines) == 1
    assert words in lines[0]


def test_what_spark_complains_about_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Also while it reads event logs."""
    from pyspark.errors import PySparkException

    def fail(*_: object) -> None:
        raise PySparkException(
            "An error occurred while calling o850.parquet.\n: java.io.IOException: No space\n\tat x"
        )

    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "events_20260101_120000.jsonl").write_text('{"event":"x"}\n')
    monkeypatch.setattr("spark_analytics.event_logs.update.read_new_events", fail)
    assert main(["index", "--events", str(tmp_path / "events"), "--out", str(tmp_path / "catalogue")]) == 1
    assert capsys.readouterr().err == "java.io.IOException: No space\n"
    with pytest.raises(ZeroDivisionError), plain_errors():
        raise ZeroDivisionError


def test_a_folder_without_event_logs_is_told(tmp_path: Path, capsys: Capture) -> None:
    """Most likely it is the wrong one."""
    (tmp_path / "live_a_20260101_120000.flv").write_bytes(b"")
    assert main(["index", "--events", str(tmp_path), "--out", str(tmp_path / "catalogue")]) == 0
    assert "no event logs were found; in a folder they are called events_*.jsonl" in capsys.readouterr().out


def test_a_worker_that_cannot_write_says_why() -> None:
    """Spark itself says only that writing failed; the reason is among the causes."""
    from pyspark.errors import PySparkException

    full = Mock(**{"getCause.return_value": None, "getMessage.return_value": "No space left on device\nat x"})
    error: Any = PySparkException(
        "[TASK_WRITE_FAILED] Task failed while writing rows to file:/c. SQLSTATE: 58030"
    )
    error._origin = Mock(**{"getCause.return_value": full})
    with (
        pytest.raises(
            CatalogueError, match=r"^Spark could not write the catalogue: No space left on device$"
        ),
        plain_errors(),
    ):
        raise error


def test_help_names_every_command(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert all(f"\n    {name}" in out for name in COMMANDS)


def test_times() -> None:
    assert parse_time("2026-01-01T12:34:56") == datetime(2026, 1, 1, 12, 34, 56, tzinfo=UTC)
    assert parse_time("2026-01-01T12:34:56+02:00") == datetime(2026, 1, 1, 10, 34, 56, tzinfo=UTC)
    assert abs(parse_time("2h") - datetime.now(UTC) + timedelta(hours=2)) < timedelta(seconds=5)
    with pytest.raises(CatalogueError):
        parse_time("h")


def test_names_from_strangers_do_not_move_the_cursor() -> None:
    out = io.StringIO()
    write_rows(out, ["name", "n"], [("a\x1b[2Jb\nc", 1.5), (None, 2.0)])
    assert out.getvalue().splitlines() == ["name        n", "--------  ---", "a?[2Jb?c  1.5", "            2"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_and_elsewhere() -> None:
    terminal, file = Terminal(), io.StringIO()
    with Progress(terminal) as progress:
        progress.say("reading 3 recordings")
        deadline = time.monotonic() + 60
        while "reading 3 recordings 0:0" not in terminal.getvalue():
            assert time.monotonic() < deadline
    assert terminal.getvalue().endswith("\r"), "the line is empty again"
    with Progress(file) as progress:
        progress.say("reading 3 recordings")
        progress.say("reading 3 recordings")
    assert file.getvalue() == "reading 3 recordings ...\n"


class Stages:
    """As much of a session as the bar looks at: two stages, one of them with three of four tasks done."""

    @property
    def sparkContext(self) -> Stages:  # noqa: N802
        return self

    def statusTracker(self) -> Stages:  # noqa: N802
        return self

    def getActiveStageIds(self) -> list[int]:  # noqa: N802
        return [1, 2]

    def getStageInfo(self, stage: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(numTasks=4, numCompletedTasks=3 if stage == 1 else 0)


def test_the_bar_shows_the_tasks_that_are_done() -> None:
    terminal = Terminal()
    with Progress(terminal) as progress:
        progress.say("reading 3 recordings", cast("SparkSession", Stages()))
        deadline = time.monotonic() + 60
        while "3/8" not in terminal.getvalue():
            assert time.monotonic() < deadline
    assert f"\rreading 3 recordings [{'#' * 15}{'.' * 25}] 3/8 0:0" in terminal.getvalue()


def test_progress_tells_only_those_who_wait() -> None:
    quick, slow = io.StringIO(), io.StringIO()
    with Progress(quick, patience=60) as progress:
        progress.say(lambda: pytest.fail("nobody waits"))
    assert quick.getvalue() == ""
    with Progress(slow, patience=0.01) as progress:
        progress.say(lambda: "reading up to 12.0 MB in 3 files of viewers")
        deadline = time.monotonic() + 60
        while not slow.getvalue():
            assert time.monotonic() < deadline
    assert slow.getvalue() == "reading up to 12.0 MB in 3 files of viewers ...\n"


def test_question_that_takes_long_tells_how_much_is_read(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    told: list[str] = []

    @contextmanager
    def tell(what: str | Callable[[], str]) -> Iterator[None]:
        told.append(what if isinstance(what, str) else what())
        yield

    monkeypatch.setattr("spark_analytics.cli.common.told_if_long", tell)
    assert ask(snapshot, "incidents", "--stream", "live/film") == 0
    assert [re.sub(r"[\d.]+ MB in \d+ files", "N MB in N files", line) for line in told] == [
        "reading up to N MB in N files of recordings",
        "reading up to N MB in N files of incidents",
    ]


def test_answer_without_rows_says_so(snapshot: Snapshot, capsys: Capture) -> None:
    for question in (
        ("incidents", "--since", "2031-01-01"),
        ("sql", "SELECT path FROM recordings WHERE false"),
    ):
        assert ask(snapshot, *question) == 0
        assert capsys.readouterr().err == "0 rows\n"
        assert ask(snapshot, *question, "--format", "csv") == 0
        assert capsys.readouterr().err == ""
