"""Tables in, tables out: small ones that say what is meant."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow", reason="Spark is not installed: pip install '.[spark]'")

import pyarrow as pa

from spark_analytics.recordings.rows import (
    DETAIL_ROWS,
    RECORDING_ROWS,
    FileFrames,
    incidents_rows,
    keyframes_rows,
    seconds_rows,
)
from spark_analytics.recordings.seconds import LARGEST, NOTHING, SUMS
from spark_analytics.recordings.sessions import sessions_table
from spark_analytics.store.schema import INCIDENTS, KEYFRAMES, RECORDINGS, SECONDS, SESSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A quarter of a second to midnight.
STARTED = datetime(2026, 1, 1, 23, 59, 59, 750_000, tzinfo=UTC)

FILE = {
    "file_id": "f1",
    "path": "/rec/a.flv",
    "app": "live",
    "stream": "a",
    "status": "ok",
    "started_at": STARTED,
    "step_ms": 40.0,
    "frame_ms": 20.0,
}


def found(table: str, *rows: dict[str, Any]) -> pa.Table:
    """What workers send."""
    return pa.Table.from_pylist([{"file": 0, "part": 0, **row} for row in rows], schema=DETAIL_ROWS[table])


def frames(*files: dict[str, Any], times_before: Mapping[tuple[int, int], int] | None = None) -> FileFrames:
    rows = [{"file": number, **file} for number, file in enumerate(files or (FILE,))]
    return FileFrames.of(pa.Table.from_pylist(rows, schema=RECORDING_ROWS), times_before or {})


def second(number: int, **values: int) -> dict[str, Any]:
    return {"second": number, **dict.fromkeys(SUMS, 0), **dict.fromkeys(LARGEST, NOTHING), **values}


def rows_of(table: pa.Table, *order: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: tuple(row[name] for name in order)) if order else rows


def test_seconds_that_were_cut_become_one_again() -> None:
    rows = found(
        "seconds",
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
        ),
        second(2, video_bytes=7, video_frames=1),
    )
    table = seconds_rows(rows, frames())
    assert table.schema == SECONDS.arrow_schema()
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


def test_the_seconds_of_files_are_kept_apart() -> None:
    """Whatever the order in which they come."""
    rows = found(
        "seconds",
        *(
            second(number, audio_step_ms=1002, audio_slots=50, video_bytes=1) | {"file": file}
            for number in (1, 0)
            for file in (1, 0, 1)
        ),
    )
    table = rows_of(seconds_rows(rows, frames(FILE, FILE | {"file_id": "f2", "stream": "b"})))
    assert [(row["stream"], row["second"], row["video_bytes"], row["av_skew_ms"]) for row in table] == [
        ("a", 0, 1, 2.0),
        ("a", 1, 1, 4.0),
        ("b", 0, 2, 4.0),
        ("b", 1, 2, 8.0),
    ]


def test_skew_is_what_has_come_together_so_far() -> None:
    rows = found(
        "seconds", *(second(n, audio_step_ms=1002, audio_slots=50, audio_frames=50) for n in (2, 0, 1))
    )
    table = rows_of(seconds_rows(rows, frames()))
    assert {row["second"]: row["av_skew_ms"] for row in table} == {0: 2.0, 1: 4.0, 2: 6.0}
    for row in rows_of(seconds_rows(rows, frames(FILE | {"frame_ms": None, "step_ms": None}))):
        assert row["av_skew_ms"] is None
        assert row["dropped_est"] == 0


def test_numbers_that_no_recording_has_do_not_end_the_job() -> None:
    rows = found("seconds", second(0, video_step_ms=3_000_000_000, video_steps=1, video_frames=2**33))
    (row,) = rows_of(seconds_rows(rows, frames(FILE | {"step_ms": 1.0})))
    assert (row["dropped_est"], row["video_frames"]) == (2**31 - 1, 2**31 - 1)


def test_rows_belong_to_the_day_of_their_time() -> None:
    key = {"timestamp_ms": 5, "byte_offset": 13, "bytes": 9, "gop_frames": 3, "gop_bytes": 30}
    table = keyframes_rows(found("keyframes", key | {"time_ms": 0}, key | {"time_ms": 250}), frames())
    assert table.schema == KEYFRAMES.arrow_schema()
    assert [(row["time_ms"], row["day"]) for row in rows_of(table, "time_ms")] == [
        (0, date(2026, 1, 1)),
        (250, date(2026, 1, 2)),
    ]
    # Before 1970, too: a file may say so of itself.
    early = keyframes_rows(
        found("keyframes", key | {"time_ms": 0}),
        frames(FILE | {"started_at": datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)}),
    )
    assert rows_of(early)[0]["day"] == date(1969, 12, 31)


def test_what_is_no_recording_has_no_rows() -> None:
    rows = found("incidents", *({"file": n, "kind": "garbage", "byte_offset": n} for n in range(3)))
    files = frames(FILE | {"status": "unreadable"}, FILE, FILE | {"status": "not_flv"})
    assert [row["byte_offset"] for row in rows_of(incidents_rows(rows, files))] == [1]
    assert keyframes_rows(found("keyframes"), files).num_rows == 0
    assert seconds_rows(found("seconds"), files).num_rows == 0


def test_incidents_get_the_time_of_the_part_before() -> None:
    rows = found(
        "incidents",
        {"kind": "garbage", "part": 1, "byte_offset": 7, "bytes": 10, "detail": "x"},
        {"kind": "garbage", "part": 0, "byte_offset": 5, "bytes": 10, "detail": "x"},
    )
    table = incidents_rows(rows, frames(times_before={(0, 1): 1234}))
    assert table.schema == INCIDENTS.arrow_schema()
    assert [(row["byte_offset"], row["time_ms"]) for row in rows_of(table, "byte_offset")] == [
        (5, 0),
        (7, 1234),
    ]
    assert [row["wall"] - STARTED for row in rows_of(table, "byte_offset")] == [
        timedelta(),
        timedelta(seconds=1.234),
    ]


def test_a_slide_show_has_no_freezes() -> None:
    still = {"time_ms": 0, "byte_offset": 5, "detail": ""}
    everything = [(kind, length) for kind in ("freeze", "gap", "silence") for length in (5000, 30_000)]
    rows = found("incidents", *(still | {"kind": kind, "length_ms": length} for kind, length in everything))

    def left(file: dict[str, Any]) -> list[tuple[str, int]]:
        return sorted((row["kind"], row["length_ms"]) for row in rows_of(incidents_rows(rows, frames(file))))

    assert left(FILE) == everything
    assert left(FILE | {"step_ms": 5000.0}) == [one for one in everything if one != ("freeze", 5000)]
    assert left(FILE | {"step_ms": 5000.0, "frame_ms": None}) == [
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


def test_sessions_join_what_follows_closely() -> None:
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
    table = sessions_table(pa.Table.from_pylist(rows, schema=RECORDINGS.arrow_schema()))
    assert table.schema == SESSIONS.arrow_schema()
    sessions = rows_of(table, "stream", "started_at")
    assert [
        (row["stream"], row["files"], row["recorded_ms"], row["missing_ms"], row["vanished"])
        for row in sessions
    ] == [
        ("a", 3, 100_000, 5000, 1),
        ("a", 1, 10_000, 0, 0),
        ("b", 1, 10_000, 0, 0),
        ("c", 3, 110_000, 0, 0),
    ]
    first = sessions[0]
    assert first["paths"] == ["/rec/a_00000.0.flv", "/rec/a_00060.2.flv", "/rec/a_00095.2.flv"]
    assert (first["started_at"], first["ended_at"]) == (STARTED, STARTED + timedelta(seconds=105.2))
    assert (first["size"], first["lost_bytes"], first["day"]) == (300, 3, date(2026, 1, 1))
