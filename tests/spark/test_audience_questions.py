"""Questions about viewers and destinations, asked without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_analytics.catalogue import Catalogue
from spark_analytics.questions.api import (
    list_audience,
    list_destinations,
    list_outages,
    list_plays,
    list_viewers,
)
from spark_analytics.questions.ask import Scope, TimeWindow
from spark_analytics.store.versions import Snapshot
from tests.spark.report_world import Row, write

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def play(connection: str, begin: float, end: float | None, stream: str = "test", **more: Any) -> Row:
    until = end if end is not None else 60
    return {
        "app": "live",
        "stream": stream,
        "connection": connection,
        "instance": "i1",
        "peer": f"10.0.0.1:{connection[1:]}",
        "started_at": at(begin),
        "ended_at": None if end is None else at(end),
        "watch_seconds": (until - begin) * 60,
        "ended_how": "left" if end is not None else "watching",
        "messages": 900,
        **more,
    }


def report(
    who: str, begin: float, end: float, dropped: int, role: str = "viewer", stream: str = "test"
) -> Row:
    return {
        "role": role,
        "app": "live",
        "stream": stream,
        "who": who,
        "instance": "i1",
        "began": at(begin),
        "ended": at(end),
        "seconds": (end - begin) * 60,
        "dropped": dropped,
    }


def recording(name: str, begin: float, end: float) -> Row:
    return {
        "file_id": name,
        "path": f"/rec/{name}.flv",
        "app": "live",
        "stream": "test",
        "started_at": at(begin),
        "ended_at": at(end),
        "duration_ms": int((end - begin) * 60_000),
        "status": "ok",
    }


def keyframe(name: str, minutes: float, offset: int) -> Row:
    return {
        "file_id": name,
        "path": f"/rec/{name}.flv",
        "app": "live",
        "stream": "test",
        "wall": at(minutes),
        "byte_offset": offset,
    }


def outage(name: str, begin: float, end: float | None, stream: str = "test", **more: Any) -> Row:
    until = end if end is not None else 60
    return {
        "destination": name,
        "app": "live",
        "stream": stream,
        "began": at(begin),
        "ended": None if end is None else at(end),
        "seconds": (until - begin) * 60,
        "error": "the connection was lost",
        "last_error": "nothing listens there",
        "error_class": "network",
        "lost_messages": 4200,
        "ended_how": "recovered" if end is not None else "lasts",
        "instance": "i1",
        **more,
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("asked") / "catalogue"
    write(
        root,
        {
            "event_files": [{"file_id": "f", "path": "x", "day": NOON.date()}],
            "viewers": [
                play("c1", 0, 20, dropped=100, stalls=2, bytes=10**9),
                play("c2", 5, 11, ended_how="too slow"),
                play("c3", 15, None, peer="10.0.0.2:3"),
                play("c4", 0, 60, "other"),
            ],
            "deliveries": [
                report("c1", 9, 9.5, 1),
                report("c1", 9.5, 10.5, 20),
                report("c2", 10, 11, 7),
                report("c1", 12, 13, 50),
                report("c4", 10, 11, 1000, stream="other"),
                report("YouTube", 10, 11, 5000, role="destination"),
            ],
            "recordings": [recording("first", 0, 11), recording("second", 11.5, 30), recording("later", 40, 50)],
            "keyframes": [
                keyframe("first", 0, 13),
                keyframe("first", 9.9, 70_000),
                keyframe("first", 10.1, 80_000),
                keyframe("second", 11.5, 13),
            ],
            "outages": [outage("YouTube", 10, 12), outage("Twitch", 30, None, "other")],
            "destinations": [
                {
                    "destination": "YouTube", "live_seconds": 3600.0, "connected_seconds": 3480.0,
                    "uptime_percent": 96.7, "outages": 1, "reconnects": 1, "outage_seconds": 120.0,
                    "longest_outage_seconds": 120.0, "recovery_p95_seconds": 120.0, "bytes": 10**9,
                    "dropped": 4207, "dropped_by_reason": {"not_connected": 4200, "queue_full": 7},
                    "day": NOON.date() + timedelta(days=number),
                }
                for number in range(2)
            ]
            + [{"destination": "idle", "uptime_percent": None, "day": NOON.date()}],
        },
    )  # fmt: skip
    return root


@pytest.fixture
def snapshot(root: Path) -> Snapshot:
    return Catalogue(root).open()


def test_viewers_of_each_stream(snapshot: Snapshot) -> None:
    other, test = list_viewers(snapshot, Scope())
    assert (other["stream"], other["plays"], other["watch_hours"]) == ("other", 1, 1.0)
    assert (test["plays"], test["watching"], test["clients"]) == (3, 1, 2)
    assert (test["peak"], test["peak_at"]) == (2, at(5))
    assert test["watch_hours"] == pytest.approx((20 + 6 + 45) / 60)
    assert test["dropped_percent"] == pytest.approx(100 * 100 / (2700 + 100))
    assert (test["stalls"], test["too_slow"], test["gb"]) == (2, 1, 1.0)


@pytest.mark.parametrize(
    ("peers", "clients"),
    [
        (["10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"], 2),
        (["[fe80::1]:1", "[fe80::1]:2", "[fe80::2]:1"], 2),
        (["fe80::1", "fe80::2", "10.0.0.1", "10.0.0.2"], 4),
        (["local socket", "local socket"], 1),
        ([None, None, "local socket"], 3),
    ],
)
def test_clients_are_told_apart_by_address_with_a_port_or_without(
    tmp_path: Path, peers: list[str | None], clients: int
) -> None:
    plays = [play(f"c{number}", 0, 1, peer=peer) for number, peer in enumerate(peers)]
    write(tmp_path, {"viewers": plays})
    (stream,) = list_viewers(Catalogue(tmp_path).open(), Scope())
    assert (stream["plays"], stream["clients"]) == (len(peers), clients)


def test_plays_and_minutes_of_a_time(snapshot: Snapshot) -> None:
    assert [row["connection"] for row in list_plays(snapshot, Scope(key="live/test"))] == ["c1", "c2", "c3"]
    later = Scope(TimeWindow(at(12), at(14)), "live/test")
    assert [row["connection"] for row in list_plays(snapshot, later)] == ["c1"]
    # Who watches still, has been there at any later time.
    assert [row["connection"] for row in list_plays(snapshot, Scope(TimeWindow(at(90))))] == ["c3"]
    minutes = list_audience(snapshot, Scope(TimeWindow(at(10), at(12)), "live/test"))
    # The second one left just as the minute began.
    assert [tuple(row.values())[2:] for row in minutes] == [(at(10), 2, 2.0, 0, 0), (at(11), 1, 1.0, 0, 1)]
    assert list_audience(snapshot, Scope(key="no/such")) == []


def test_what_was_lost_in_an_outage(snapshot: Snapshot) -> None:
    """What did the viewers of live/test lose during the outage of YouTube yesterday?"""
    (found,) = list_outages(snapshot, Scope(TimeWindow(at(-60), at(600)), "live/test"), "YouTube")
    assert (found["began"], found["seconds"], found["lost_messages"]) == (at(10), 120.0, 4200)
    # c1 and c2 were there, c2 left meanwhile, and the reports that overlap say 20 and 7.
    assert (found["viewers"], found["viewers_left"], found["viewers_dropped"]) == (2, 1, 27)
    # One minute is in the first file, half a one in the second.
    assert found["recorded_seconds"] == 90.0
    assert (found["path"], found["byte_offset"]) == ("/rec/first.flv", 70_000)
    assert [row["destination"] for row in list_outages(snapshot, Scope())] == ["YouTube", "Twitch"]
    assert list_outages(snapshot, Scope(), "nobody") == []
    (lasts,) = list_outages(snapshot, Scope(TimeWindow(at(50))))
    assert (lasts["destination"], lasts["viewers"], lasts["path"]) == ("Twitch", 1, None)


def test_an_outage_that_begins_before_the_recording(tmp_path: Path) -> None:
    """The first keyframe shows where the missing part begins; segments that overlap are not counted twice."""
    outage = {"destination": "YouTube", "app": "live", "stream": "test", "began": at(0), "seconds": 240.0}
    tables = {
        "outages": [outage],
        "recordings": [recording("first", 1, 3), recording("second", 2.5, 9)],
        "keyframes": [
            keyframe("first", 1.1, 400),
            keyframe("first", 2, 70_000),
            keyframe("second", 2.5, 300),
        ],
    }
    write(tmp_path / "catalogue", tables)
    (found,) = list_outages(Catalogue(tmp_path / "catalogue").open(), Scope())
    assert (found["path"], found["byte_offset"]) == ("/rec/first.flv", 400)
    assert found["recorded_seconds"] == 180.0


def test_losses_that_are_told_on_the_next_day(tmp_path: Path) -> None:
    """A report belongs to the day on which it ends; the outage was before midnight."""
    midnight = 12 * 60
    told = [
        # The day is that of the end here.
        {**report("c1", midnight - 1, midnight + 0.5, 77), "day": at(midnight).date()},
        {**report("c2", midnight - 600, midnight + 2 * 1440, 5), "day": at(midnight + 2 * 1440).date()},
        {**report("c3", midnight + 1, midnight + 2, 1000), "day": at(midnight).date()},
    ]
    tables = {"outages": [outage("YouTube", midnight - 0.8, midnight - 0.2)], "deliveries": told}
    write(tmp_path / "catalogue", tables)
    snapshot = Catalogue(tmp_path / "catalogue").open()
    for scope in (Scope(), Scope(TimeWindow(at(0), at(midnight)))):
        (found,) = list_outages(snapshot, scope)
        assert found["viewers_dropped"] == 82


def test_destinations(snapshot: Snapshot) -> None:
    worst, idle = list_destinations(snapshot, Scope())
    assert (worst["destination"], idle["destination"]) == ("YouTube", "idle")
    assert worst["uptime_percent"] == pytest.approx(100 * 3480 / 3600)
    assert (worst["live_hours"], worst["outages"], worst["gb"]) == (2.0, 2, 2.0)
    assert worst["dropped_by_reason"] == {"not_connected": 8400, "queue_full": 14}
    assert (worst["last_error"], idle["uptime_percent"]) == ("nothing listens there", None)
    assert len(list_destinations(snapshot, Scope(), by_day=True)) == 3
    assert list_destinations(snapshot, Scope(TimeWindow(at(2 * 1440)))) == []


def test_only_what_was_watched_in_the_time_counts(snapshot: Snapshot) -> None:
    """Of two plays, five minutes of one and one minute of the other; and the end is not in it."""
    (watched,) = list_viewers(snapshot, Scope(TimeWindow(at(10), at(15)), "live/test"))
    assert (watched["plays"], watched["watch_hours"] * 60) == (2, pytest.approx(6))
    assert (watched["peak"], watched["peak_at"]) == (2, at(10))
    (watched,) = list_viewers(snapshot, Scope(TimeWindow(at(11), at(15)), "live/test"))
    assert (watched["plays"], watched["peak_at"]) == (1, at(11)), "one had just left"


def test_who_comes_back_after_a_restart_is_no_other_viewer(tmp_path: Path) -> None:
    """Two watch, the server starts again within the minute, and two players come back."""
    plays = [play(name, 0.1, 0.4, instance="i1") for name in ("c1", "c2")]
    plays += [play(name, 0.6, 0.9, instance="i2") for name in ("c1", "c2")]
    peaks = [
        {"app": "live", "stream": "test", "minute": at(0), "peak": 2, "average": 0.6, "instance": instance}
        for instance in ("i1", "i2")
    ]
    write(tmp_path, {"viewers": plays, "audience": peaks})
    snapshot = Catalogue(tmp_path).open()
    (found,) = list_viewers(snapshot, Scope())
    assert (found["plays"], found["peak"], found["peak_at"]) == (4, 2, at(0.1))
    (minute,) = list_audience(snapshot, Scope())
    assert (minute["minute"], minute["viewers"], minute["average"]) == (at(0), 2, pytest.approx(1.2))
    assert (minute["joins"], minute["leaves"]) == (4, 4)


def test_a_time_within_a_minute(snapshot: Snapshot) -> None:
    """Two watch all the while: also on average, and in each minute."""
    scope = Scope(TimeWindow(at(6.5), at(6.8)), "live/test")
    (found,) = list_viewers(snapshot, scope)
    assert (found["peak"], found["peak_at"]) == (2, at(6.5))
    (minute,) = list_audience(snapshot, scope)
    assert (minute["minute"], minute["viewers"], minute["average"]) == (at(6), 2, pytest.approx(2))
    assert (minute["joins"], minute["leaves"]) == (0, 0)
