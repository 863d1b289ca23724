"""The page of a rehearsal: ten minutes, with a title of its own."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from spark_analytics.__main__ import main
from tests.spark.report_world import FIRST, Row, two_weeks, write
from tests.spark.test_report import assert_sound, titles

BEGIN = FIRST + timedelta(hours=20, minutes=3, seconds=12)


def ten_minutes() -> dict[str, list[Row]]:
    """Two recordings one after the other, and three viewers of whom two watch at the same time."""
    recordings: list[Row] = []
    for name, after, length in (("a", 0, 280), ("b", 300, 310)):
        begin = BEGIN + timedelta(seconds=after)
        recordings.append(
            {
                "file_id": name,
                "path": f"{name}.flv",
                "app": "live",
                "stream": "choir",
                "started_at": begin,
                "ended_at": begin + timedelta(seconds=length),
                "duration_ms": length * 1000,
                "size": 10**8,
                "status": "ok",
            }
        )
    world = two_weeks()
    viewers = []
    for after, length in ((20, 200), (100, 60), (400, 100)):
        begin = BEGIN + timedelta(seconds=after)
        times = {
            "started_at": begin,
            "ended_at": begin + timedelta(seconds=length),
            "watch_seconds": float(length),
        }
        viewers.append({**world["viewers"][0], "app": "live", "stream": "choir", **times})
    servers = [{**world["servers"][0], "started_at": BEGIN, "last_seen": BEGIN + timedelta(seconds=615)}]
    return {
        "recordings": recordings,
        "viewers": viewers,
        "servers": servers,
        "event_files": world["event_files"],
    }


def test_ten_minutes_have_axes_of_minutes_and_whole_viewers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, ten_minutes())
    assert main(["report", str(tmp_path), "--html", "-", "--title", "Choir <b>1</b>"]) == 0
    page = capsys.readouterr().out
    assert_sound(page)
    assert "<h1>Choir &lt;b&gt;1&lt;/b&gt;</h1>" in page
    assert "<title>Choir &lt;b&gt;1&lt;/b&gt;</title>" in page
    assert titles(page)[:2] == [
        "9 min 50 s were recorded",
        "At most 2 viewers watched at the same time: on 2 November at 20:04",
    ]
    assert "Seconds of all streams together, a bar for each minute (UTC)." in page
    assert "20:03" in page
    viewers = page.partition("At most 2 viewers")[2].partition("</svg>")[0]
    assert re.findall(r'class="tick" text-anchor="end">([\d.]+)<', viewers) == ["0", "1", "2"]
