"""Frames in, frames out: small ones that say what is meant."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.analysis.seconds import SUMS
from spark_analytics.indexing.scan_rows import INCIDENT, KEYFRAME, SCAN_ROWS, SECOND
from spark_analytics.schemas import INCIDENTS, KEYFRAMES, RECORDINGS, SECONDS, SESSIONS
from spark_analytics.transformations import (
    incidents_table,
    keyframes_table,
    seconds_table,
    sessions_table,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A quarter of a second to midnight.
STARTED = datetime(2026, 1, 1, 23, 59, 59, 750_000, tzinfo=UTC)

FILE = {
    "file_id": "f1",
    "path": "/rec/a.flv",
    "app": "live",
    "stream": "a",
    "started_us": int(STARTED.timestamp() * 1_000_000),
    "step_ms": 40.0,
    "frame_ms": 20.0,
}
FILES = (
    "file_id string, path string, app string, stream string, started_us long, step_ms double, frame_ms double"
)


def scanned(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    names = SCAN_ROWS.column_names
    data = [tuple({"file_id": "f1", "part": 0, **row}.get(name) for name in names) for row in rows]
    return spark.createDataFrame(data, SCAN_ROWS.spark_schema())


def files(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame([tuple(row.values()) for row in rows or (FILE,)], FILES)


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return list(frame.toArrow().to_pylist())


def second(number: int, **values: int) -> dict[str, Any]:
    return {"row": SECOND, "second": number, **dict.fromkeys(SUMS, 0), **values}


def test_seconds_that_were_cut_become_one_again(spark: SparkSession) -> None:
    rows = scanned(
        spark,
        second(
            3,
            video_bytes=100,
            video_frames=2,
            max_step_ms=40,
            last_video_ms=3040,
            video_step_ms=80,
            video_steps=2,
        ),
        second(
            3,
            video_bytes=50,
            video_frames=1,
            max_step_ms=120,
            last_video_ms=3160,
            video_step_ms=120,
            video_steps=1,
        )
        | {"part": 1},
        second(2, video_bytes=7, video_frames=1),
    )
    table = seconds_table(rows, files(spark))
    assert table.schema.simpleString() == SECONDS.spark_schema().simpleString()
    by_second = {row["second"]: row for row in rows_of(table)}
    assert sorted(by_second) == [2, 3]
    row = by_second[3]
    assert (row["video_bytes"], row["video_frames"], row["max_step_ms"], row["last_video_ms"]) == (
        150,
        3,
        120,
        3160,
    )
    # 200 ms have room for five pictures of 40 ms, and three came.
    assert (row["dropped_est"], by_second[2]["dropped_est"]) == (2, 0)
    assert row["wall"] == STARTED + timedelta(seconds=3)
    assert row["last_audio_ms"] is None


def test_skew_is_what_has_come_together_so_far(spark: SparkSession) -> None:
    rows = scanned(
        spark, *(second(n, audio_step_ms=1002, audio_slots=50, audio_frames=50) for n in (2, 0, 1))
    )
    found = {row["second"]: row["av_skew_ms"] for row in rows_of(seconds_table(rows, files(spark)))}
    assert found == {0: 2.0, 1: 4.0, 2: 6.0}
    unknown = files(spark, FILE | {"frame_ms": None, "step_ms": None})
    for row in rows_of(seconds_table(rows, unknown)):
        assert row["av_skew_ms"] is None
        assert row["dropped_est"] in (None, 0)


def test_rows_belong_to_the_day_of_their_time(spark: SparkSession) -> None:
    key = {
        "row": KEYFRAME,
        "timestamp_ms": 5,
        "byte_offset": 13,
        "bytes": 9,
        "gop_frames": 3,
        "gop_bytes": 30,
    }
    rows = scanned(spark, key | {"time_ms": 0}, key | {"time_ms": 250})
    table = keyframes_table(rows, files(spark))
    assert table.schema.simpleString() == KEYFRAMES.spark_schema().simpleString()
    assert [(row["time_ms"], row["day"]) for row in rows_of(table.orderBy("time_ms"))] == [
        (0, date(2026, 1, 1)),
        (250, date(2026, 1, 2)),
    ]


def test_incidents_get_the_time_of_the_part_before(spark: SparkSession) -> None:
    rows = scanned(
        spark,
        {"row": INCIDENT, "kind": "garbage", "part": 1, "byte_offset": 7, "bytes": 10, "detail": "x"},
        {"row": INCIDENT, "kind": "garbage", "part": 0, "byte_offset": 5, "bytes": 10, "detail": "x"},
    )
    times = spark.createDataFrame([("f1", 1, 1234)], "file_id string, part int, time_before long")
    table = incidents_table(rows, files(spark), times)
    assert table.schema.simpleString() == INCIDENTS.spark_schema().simpleString()
    assert [(row["byte_offset"], row["time_ms"]) for row in rows_of(table.orderBy("byte_offset"))] == [
        (5, 0),
        (7, 1234),
    ]


def test_a_slide_show_has_no_freezes(spark: SparkSession) -> None:
    still = {"row": INCIDENT, "time_ms": 0, "byte_offset": 5, "detail": ""}
    rows = scanned(
        spark,
        *(
            still | {"kind": kind, "length_ms": length}
            for kind in ("freeze", "gap", "silence")
            for length in (5000, 30_000)
        ),
    )
    times = spark.createDataFrame([], "file_id string, part int, time_before long")

    def found(file: dict[str, Any]) -> list[tuple[str, int]]:
        table = incidents_table(rows, files(spark, file), times)
        return sorted((row["kind"], row["length_ms"]) for row in rows_of(table))

    everything = [(kind, length) for kind in ("freeze", "gap", "silence") for length in (5000, 30_000)]
    assert found(FILE) == everything
    assert found(FILE | {"step_ms": 5000.0}) == [one for one in everything if one != ("freeze", 5000)]
    assert found(FILE | {"step_ms": 5000.0, "frame_ms": None}) == [
        ("freeze", 30_000),
        ("gap", 30_000),
        ("silence", 5000),
        ("silence", 30_000),
    ]


def recording(stream: str, start: float, seconds: float, **values: Any) -> dict[str, Any]:
    begin = STARTED + timedelta(seconds=start)
    return {
        "path": f"/rec/{stream}_{start:07.1f}.flv",
        "app": "live",
        "stream": stream,
        "started_at": begin,
        "ended_at": begin + timedelta(seconds=seconds),
        "duration_ms": int(seconds * 1000),
        "size": 100,
        "lost_bytes": 1,
        "status": "ok",
        **values,
    }


def test_sessions_join_what_follows_closely(spark: SparkSession) -> None:
    rows = [
        recording("a", 60.2, 30),
        recording("a", 0, 60),
        recording("a", 95.2, 10, vanished_at=STARTED),
        recording("a", 115.2, 10),
        recording("b", 30, 10),
        recording("b", 30, 0, status="empty", path="/rec/empty.flv"),
        # A copy inside of another one adds no hole.
        recording("c", 0, 100),
        recording("c", 10, 5),
        recording("c", 101, 5),
    ]
    data = [tuple(row.get(name) for name in RECORDINGS.column_names) for row in rows]
    table = sessions_table(spark.createDataFrame(data, RECORDINGS.spark_schema()))
    assert table.schema.simpleString() == SESSIONS.spark_schema().simpleString()
    found = rows_of(table.orderBy("stream", "started_at"))
    assert [
        (row["stream"], row["files"], row["recorded_ms"], row["missing_ms"], row["vanished"]) for row in found
    ] == [
        ("a", 3, 100_000, 5000, 1),
        ("a", 1, 10_000, 0, 0),
        ("b", 1, 10_000, 0, 0),
        ("c", 3, 110_000, 0, 0),
    ]
    assert found[0]["paths"] == ["/rec/a_00000.0.flv", "/rec/a_00060.2.flv", "/rec/a_00095.2.flv"]
    assert (found[0]["started_at"], found[0]["ended_at"]) == (STARTED, STARTED + timedelta(seconds=105.2))
    assert (found[0]["size"], found[0]["lost_bytes"], found[0]["day"]) == (300, 3, date(2026, 1, 1))
