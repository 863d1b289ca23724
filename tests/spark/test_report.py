"""The page: complete in itself, safe, bounded, and right."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from spark_analytics.__main__ import main
from spark_analytics.catalogue import Catalogue
from spark_analytics.questions.ask import TimeWindow
from spark_analytics.report.curves import Period
from spark_analytics.report.data import ReportData, gather
from spark_analytics.report.page import render
from tests.spark.report_world import FIRST, Row, two_weeks, write

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def data_of(root: Path, tables: dict[str, list[Row]], **options: Any) -> ReportData:
    write(root, tables)
    return gather(Catalogue(root).open(), **options)


def titles(page: str) -> list[str]:
    return re.findall("<h2>(.*?)</h2>", page)


def assert_sound(page: str) -> list[ET.Element]:
    """Nothing is fetched, nothing runs, and every picture is well-formed; the pictures."""
    assert page.startswith("<!DOCTYPE html>")
    assert "<script" not in page
    assert not re.search(r"""(src|href|url|@import)\s*[=(]|https?:""", page)
    pictures = [ET.fromstring(found) for found in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]
    for picture in pictures:
        assert picture.get("role") == "img"
        assert picture.get("aria-label")
        _, _, width, height = map(float, str(picture.get("viewBox")).split())
        for shape in picture.iter("rect"):
            box = {name: float(str(shape.get(name, 0))) for name in ("x", "y", "width", "height")}
            assert box["width"] >= 0
            assert box["height"] >= 0
            assert 0 <= box["x"] <= box["x"] + box["width"] <= width + 2
            assert 0 <= box["y"] <= box["y"] + box["height"] <= height
    return pictures


@pytest.fixture(scope="module")
def two_weeks_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("report") / "catalogue"
    write(root, two_weeks())
    return root


def test_the_page_of_two_weeks(two_weeks_root: Path) -> None:
    tables = two_weeks()
    data = gather(Catalogue(two_weeks_root).open())
    page = render(data, "recordings", NOW)
    pictures = assert_sound(page)
    # Each plot twice, for a desk and for a phone.
    assert len(pictures) == 2 * (1 + 1 + 2 + 3 + 1 + 1)
    assert len(page) < 400_000
    recorded = sum(row["duration_ms"] for row in tables["recordings"]) / 3_600_000
    assert f"{recorded:.1f} hours were recorded" in titles(page)[0]
    assert data.peak == most_at_once(tables["viewers"])
    assert max(value or 0 for value in data.viewers[0].values) == data.peak
    assert f"At most {data.peak} viewers" in titles(page)[1]
    assert data.outage_count == len(tables["outages"])
    assert len(titles(page)) == 8


def test_names_are_harmless(two_weeks_root: Path) -> None:
    page = render(gather(Catalogue(two_weeks_root).open()), "<i>catalogue</i> & \x00co", NOW)
    assert "<b>2026" not in page
    assert "&lt;b&gt;2026" in page
    assert "<i>" not in page.replace('<i class="', "")
    assert "\x00" not in page
    assert_sound(page)


def test_the_hours_of_a_day_are_split_at_midnight(tmp_path: Path) -> None:
    started = FIRST + timedelta(hours=23)
    recording = {
        "file_id": "f", "path": "a.flv", "app": "live", "stream": "x", "started_at": started,
        "ended_at": started + timedelta(hours=3), "duration_ms": 3 * 3_600_000, "size": 10**9, "status": "ok",
    }  # fmt: skip
    week = TimeWindow(FIRST, FIRST + timedelta(days=7))
    data = data_of(tmp_path, {"recordings": [recording]}, window=week)
    assert data.bars.bars[:3] == [
        (FIRST, 3600.0),
        (FIRST + timedelta(days=1), 7200.0),
        (FIRST + timedelta(days=2), 0.0),
    ]
    assert data.storage == [("live/x", 10**9, 10_800.0)]
    page = render(data, "x", NOW)
    assert_sound(page)
    assert "Nothing is known of viewers and destinations" in titles(page)
    assert "No file is damaged" in titles(page)


def test_the_last_second_of_a_file_is_no_fall_of_the_bitrate(tmp_path: Path) -> None:
    """Two segments that follow each other, each of which ends within a second."""
    recordings, seconds = [], []
    for name, begin in (("f", FIRST), ("g", FIRST + timedelta(seconds=5.2))):
        recordings.append(
            {
                "file_id": name,
                "path": f"{name}.flv",
                "app": "live",
                "stream": "x",
                "started_at": begin,
                "ended_at": begin + timedelta(seconds=5.2),
                "duration_ms": 5200,
                "size": 10**6,
                "status": "ok",
            }
        )
        for second in range(6):
            size = 125_000 if second < 5 else 3000
            wall = begin + timedelta(seconds=second)
            seconds.append(
                {
                    "file_id": name,
                    "app": "live",
                    "stream": "x",
                    "second": second,
                    "wall": wall,
                    "video_bytes": size,
                }
            )
    data = data_of(tmp_path, {"recordings": recordings, "seconds": seconds})
    (curve,) = data.bitrates
    # Without a hole where the second begins; in the last two seconds of all there is no whole one.
    assert {*curve.values[:-1], *curve.low[:-1], *curve.high[:-1]} == {1000.0}
    page = render(data, "x", NOW)
    assert "live/x: 1,000 kbit/s on average, 1,000 in the fastest second" in page
    assert titles(page)[0] == "10 s were recorded"
    assert "<b>10 s</b><span>recorded in 2 files" in page


def test_a_part_of_the_time(two_weeks_root: Path) -> None:
    since, until = FIRST + timedelta(days=3), FIRST + timedelta(days=5)
    data = gather(Catalogue(two_weeks_root).open(), TimeWindow(since, until))
    assert data.period == Period(since, until)
    assert [day for day, _ in data.bars.bars] == [since + timedelta(hours=hour) for hour in range(48)]
    assert 0 < data.recordings < 40
    assert_sound(render(data, "x", NOW))
    far = NOW + timedelta(days=99)
    for window in (TimeWindow(far, far + timedelta(days=1)), TimeWindow(far), TimeWindow(None, FIRST)):
        page = render(gather(Catalogue(two_weeks_root).open(), window), "x", NOW)
        assert_sound(page)
        assert titles(page)[:3] == [
            "Nothing was recorded",
            "Nobody watched",
            "Nothing was sent to destinations",
        ]


def recording(name: str, begin: datetime, length: timedelta) -> Row:
    return {
        "file_id": name,
        "path": f"{name}.flv",
        "app": "live",
        "stream": "x",
        "started_at": begin,
        "ended_at": begin + length,
        "duration_ms": length // timedelta(milliseconds=1),
        "size": 10**6,
        "status": "ok",
    }


def test_only_what_is_in_the_time_counts(tmp_path: Path) -> None:
    """A minute of an hour in which everything went on, with more viewers before and behind."""
    noon, minute = FIRST + timedelta(hours=12), timedelta(minutes=1)
    window = TimeWindow(noon + 30 * minute, noon + 31 * minute)
    names = {"app": "live", "stream": "x", "instance": "i1"}
    play = {**names, "started_at": noon, "ended_at": noon + 60 * minute, "watch_seconds": 3600.0}
    seconds = [
        {
            "file_id": "f",
            "app": "live",
            "stream": "x",
            "second": number,
            "wall": noon + timedelta(seconds=number),
            "video_bytes": 1000 if number // 60 == 30 else 9000,
        }
        for number in range(3600)
    ]
    state = {**names, "destination": "YouTube", "state": "connected", "began": noon, "ended": None}
    tables = {
        "recordings": [recording("f", noon, 60 * minute), recording("g", noon, 10 * minute)],
        "seconds": seconds,
        "incidents": [
            {"app": "live", "stream": "x", "kind": kind, "wall": noon + number * minute}
            for number, kind in ((29, "gap"), (30, "freeze"), (31, "silence"))
        ],
        "event_files": [{"file_id": "f", "path": "x.jsonl", "day": FIRST.date()}],
        "viewers": [
            {**play, "connection": "c1"},
            {**play, "connection": "c2", "ended_at": window.since, "watch_seconds": 1800.0},
        ],
        "publishes": [{**names, "started_at": noon, "ended_at": noon + 60 * minute}],
        "destination_states": [{**state, "seconds": 3600.0}],
        "destinations": [
            {"destination": "YouTube", "live_seconds": 3600.0, "connected_seconds": 9.0, "day": noon.date()}
        ],
    }
    data = data_of(tmp_path, tables, window=window)
    assert (data.recordings, data.recorded_seconds, data.bars.bars) == (1, 60.0, [(window.since, 60.0)])
    assert (data.plays, data.watch_seconds) == (1, 60.0)
    assert (data.peak, data.peak_at) == (1, window.since)
    assert set(data.viewers[0].values) == {1.0}
    assert data.incident_kinds == {"freeze": 1}
    assert {value for value in data.bitrates[0].high if value is not None} == {8.0}
    (row,) = data.destinations
    assert (row["live_hours"] * 3600, row["uptime_percent"]) == (pytest.approx(60), 100.0)
    page = render(data, "x", NOW)
    assert_sound(page)
    # Files are as large as they are.
    assert data.storage == [("live/x", 10**6, 3600.0)]
    assert "the whole files, also of before and after" in page


def test_outages_of_several_streams_at_the_same_time_are_one(tmp_path: Path) -> None:
    """Streams that lose a destination together, one a little earlier than the others, and one later."""
    noon = FIRST + timedelta(hours=12)

    def outage(stream: str, begin: float, end: float) -> Row:
        return {
            "destination": "Flaky", "app": "live", "stream": stream, "began": noon + timedelta(seconds=begin),
            "ended": noon + timedelta(seconds=end), "seconds": end - begin, "instance": "i1",
        }  # fmt: skip

    tables = {
        "event_files": [{"file_id": "f", "path": "x.jsonl", "day": FIRST.date()}],
        "servers": [{"instance": "i1", "started_at": noon, "last_seen": noon + timedelta(hours=1)}],
        "outages": [
            outage("a", 0, 30),
            outage("b", 1, 31),
            outage("c", 2, 34),
            outage("d", 100, 110),
            outage("e", -20, 20),
        ],
        "destinations": [
            {"destination": "Flaky", "live_seconds": 400.0, "connected_seconds": 300.0, "day": FIRST.date()},
            {"destination": "Fine", "live_seconds": 9000.0, "connected_seconds": 8850.0, "day": FIRST.date()},
        ],
    }
    page = render(data_of(tmp_path, tables), "x", NOW)
    assert (
        titles(page)[2]
        == "Flaky was out longest: 1 min 4 s; it was up 75.00 % of the live time of its streams"
    )
    assert "Flaky: connected 75.00 % of 0.11 live hours of its streams, out for 1 min 4 s" in page
    # Streams that wait for their first connection are not connected, and yet nothing failed.
    tables["outages"] = []
    page = render(data_of(tmp_path / "fine", tables), "x", NOW)
    assert titles(page)[2] == "No destination was out"
    assert_sound(page)


def test_a_report_of_all_times(two_weeks_root: Path) -> None:
    ends = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    data = gather(Catalogue(two_weeks_root).open(), TimeWindow(*ends))
    assert data.recordings == len(two_weeks()["recordings"])
    assert_sound(render(data, "x", NOW))


def test_events_alone(tmp_path: Path) -> None:
    tables = two_weeks()
    for name in ("recordings", "seconds", "incidents"):
        tables[name] = []
    page = render(data_of(tmp_path, tables), "x", NOW)
    assert_sound(page)
    assert "Nothing was recorded" in titles(page)
    assert any("viewers watched" in title for title in titles(page))


def test_an_empty_catalogue(tmp_path: Path) -> None:
    page = render(data_of(tmp_path, {"recordings": []}), "x", NOW)
    assert assert_sound(page) == []
    assert titles(page) == ["Nothing is in this catalogue yet"]


def most_at_once(plays: list[Row]) -> int:
    steps = [(row["started_at"], 1) for row in plays] + [(row["ended_at"], -1) for row in plays]
    return max(accumulate(step for _, step in sorted(steps)))


def test_the_command(two_weeks_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    target.write_text("before")
    assert main(["report", str(two_weeks_root), "--html", str(target), "--stream", "cam/door"]) == 0
    assert "cam/door" in target.read_text()
    assert re.search(r"report\.html: \d+ kB", capsys.readouterr().out)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (
        main(["report", str(two_weeks_root), "--html", "-", "--since", "2026-11-05", "--title", "Nov"]) == 0
    )
    assert "<h1>Nov</h1>" in capsys.readouterr().out
    assert main(["report", str(two_weeks_root), "--html", "-", "--stream", "live/nix"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("There is no recording of live/nix in")
    assert main(["report", str(tmp_path / "nothing"), "--html", str(target)]) == 1
    assert "There is no catalogue in" in capsys.readouterr().err
    assert main(["report", str(two_weeks_root), "--html", str(tmp_path / "no" / "where.html")]) == 1
    assert "where.html cannot be written: there is no folder" in capsys.readouterr().err
