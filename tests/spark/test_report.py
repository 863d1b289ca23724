"""The page: complete in itself, safe, bounded, and right."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from spark_analytics.__main__ import main
from spark_analytics.catalogue import Catalogue
from spark_analytics.questions.time_window import TimeWindow
from spark_analytics.report.curves import MOST_POINTS, Period
from spark_analytics.report.data import MOST_ROWS, MOST_STRIPS, ReportData, gather
from spark_analytics.report.page import render
from spark_analytics.report.pieces import bytes_in_words, duration, hours, plural, quantity
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
    _add_many_destinations(tables)
    data = data_of(tmp_path, tables)
    page = render(data, "x", NOW)
    assert_sound(page)
    assert len(page) < 700_000
    assert len(data.bars.bars) <= 62
    assert data.bars.step == 7 * 86_400
    assert max(len(curve.values) for curve in (*data.viewers, *data.bitrates)) <= MOST_POINTS + 2
    assert len(data.damaged) == MOST_ROWS < data.damaged_count
    left_out = " ".join(data.left_out)
    assert f"{MOST_STRIPS} of 80 streams" in left_out
    assert "incidents of cam/door" in left_out
    assert "changes of Twitch" in left_out
    assert "longest of" in left_out
    assert all(sentence in page for sentence in data.left_out)
    assert_true(page, tables)
    # The one that was out longest is hardly ever out, and yet among those that are drawn.
    assert len(data.destinations) == MOST_STRIPS
    assert data.destinations[0]["destination"] == "always on"
    assert ">always on</text>" in page


def _add_many_destinations(tables: dict[str, list[Row]]) -> None:
    """Forty that were live for an hour and out for a tenth of it, and a channel that was out for a quarter of a month's day."""
    month, began = 30 * 86_400.0, FIRST + timedelta(hours=3)
    for name, live, out in [
        *((f"d{number}", 3600.0, 360.0) for number in range(40)),
        ("always on", month, 21_600.0),
    ]:
        ended = began + timedelta(seconds=out)
        tables["outages"].append(
            {
                "destination": name,
                "app": "live",
                "stream": name,
                "began": began,
                "ended": ended,
                "seconds": out,
                "ended_how": "recovered",
            }
        )
        tables["destinations"].append(
            {
                "destination": name,
                "live_seconds": live,
                "connected_seconds": live - out,
                "outages": 1,
                "day": FIRST.date(),
            }
        )


def assert_true(page: str, tables: dict[str, list[Row]]) -> None:
    """Tiles and titles are about everything, however little of it is drawn."""
    recordings, plays, outages = (tables[name] for name in ("recordings", "viewers", "outages"))
    streams = {(row["app"], row["stream"]) for row in recordings}
    damaged = sum(row["status"] in ("damaged", "truncated") for row in recordings)
    recorded = sum(row["duration_ms"] for row in recordings) / 1000
    size, largest = sum(row["size"] for row in recordings), max(_sizes(recordings).items(), key=itemgetter(1))
    live, connected = (
        sum(row[name] for row in tables["destinations"]) for name in ("live_seconds", "connected_seconds")
    )
    day, most = max(_seconds_of_days(recordings).items(), key=itemgetter(1))
    peak = most_at_once(plays)
    assert dict(re.findall(r'class="tile"><b>(.*?)</b><span>(.*?)</span>', page)) == {
        hours(recorded): f"recorded in {plural(len(recordings), 'file')}",
        bytes_in_words(size): f"in files of {len(streams)} streams",
        f"{damaged:,}": "damaged files",
        hours(sum(row["watch_seconds"] for row in plays)): f"watched in {plural(len(plays), 'play')}",
        f"{peak:,}": "viewers at the same time, at most",
        f"{100 * connected / live:.2f} %": "of live time at destinations",
    }
    longest = max(outages, key=itemgetter("seconds"))
    found = titles(page)
    assert (
        found[0]
        == f"{quantity(recorded / 3600)} hours were recorded; {day.day} {day:%B} has most: {quantity(most / 3600)}"
    )
    assert found[1].startswith(f"At most {peak} viewers watched at the same time: on ")
    assert found[2].startswith(
        f"{longest['destination']} was out longest: {duration(longest['seconds'])}; it was up "
    )
    assert (
        found[3]
        == f"{plural(len(outages), 'outage')} of destinations, the longest {duration(longest['seconds'])} ({longest['destination']})"
    )
    assert found[5].startswith(f"{plural(len(tables['incidents']), 'incident')} in the recordings: freeze (")
    assert found[6] == f"{largest[0]} takes most room: {bytes_in_words(largest[1])} of {bytes_in_words(size)}"
    assert found[7] == f"{plural(damaged, 'file')} of {len(recordings):,} are damaged"


def _sizes(recordings: list[Row]) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for row in recordings:
        sizes[f"{row['app']}/{row['stream']}"] += row["size"]
    return sizes


def _seconds_of_days(recordings: list[Row]) -> dict[datetime, float]:
    seconds: dict[datetime, float] = defaultdict(float)
    for row in recordings:
        begin, end = row["started_at"], row["started_at"] + timedelta(milliseconds=row["duration_ms"])
        while begin < end:
            midnight = begin.replace(hour=0, minute=0) + timedelta(days=1)
            seconds[midnight - timedelta(days=1)] += (min(midnight, end) - begin).total_seconds()
            begin = midnight
    return seconds


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
