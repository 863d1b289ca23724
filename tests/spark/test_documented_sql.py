"""The questions in SQL on the pages about the catalogue, asked of a day in which the usual mistakes would show."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_analytics.catalogue import Catalogue
from spark_analytics.engine.duck import DuckEngine
from spark_analytics.engine.spark import SparkEngine
from spark_analytics.questions.api import list_destinations, list_outages, list_viewers
from spark_analytics.questions.ask import Engine, Scope
from spark_analytics.store.versions import Snapshot
from tests.spark.report_world import Row, write

DOCS = Path(__file__).parents[2] / "docs"

#: The moment that the page about recordings asks for, on the day for which the other one says "yesterday".
MOMENT = datetime(2026, 1, 1, 12, 34, 56, tzinfo=UTC)
DAY = MOMENT.date()


def at(seconds: float) -> datetime:
    return MOMENT + timedelta(seconds=seconds)


def play(client: str, begin: float, end: float, messages: int, dropped: int, stream: str = "test") -> Row:
    return {
        "app": "live", "stream": stream, "client": client, "connection": client, "instance": "i1",
        "started_at": at(begin), "ended_at": at(end), "watch_seconds": end - begin, "ended_how": "left",
        "messages": messages, "dropped": dropped, "stalls": 1,
    }  # fmt: skip


def report(begin: float, dropped: int, role: str = "viewer", stream: str = "test") -> Row:
    return {
        "role": role, "app": "live", "stream": stream, "began": at(begin), "ended": at(begin + 30),
        "seconds": 30.0, "dropped": dropped,
    }  # fmt: skip


def outage(destination: str, stream: str, begin: float, end: float) -> Row:
    return {
        "destination": destination, "app": "live", "stream": stream, "began": at(begin), "ended": at(end),
        "seconds": end - begin, "error": "gone", "lost_messages": 2000, "ended_how": "recovered",
    }  # fmt: skip


def recording(name: str, begin: float, end: float, stream: str = "test") -> Row:
    return {
        "file_id": name, "path": f"/rec/{name}.flv", "app": "live", "stream": stream, "started_at": at(begin),
        "ended_at": at(end), "duration_ms": int((end - begin) * 1000), "status": "ok",
        "audio_drift_ms_per_hour": 150.0 if name == "first" else 0.0,
    }  # fmt: skip


def keyframe(name: str, seconds: float, offset: int, stream: str = "test") -> Row:
    return {
        "file_id": name, "path": f"/rec/{name}.flv", "app": "live", "stream": stream, "wall": at(seconds),
        "byte_offset": offset, "timestamp_ms": offset // 10,
    }  # fmt: skip


def second(seconds: float, app: str, stream: str, frames: int, dropped: int, size: int) -> Row:
    return {
        "app": app, "stream": stream, "wall": at(seconds), "video_frames": frames, "dropped_est": dropped,
        "video_bytes": size, "audio_bytes": size,
    }  # fmt: skip


#: One recording ended hours before the outages, one went on during the first, and one began during the second. A player got
#: nothing, one stream has no pictures, two have the same name, and what was dropped is in two logs.
HOUR = 3600.0
WORLD: dict[str, list[Row]] = {
    "viewers": [
        play("vlc", -60, 120, 900, 100),
        play("ffplay", -30, 10, 500, 0),
        play("curious", 200, 200, 0, 0),
        play("vlc", 0, 9, 100, 0, "other"),
    ],
    "deliveries": [
        report(-30, 7), report(5, 20), report(70, 50), report(0, 1000, stream="other"), report(0, 5000, "destination"),
    ],
    "outages": [outage("YouTube", "test", 3, 33), outage("YouTube", "test", 300, 340), outage("Twitch", "other", 0, 60)],
    "recordings": [
        recording("morning", -5 * HOUR, -4 * HOUR),
        recording("first", -100, 290),
        recording("second", 310, 400),
        recording("sound", -5, 5, "sound"),
    ],
    "keyframes": [
        keyframe("morning", -4 * HOUR - 2, 99_000),
        keyframe("first", -2, 5000),
        keyframe("first", 2, 6000),
        keyframe("first", 4, 7000),
        keyframe("second", 310, 300),
        keyframe("second", 312, 400),
    ],
    "seconds": [
        second(-1, "live", "test", 24, 1, 1000),
        second(0, "live", "test", 25, 0, 1000),
        second(0, "live", "sound", 0, 0, 10),
        second(0, "backup", "test", 25, 0, 3000),
    ],
    "incidents": [
        {"app": "live", "stream": "test", "kind": kind, "path": "/rec/first.flv", "wall": at(0), "length_ms": length}
        for kind, length in (("freeze", 400), ("freeze", 900), ("gap", 5000))
    ],
    "events": [
        {"event": "destination_dropped", "destination": "YouTube", "reason": "closed", "count": 9, "file_id": name, "time": at(0), "day": DAY}
        for name in "ab"
    ],
    "destinations": [
        {"destination": "YouTube", "dropped": 16, "dropped_by_reason": {"closed": 9, "queue_full": 7}, "day": DAY},
        {"destination": "YouTube", "dropped": 1, "dropped_by_reason": {"closed": 1}, "day": DAY + timedelta(days=1)},
        {"destination": "fine", "dropped": 0, "dropped_by_reason": None, "day": DAY},
    ],
    "servers": [{"instance": "i1", "host": "relay-1", "started_at": at(-9), "last_seen": at(9), "ended_how": "stopped"}],
    "event_files": [{"file_id": "a", "path": "x.jsonl", "day": DAY}],
}  # fmt: skip


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    root = tmp_path_factory.mktemp("documented")
    write(root, WORLD)
    return Catalogue(root).open()


def answers(engine: Engine, page: str) -> list[list[dict[str, Any]]]:
    """What an engine answers to all questions on a page."""
    blocks = re.findall(r"\.\. code-block:: sql\n\n((?:   .*\n|\n)+)", (DOCS / page).read_text())
    without_comments = re.sub(r"^ *--.*$", "", ";".join(blocks), flags=re.MULTILINE)
    questions = without_comments.replace("current_date - INTERVAL 1 DAY", f"DATE'{DAY}'").split(";")
    return [engine.ask(asked).to_pylist() for asked in questions if asked.strip()]


@pytest.fixture(params=["DuckDB", "Spark"])
def engine(request: pytest.FixtureRequest, snapshot: Snapshot) -> Engine:
    return engine_called(request, snapshot)


def engine_called(request: pytest.FixtureRequest, snapshot: Snapshot) -> Engine:
    if request.param == "DuckDB":
        return DuckEngine(snapshot)
    return SparkEngine(request.getfixturevalue("spark"), snapshot)


def values(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in rows]


def test_questions_about_viewers_and_destinations(engine: Engine, snapshot: Snapshot) -> None:
    lost, peaks, stays, players, reasons, servers = answers(engine, "audience.rst")
    columns = ("seconds", "error", "lost_messages", "path", "byte_offset")
    assert values(lost, *columns, "viewers", "viewers_dropped") == [
        (30.0, "gone", 2000, "/rec/first.flv", 6000, 2, 20),
        (40.0, "gone", 2000, "/rec/second.flv", 300, None, None),
    ]
    # As the command says.
    told = list_outages(snapshot, Scope(key="live/test"), "YouTube")
    assert values(told, *columns) == values(lost, *columns)
    assert values(told, "viewers", "viewers_dropped") == [(2, 20), (0, 0)]
    assert values(peaks, "day", "app", "stream", "peak") == [
        (DAY, "live", "test", 2),
        (DAY, "live", "other", 1),
    ]
    assert {row["stream"]: row["peak"] for row in list_viewers(snapshot, Scope())} == {"test": 2, "other": 1}
    assert values(stays, "stream", "ended_how", "plays", "average", "median") == [
        ("test", "left", 3, pytest.approx(220 / 3), 40.0),
        ("other", "left", 1, 9.0, 9.0),
    ]
    assert values(players, "client", "plays", "stalls", "dropped_percent") == [
        ("vlc", 2, 2, pytest.approx(100 * 100 / 1100)),
        ("ffplay", 1, 1, 0.0),
        ("curious", 1, 1, None),
    ]
    assert values(reasons, "destination", "reason", "messages") == [
        ("YouTube", "closed", 10),
        ("YouTube", "queue_full", 7),
    ]
    youtube = {row["destination"]: row for row in list_destinations(snapshot, Scope())}["YouTube"]
    assert youtube["dropped_by_reason"] == {row["reason"]: row["messages"] for row in reasons}
    assert values(servers, "instance", "host", "ended_how") == [("i1", "relay-1", "stopped")]


def test_questions_about_recordings(engine: Engine) -> None:
    place, missing, bitrates, drifts, freeze = answers(engine, "catalogue.rst")
    assert values(place, "path", "byte_offset", "timestamp_ms") == [("/rec/first.flv", 5000, 500)]
    assert values(missing, "app", "stream", "missing", "rate") == [("live", "test", 1, pytest.approx(1 / 50))]
    assert values(bitrates, "app", "stream", "kbps") == [
        ("backup", "test", pytest.approx(4.8)),
        ("live", "sound", pytest.approx(0.016)),
        ("live", "test", pytest.approx(3.2)),
    ]
    assert values(drifts, "path", "audio_drift_ms_per_hour") == [("/rec/first.flv", 150.0)]
    assert values(freeze, "path", "length_ms") == [("/rec/first.flv", 900)]


def test_a_moment_that_no_recording_shows(tmp_path: Path) -> None:
    """The one of the morning has nothing to do with it."""
    mornings = {
        name: [row for row in WORLD[name] if row["file_id"] == "morning"]
        for name in ("recordings", "keyframes")
    }
    write(tmp_path, mornings)
    place, *_ = answers(DuckEngine(Catalogue(tmp_path).open()), "catalogue.rst")
    assert place == []
