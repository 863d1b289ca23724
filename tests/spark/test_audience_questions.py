"""Questions about viewers and destinations, asked without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_analytics.__main__ import main
from spark_analytics.catalogue import Catalogue
from spark_analytics.cli.common import parse_time
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


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main([*arguments, "--format", "json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_commands(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--catalogue", str(root))
    assert [row["stream"] for row in run(capsys, "viewers", *where)] == ["other", "test"]
    (row,) = run(capsys, "viewers", "live/test", *where, "--until", "2026-11-16")
    assert row["plays"] == 3
    assert len(run(capsys, "viewers", "live/test", "--plays", *where)) == 3
    assert len(run(capsys, "viewers", "live/test", "--minutes", *where)) == 60
    assert len(run(capsys, "destinations", *where)) == 2
    assert len(run(capsys, "destinations", "YouTube", "--by-day", *where)) == 2
    arguments = (
        "outages",
        "live/test",
        "--destination",
        "YouTube",
        "--since",
        "2026-11-15",
        "--until",
        "2026-11-16",
    )
    (row,) = run(capsys, *arguments, *where)
    assert (row["viewers_dropped"], row["byte_offset"]) == (27, 70_000)
    assert main(["viewers", "live/other", "--until", "2026-11-01", *where]) == 0
    assert capsys.readouterr().err == "nobody watched live/other in this time\n"
    assert main(["destinations", "idle", "--since", "2026-12-01", *where]) == 0
    assert capsys.readouterr().err == "nothing was sent to idle in this time\n"
    assert main(["outages", *where]) == 0
    table = capsys.readouterr().out
    assert table.splitlines()[0].split()[:3] == ["destination", "app", "stream"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["viewers", "live/nix"], "Nothing is known of live/nix in "),
        (["viewers", "live/nix", "--minutes"], "Nothing is known of live/nix in "),
        (["outages", "live/nix"], "Nothing is known of live/nix in "),
        (["outages", "--destination", "Nix"], "There is no destination Nix in "),
        (["destinations", "Nix"], "There is no destination Nix in "),
        (["destinations", "you\x1b[2J"], "There is no destination you?[2J in "),
    ],
)
def test_a_name_that_nobody_knows_is_a_mistake(
    root: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main([*arguments, "--catalogue", str(root)]) == 1
    out, error = capsys.readouterr()
    assert (out, len(error.splitlines())) == ("", 1)
    assert error.startswith(words)
    if "destination" in words:
        assert error.endswith("; there are: Twitch, YouTube, idle.\n")


def test_a_stream_that_is_known_need_not_have_viewers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was recorded, and published."""
    publish = {"app": "live", "stream": "quiet", "started_at": at(0), "instance": "i1"}
    logs = [{"file_id": "f", "path": "x", "day": NOON.date()}]
    tables = {"recordings": [recording("a", 0, 1)], "publishes": [publish], "event_files": logs}
    write(tmp_path, tables)
    for key in ("live/test", "live/quiet"):
        assert main(["viewers", key, "--catalogue", str(tmp_path)]) == 0
        assert capsys.readouterr().err == f"nobody watched {key}\n"
        assert main(["outages", key, "--catalogue", str(tmp_path)]) == 0
        assert capsys.readouterr().err == "the event logs have no such outage\n"


def test_a_catalogue_without_events_says_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, {"recordings": [recording("a", 0, 1)]})
    for command in ("viewers", "destinations", "outages"):
        assert main([command, "--catalogue", str(tmp_path)]) == 0
        assert "start the server with --event-log DIR" in capsys.readouterr().err


def test_days_by_their_names() -> None:
    today = parse_time("today")
    assert (today.hour, today.minute, today.tzinfo) == (0, 0, UTC)
    assert today - parse_time("yesterday") == timedelta(days=1)


@pytest.mark.parametrize(
    "command",
    [
        ["viewers"],
        ["viewers", "--plays"],
        ["viewers", "--minutes"],
        ["outages"],
        ["destinations"],
        ["destinations", "--since", "2026-11-15T11:00:00", "--until", "2026-11-15T13:00:00"],
        ["report", "--html", "-"],
        ["report", "--html", "-", "--since", "2026-11-15T11:00:00"],
    ],
    ids=" ".join,
)
def test_rows_without_names_are_borne_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """Older catalogues may have such rows, beside others: of events that lacked a field."""
    nameless = dict.fromkeys(("app", "stream", "destination", "connection", "who", "instance", "peer"))
    state = {"state": "connected", "began": at(0), "ended": at(9), "seconds": 540.0}
    rows: dict[str, Row] = {
        "viewers": play("c1", 0, 20),
        "publishes": {"app": "live", "stream": "test", "started_at": at(0), "instance": "i1"},
        "deliveries": report("YouTube", 10, 11, 7, role="destination"),
        "outages": outage("YouTube", 10, 12),
        "destination_states": {**state, "destination": "YouTube", "app": "live", "stream": "test"},
        "destinations": {"destination": "YouTube", "live_seconds": 3600.0, "outages": 1, "day": NOON.date()},
        "events": {"event": "destination_dropped", "destination": "YouTube", "time": at(11), "count": 5, "day": NOON.date()},
    }  # fmt: skip
    tables = {
        name: [row, {**row, **{key: None for key in nameless if key in row}}] for name, row in rows.items()
    }
    logs = {"event_files": [{"file_id": "f", "path": "x", "day": NOON.date()}]}
    servers = {"servers": [{"instance": "i1", "started_at": at(0), "last_seen": at(60)}]}
    write(tmp_path, {**tables, **logs, **servers})
    where = [str(tmp_path)] if command[0] == "report" else ["--catalogue", str(tmp_path), "--format", "csv"]
    assert main([*command, *where]) == 0
    lines = capsys.readouterr().out.splitlines()
    # What has no name is told under an empty one.
    assert command[0] == "report" or any(line.startswith(",") for line in lines[1:])
