"""The report of a large catalogue: a page of bounded size, with figures that are true."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path

from spark_analytics.report.curves import MOST_POINTS
from spark_analytics.report.data import MOST_ROWS, MOST_STRIPS
from spark_analytics.report.page import render
from spark_analytics.report.pieces import bytes_in_words, duration, hours, plural, quantity
from tests.spark.report_world import FIRST, Row, two_weeks
from tests.spark.test_report import NOW, assert_sound, data_of, most_at_once, titles


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
