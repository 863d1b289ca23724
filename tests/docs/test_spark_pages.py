"""The tutorial about last week's recordings, and the programs and questions of docs/catalogue.rst, with a real Spark."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.__main__ import main
from tests.docs.pages import blocks
from tests.docs.terminal import Terminal
from tests.docs.test_tutorials import typed
from tests.helpers import wait_for
from tests.service.interop import FFmpeg
from tests.spark.conftest import spark as spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

#: The evening of the tutorial, and the day after it.
PAGE_DAYS = (date(2026, 11, 10), date(2026, 11, 11))

#: Folders of the pages that Java reads and writes.
FOLDERS = {"recordings", "catalogue", "events"}

#: Two and a half minutes around the moment.
BROADCAST = (
    "-f lavfi -i testsrc2=size=160x90:rate=10 -f lavfi -i sine=frequency=440"
    " -t 150 -c:v libx264 -preset ultrafast -g 20 -pix_fmt yuv420p -c:a aac"
)


def days_of_this_week(line: str) -> str:
    """A command of the tutorial, about yesterday: what the server of this test logs is of today."""
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    for written, here in zip(PAGE_DAYS, (yesterday, yesterday + timedelta(days=1)), strict=True):
        line = line.replace(written.isoformat(), here.isoformat())
    return line


class Analyst:
    """Somebody in a folder with recordings, who types commands of spark_analytics."""

    def __init__(self, terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
        self._terminal = terminal
        self._capsys = capsys

    def type(self, line: str) -> str:
        """Type a command; what it wrote. Spark's commands share the session of these tests."""
        line = days_of_this_week(line)
        words = [self.place(word) for word in shlex.split(line)]
        if words[:3] != ["python", "-m", "spark_analytics"]:
            return self._terminal.run(line)
        assert main(words[3:]) == 0, f"{line}: {self._capsys.readouterr().err}"
        return self._capsys.readouterr().out

    def place(self, word: str) -> str:
        """The Java of a session works in the folder in which it was started, which is not this one."""
        return str(self._terminal.folder / word) if word.rstrip("/") in FOLDERS else word


def record(terminal: Terminal, ffmpeg: FFmpeg, server: str) -> None:
    """The week before: an evening that was recorded, and a server with a viewer today."""
    relay = terminal.start_server(server)
    encoder = terminal.start(
        "ffmpeg -v error -re -f lavfi -i testsrc2=size=160x90:rate=10 -c:v libx264 -preset ultrafast -g 10"
        " -pix_fmt yuv420p -f flv rtmp://127.0.0.1/live/test"
    )
    wait_for(lambda: "publish of live/test" in terminal.log_of(relay).read_text(), "the stream")
    terminal.run("ffplay rtmp://127.0.0.1/live/test")
    terminal.end(encoder)
    terminal.end(relay)
    evening = f"{days_of_this_week(PAGE_DAYS[0].isoformat()).replace('-', '')}_201400"
    film = ffmpeg.make("evening.flv", BROADCAST)
    (terminal.folder / "recordings" / f"live_test_{evening}.flv").symlink_to(film)


@pytest.mark.full
def test_find_a_moment(
    terminal: Terminal,
    ffmpeg: FFmpeg,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, index, streams, find, cut, check, incidents, index_events, viewers, report = typed(
        "find_a_moment"
    )
    record(terminal, ffmpeg, server)
    monkeypatch.chdir(terminal.folder)
    analyst = Analyst(terminal, capsys)
    assert "catalogue is version 1 now" in analyst.type(index)
    assert "test" in analyst.type(streams)
    (found,) = [json.loads(line) for line in analyst.type(f"{find} --format json").splitlines()]
    assert "_201400.flv" in found["path"]
    analyst.type(cut)
    assert "fine" in analyst.type(check)
    # From the keyframe before the moment up to half a minute behind it.
    assert 30 < ffmpeg.hash_of(terminal.folder / "moment.flv").of("video")[-1].dts / 1000 < 33
    analyst.type(incidents)
    assert "event logs read" in analyst.type(index_events)
    (watched,) = [json.loads(line) for line in analyst.type(f"{viewers} --format json").splitlines()]
    assert watched["plays"] == 1
    analyst.type(report)
    assert "live/test" in (terminal.folder / "report.html").read_text()
    ask_what_the_pages_ask(spark, analyst)
    capsys.readouterr()


def ask_what_the_pages_ask(spark: SparkSession, analyst: Analyst) -> None:
    """Run the programs of docs/catalogue.rst in this folder, and then its questions, which see their tables."""
    (door, session, others, source) = of_catalogue("python")
    assert "build_session()" in session
    names: dict[str, object] = {"__name__": "__page__"}
    for program in (door, session, others, source):
        # Not the names of tables, which a program has in parentheses or brackets.
        here = re.sub(r'(?<!table\()(?<!\[)"([a-z]+/?)"', lambda text: repr(analyst.place(text[1])), program)
        exec(compile(here, "docs/catalogue.rst", "exec"), names)  # noqa: S102
    theirs = names["spark"]
    assert isinstance(theirs, type(spark))
    (questions,) = of_catalogue("sql")
    asked = [re.sub(r"^--.*$", "", part, flags=re.MULTILINE).strip() for part in questions.split(";")]
    answers = [theirs.sql(question).collect() for question in filter(None, asked)]
    assert len(answers) == 5
    # The bitrate of what was recorded.
    assert all(row["kbps"] > 0 for row in answers[2])
    assert answers[2]


def of_catalogue(language: str) -> list[str]:
    """The blocks of the page about the catalogue."""
    return [
        block.text for block in blocks() if (block.page, block.language) == ("docs/catalogue.rst", language)
    ]
