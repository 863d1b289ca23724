"""DuckDB and Spark give the same rows to every question."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_analytics.catalogue import Catalogue
from spark_analytics.engine.duck import DuckEngine
from spark_analytics.engine.spark import SparkEngine
from spark_analytics.questions import ask
from spark_analytics.questions.api import (
    find_moment,
    keyframes_of,
    list_audience,
    list_destinations,
    list_incidents,
    list_outages,
    list_plays,
    list_streams,
    list_viewers,
    recordings_of,
    refuse_unknown_destination,
    refuse_unknown_stream,
)
from spark_analytics.questions.ask import Engine, Row, Scope, TimeWindow
from spark_analytics.store.versions import Snapshot
from tests.spark.event_archive import planned_for_few_rows
from tests.spark.report_world import FIRST, two_weeks, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENING = FIRST + timedelta(days=2, hours=17)
MOMENT = datetime(2026, 11, 4, 18, 10, 7, 500_000, tzinfo=UTC)
SCOPES = {
    "always": Scope(),
    "a stream": Scope(key="live/evening show"),
    "parts of days": Scope(TimeWindow(EVENING - timedelta(hours=20), EVENING + timedelta(days=2, minutes=7))),
    "within a day": Scope(TimeWindow(EVENING, EVENING + timedelta(minutes=90, seconds=1))),
    "since": Scope(TimeWindow(EVENING + timedelta(seconds=30)), "live/studio-2"),
    "before all": Scope(TimeWindow(None, FIRST - timedelta(days=9))),
}


def world() -> dict[str, list[Row]]:
    """Two weeks of shows, and what they lack: publishers, reports, keyframes, gaps, drops, names that are not there."""
    tables: dict[str, list[Row]] = two_weeks(days=5, viewers=25)
    for row in tables["recordings"]:
        row["video_frames"] = row["audio_frames"] = 1
        row["segment"] = None
    names = [(row["app"], row["stream"]) for row in tables["recordings"]]
    tables["keyframes"] = [
        {
            "file_id": row["file_id"],
            "path": row["path"],
            "app": row["app"],
            "stream": row["stream"],
            "wall": row["started_at"] + timedelta(seconds=300 * number),
            "byte_offset": 1000 * number + 13,
            "time_ms": 300_000 * number,
            "timestamp_ms": 300_000 * number,
        }
        for row in tables["recordings"]
        for number in range(6)
    ]
    first = tables["recordings"][0]
    tables["incidents"].append(
        {
            **{name: first[name] for name in ("file_id", "path", "app", "stream")},
            "kind": "gap",
            "wall": first["started_at"] + timedelta(seconds=100),
            "length_ms": 20_000,
            "detail": None,
            "byte_offset": None,
        }
    )
    tables["publishes"] = [
        {"app": app, "stream": stream, "instance": "i1", "started_at": FIRST, "ended_at": None}
        for app, stream in set(names)
    ]
    tables["deliveries"] = [
        {
            "role": role,
            "app": row["app"],
            "stream": row["stream"],
            "who": "YouTube" if role == "destination" else "c1",
            "instance": "i1",
            "began": row["started_at"] + timedelta(seconds=30 * number),
            "ended": row["started_at"] + timedelta(seconds=30 * number + 30),
            "seconds": 30.0,
            "messages": 900,
            "bytes": 1_000_003,
            "dropped": number % 3,
        }
        for row in tables["recordings"]
        for role in ("viewer", "destination")
        for number in range(12)
    ]
    tables["events"] = [
        {
            "event": "destination_dropped",
            "destination": row["destination"],
            "reason": ("queue_full", "closed", None)[number % 3],
            "count": number,
            "instance": "i1",
            "number": number // 2,
            "time": row["began"],
            "day": row["began"].date(),
            "file_id": f"f{number % 2}",
        }
        for number, row in enumerate(tables["outages"])
    ]
    for row in tables["destinations"]:
        row["dropped_by_reason"] = {"queue_full": 3, "closed": 1} if row["outages"] else None
    nameless = dict.fromkeys(("app", "stream", "connection", "peer"))
    tables["viewers"].append({**tables["viewers"][0], **nameless})
    tables["outages"].append({**tables["outages"][0], "destination": None, "app": None, "stream": None})
    return tables


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    root = tmp_path_factory.mktemp("engines") / "catalogue"
    write(root, world())
    return Catalogue(root).open()


def plain(value: Any) -> Any:
    """Sums of fractions may differ in their last digits, as the order of adding them does."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-9)
    return value


def asked_of(engine: Engine, scopes: dict[str, Scope]) -> dict[str, list[Row]]:
    """The answers to everything."""
    key = "live/evening show"
    recording = recordings_of(engine, key)[0]
    moment = find_moment(engine, key, recording["started_at"] + timedelta(seconds=700))
    refuse_unknown_stream(engine, key)
    refuse_unknown_destination(engine, "YouTube")
    answers: dict[str, list[Row]] = {
        "streams": list_streams(engine).to_pylist(),
        "recordings": recordings_of(engine, key),
        "keyframes": keyframes_of(engine, recording).to_pylist(),
        "find": [{"path": moment.path, "byte_offset": moment.byte_offset, "wall": moment.wall}],
        "incidents of two kinds": list_incidents(engine, kinds=["gap", "freeze"]).to_pylist(),
    }
    in_gap = recording["started_at"] + timedelta(seconds=110)
    try:
        found = find_moment(engine, key, in_gap)
        answers["gap"] = [{"path": found.path, "wall": found.wall}]
    except Exception as error:
        answers["gap"] = [{"error": str(error)}]
    questions: dict[str, Callable[[Engine, Scope], list[Row]]] = {
        "plays": list_plays,
        "viewers": list_viewers,
        "all viewers": lambda engine, scope: list_viewers(engine, scope, together=True),
        "audience": list_audience,
        "curve": lambda engine, scope: list_audience(engine, scope, 7_000_000, together=True),
        "destinations": list_destinations,
        "days": lambda engine, scope: list_destinations(engine, scope, by_day=True),
        "outages": list_outages,
        "outages of one": lambda engine, scope: list_outages(engine, scope, "YouTube"),
        "incidents": lambda engine, scope: list_incidents(engine, scope.window, scope.key).to_pylist(),
    }
    for name, question in questions.items():
        for what, scope in scopes.items():
            answers[f"{name}, {what}"] = question(engine, scope)
    return answers


@pytest.mark.full
@pytest.mark.parametrize("scopes", [("always",), tuple(SCOPES)], ids=["one time", "all times"])
def test_both_engines_give_the_same_rows_to_every_question(
    spark: SparkSession, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, scopes: tuple[str, ...]
) -> None:
    used: set[str] = set()
    question = ask.question

    def noted(name: str) -> str:
        used.add(name)
        return question(name)

    monkeypatch.setattr(ask, "question", noted)
    chosen = {name: SCOPES[name] for name in scopes}
    by_duck = asked_of(DuckEngine(snapshot), chosen)
    with planned_for_few_rows(spark):
        by_spark = asked_of(SparkEngine(spark, snapshot), chosen)
    for name, rows in by_duck.items():
        expected = [{column: plain(value) for column, value in row.items()} for row in rows]
        assert by_spark[name] == expected, name
        assert rows or name.partition(", ")[2] not in ("", "always"), name
    everything = {path.stem for path in Path(ask.__file__).parent.glob("*.sql")}
    assert used == everything


def test_every_question_says_what_it_answers() -> None:
    for path in Path(ask.__file__).parent.glob("*.sql"):
        first = path.read_text().splitlines()[0]
        assert first.startswith("-- "), path.name
        assert "?" in path.read_text().partition("\n\n")[0], path.name
