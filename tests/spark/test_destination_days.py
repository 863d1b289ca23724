"""Destinations in any time: whole days are as the table has them, and of others what is in the time."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_analytics.catalogue import Catalogue
from spark_analytics.questions.api import list_destinations
from spark_analytics.questions.ask import Scope, TimeWindow
from spark_analytics.store.versions import Snapshot
from tests.spark.event_archive import Archive
from tests.spark.event_world import FakeServer, moment, story
from tests.spark.report_world import Row, write

if TYPE_CHECKING:
    pass

NOON = moment(0)
MIDNIGHT = NOON - timedelta(hours=12)
DAY = timedelta(days=1)


def two_days() -> FakeServer:
    """The story, and on the next day at the same time a minute with an outage of ten seconds."""
    server = story()
    next_noon = DAY.total_seconds()
    again = FakeServer("i2", next_noon)
    again.start()
    again.connect("c1", "obs")
    again.publish("c1")
    again.destination("connecting", address="rtmp://a/live2")
    again.destination("connected", address="rtmp://a/live2")
    again.at(next_noon + 20).destination("failed", error_class="network", reason="gone")
    again.at(next_noon + 30).destination("connecting", address="rtmp://a/live2")
    again.destination("connected", address="rtmp://a/live2")
    again.destination("dropped", reason="not_connected", count=300)
    again.at(next_noon + 60).unpublish("c1")
    again.destination("closed", reason="the stream ended", messages=1, bytes=1, dropped=0)
    again.stop()
    server.lines += again.lines
    return server


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    archive = Archive(tmp_path_factory.mktemp("days"))
    two_days().write(archive.logs)
    archive.index(NOON + 3 * DAY)
    return archive.snapshot


def asked(snapshot: Snapshot, since: datetime | None, until: datetime | None, **how: Any) -> dict[str, Row]:
    rows = list_destinations(snapshot, Scope(TimeWindow(since, until)), **how)
    return {row["destination"]: row for row in rows}


def assert_same(some: dict[str, Row], others: dict[str, Row]) -> None:
    assert some.keys() == others.keys()
    for name, row in others.items():
        for column, value in row.items():
            expected = pytest.approx(value) if isinstance(value, float) else value
            assert some[name][column] == expected, (name, column)


def test_a_day_ends_before_the_next_one(snapshot: Snapshot) -> None:
    first = asked(snapshot, MIDNIGHT, MIDNIGHT + DAY)["YouTube"]
    second = asked(snapshot, MIDNIGHT + DAY, MIDNIGHT + 2 * DAY)["YouTube"]
    assert (second["live_hours"] * 3600, second["outages"], second["dropped"]) == (60, 1, 300)
    both = asked(snapshot, MIDNIGHT, MIDNIGHT + 2 * DAY)["YouTube"]
    assert both["live_hours"] == pytest.approx(first["live_hours"] + second["live_hours"])
    assert asked(snapshot, MIDNIGHT + 2 * DAY, None) == {}


def test_the_part_of_a_day_in_which_everything_was_is_as_the_day(snapshot: Snapshot) -> None:
    """It is counted from other tables, and comes to the same."""
    day = asked(snapshot, MIDNIGHT, MIDNIGHT + DAY)
    assert set(day) == {"YouTube", "archive"}
    part = asked(snapshot, NOON - timedelta(hours=1), NOON + timedelta(hours=1))
    assert_same(part, day)
    # Days that are in it in part, before and behind.
    assert_same(
        asked(snapshot, NOON - timedelta(hours=1), NOON + DAY + timedelta(hours=1)),
        asked(snapshot, None, None),
    )


def test_only_what_is_in_the_time_counts(snapshot: Snapshot) -> None:
    """From ten seconds before the outage of the second day to its middle."""
    begin = NOON + DAY + timedelta(seconds=10)
    row = asked(snapshot, begin, begin + timedelta(seconds=15))["YouTube"]
    assert row["live_hours"] * 3600 == pytest.approx(15)
    assert row["uptime_percent"] == pytest.approx(100 * 10 / 15)
    # The outage began in it, and is told whole; what was dropped was known only when it was over.
    assert (row["outages"], row["outage_seconds"], row["dropped"]) == (1, 10, 0)
    (day,) = asked(snapshot, begin, begin + timedelta(seconds=15), by_day=True).values()
    assert day["day"] == begin.date()
    evening = MIDNIGHT + timedelta(hours=18)
    assert asked(snapshot, evening, evening + timedelta(hours=2)) == {}


def test_a_channel_that_is_always_on(tmp_path: Path) -> None:
    """It was connected half a year ago, and published again and again since, by encoders that take over."""
    names = {"app": "live", "stream": "tv", "instance": "i1"}
    state = {
        **names,
        "destination": "YouTube",
        "state": "connected",
        "began": NOON - 180 * DAY,
        "ended": None,
        "seconds": 200 * 86_400.0,
    }
    publishes: list[Row] = [
        {**names, "started_at": NOON - 180 * DAY, "ended_at": NOON + timedelta(minutes=20)},
        {**names, "started_at": NOON + timedelta(minutes=10), "ended_at": None},
        {**names, "started_at": NOON - 180 * DAY, "ended_at": None, "instance": "another"},
    ]
    write(tmp_path, {"destination_states": [state], "publishes": publishes})
    row = asked(Catalogue(tmp_path).open(), NOON, NOON + timedelta(hours=1))["YouTube"]
    assert (row["live_hours"], row["uptime_percent"]) == (1.0, 100.0)


def test_drops_that_are_told_in_two_logs_count_once(tmp_path: Path) -> None:
    """`events` has them as often as the files do. What differs in anything that tells events apart is no copy."""
    drop = {
        "event": "destination_dropped", "destination": "YouTube", "reason": "queue_full", "count": 100,
        "instance": "i1", "number": 7, "time": NOON, "day": NOON.date(),
    }  # fmt: skip
    others: list[Row] = [{"number": 8}, {"instance": "i2"}, {"time": NOON + timedelta(seconds=1)}]
    # Some programs do not count.
    uncounted = [{**drop, "number": None, "file_id": name, "reason": "closed"} for name in "ab"]
    events = [{**drop, "file_id": name, "line_end": end} for name, end in (("a", 90), ("b", 180))]
    write(tmp_path, {"events": [*events, *uncounted, *({**drop, **other} for other in others)]})
    snapshot = Catalogue(tmp_path).open()
    row = asked(snapshot, NOON - timedelta(hours=1), NOON + timedelta(hours=1))["YouTube"]
    assert row["dropped_by_reason"] == {"queue_full": 400, "closed": 100}
    assert row["dropped"] == 500
