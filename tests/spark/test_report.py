"""The page: complete in itself, safe, bounded, and right."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_analytics.__main__ import main
from spark_analytics.catalogue import Catalogue
from spark_analytics.report import plots
from spark_analytics.report.curves import MOST_POINTS, Period
from spark_analytics.report.data import MOST_ROWS, MOST_STRIPS, ReportData, gather
from spark_analytics.report.page import render
from spark_analytics.report.scales import nice_ticks, time_ticks
from spark_analytics.report.words import bytes_in_words, duration, hours, moment, plural, quantity
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
    everybody: Counter[datetime] = Counter()
    for row in tables["audience"]:
        everybody[row["minute"]] += row["peak"]
    assert data.peak == max(everybody.values())
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
    data = data_of(tmp_path, {"recordings": [recording]})
    assert data.days == [(FIRST, 3600.0), (FIRST + timedelta(days=1), 7200.0)]
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
    assert titles(page)[0] == "10 s were recorded; 2 November has most: 10 s"
    assert "<b>10 s</b><span>recorded in 2 files" in page


def test_a_part_of_the_time(two_weeks_root: Path) -> None:
    since, until = FIRST + timedelta(days=3), FIRST + timedelta(days=5)
    data = gather(Catalogue(two_weeks_root).open(), since, until)
    assert data.period == Period(since, until)
    assert len(data.days) == 3
    assert 0 < data.recordings < 40
    assert_sound(render(data, "x", NOW))
    nothing = gather(Catalogue(two_weeks_root).open(), NOW + timedelta(days=99), NOW + timedelta(days=100))
    page = render(nothing, "x", NOW)
    assert_sound(page)
    assert titles(page)[:3] == ["Nothing was recorded", "Nobody watched", "Nothing was sent to destinations"]


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


def test_a_large_catalogue_makes_a_page_of_bounded_size(tmp_path: Path) -> None:
    """A year with sixty streams, thousands of incidents and outages; what is left out is said."""
    tables = two_weeks(streams=20, days=12, viewers=3000)
    far = FIRST + timedelta(days=400)
    for number in range(60):
        for hour in range(20):
            started = far - timedelta(days=number, hours=hour * 3)
            tables["recordings"].append(
                {
                    "file_id": f"{number}-{hour}", "path": f"/r/{number}/{hour}.flv", "app": "many",
                    "stream": f"s{number}", "started_at": started, "ended_at": started + timedelta(hours=1),
                    "duration_ms": 3_600_000, "size": 10**8, "status": "damaged", "lost_bytes": number,
                }
            )  # fmt: skip
    for number in range(5000):
        wall = FIRST + timedelta(minutes=number)
        tables["incidents"].append(
            {"app": "cam", "stream": "door", "kind": "freeze", "wall": wall, "length_ms": number}
        )
        tables["destination_states"].append(
            {
                "destination": "Twitch",
                "app": "a",
                "stream": "b",
                "state": "down",
                "began": wall,
                "seconds": 9.0,
            }
        )
    data = data_of(tmp_path, tables)
    page = render(data, "x", NOW)
    assert_sound(page)
    assert len(page) < 700_000
    assert len(data.days) <= 62
    assert data.days_per_bar == 7
    assert max(len(curve.values) for curve in (*data.viewers, *data.bitrates)) <= MOST_POINTS + 2
    assert len(data.damaged) == MOST_ROWS < data.damaged_count
    left_out = " ".join(data.left_out)
    assert f"{MOST_STRIPS} of 80 streams" in left_out
    assert "incidents of cam/door" in left_out
    assert "changes of Twitch" in left_out
    assert "longest of" in left_out
    assert all(sentence in page for sentence in data.left_out)


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
    assert "<h1>Streams in Nov</h1>" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "nothing"), "--html", str(target)]) == 1
    assert "There is no catalogue in" in capsys.readouterr().err
    assert main(["report", str(two_weeks_root), "--html", str(tmp_path / "no" / "where.html")]) == 1
    assert "No such file or directory" in capsys.readouterr().err


# -- pieces --------------------------------------------------------------------------------------------------


@given(st.floats(min_value=0, max_value=1e15))
def test_ticks_are_few_round_and_reach_far_enough(highest: float) -> None:
    ticks = nice_ticks(highest)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] == 0
    assert ticks[-1] >= highest * (1 - 1e-9)
    assert ticks == sorted(ticks)


@given(
    st.floats(min_value=0, max_value=4e9),
    st.floats(min_value=0, max_value=5e9),
    st.integers(2, 14),
)
def test_ticks_of_time_are_inside(second: float, seconds: float, most: int) -> None:
    begin = datetime.fromtimestamp(second, UTC)
    end = begin + timedelta(seconds=min(seconds, 3e9))
    ticks = time_ticks(begin, end, most)
    assert len(ticks) <= most + 1
    assert all(begin <= tick.time <= end and tick.label for tick in ticks)


def test_labels_of_time() -> None:
    noon = datetime(2026, 11, 16, 22, tzinfo=UTC)
    assert [tick.label for tick in time_ticks(noon, noon + timedelta(hours=4), 4)] == [
        "22:00\n16 Nov", "23:00", "00:00\n17 Nov", "01:00", "02:00",
    ]  # fmt: skip
    assert [tick.label for tick in time_ticks(noon, noon + timedelta(days=3), 4)] == [
        "17 Nov",
        "18 Nov",
        "19 Nov",
    ]


@given(st.text(max_size=200), st.floats(20, 1000))
def test_names_fit(words: str, room: float) -> None:
    short = plots._fitting(words, room)
    assert plots._width(short) <= max(room, 40)


def test_a_line_is_broken_where_nothing_is() -> None:
    times = [FIRST + timedelta(hours=hour) for hour in range(6)]
    series = plots.Series("x", list(zip(times, [1.0, 2.0, None, 3.0, None, 4.0], strict=True)))
    picture = plots.line_chart([series], times[0], times[-1], 400, "x")
    assert picture.count("<path") == 3


def test_words() -> None:
    assert [duration(seconds) for seconds in (0, 2.5, 59.6, 61, 3600, 3661, 90_000, 864_000)] == [
        "0 s", "2.5 s", "1 min", "1 min 1 s", "1 h", "1 h 1 min", "1 d 1 h", "10 d",
    ]  # fmt: skip
    assert [bytes_in_words(size) for size in (0, 999, 1500, 2.5e6, 3e9, 5e11, 1e12)] == [
        "0 B", "999 B", "1.5 kB", "2.5 MB", "3.0 GB", "500 GB", "1.0 TB",
    ]  # fmt: skip
    assert [quantity(value) for value in (0.123, 1.25, 99.94, 1234.5)] == ["0.12", "1.2", "99.9", "1,234"]
    assert (hours(44), hours(1815), hours(5400)) == ("44 s", "30 min", "1.5 h")
    assert (plural(1, "file"), plural(2000, "file")) == ("1 file", "2,000 files")
    assert moment(FIRST) == "2026-11-02"
    assert moment(FIRST + timedelta(hours=5)) == "2026-11-02 05:00"
