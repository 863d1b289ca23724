"""Recordings become tables: what is in them is what is in the files, run after run."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rtmprelay.flv.container import read_tags
from rtmprelay.flv.tags import describe_video
from rtmprelay.media import MediaFrame, MediaKind
from tests.flv.media import AAC_HEADER, AVC_HEADER
from tests.spark.media import age, frames_file, frames_of
from tests.spark.world import BEGIN, STATUS, index

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")


from spark_analytics.recordings import job, plan
from spark_analytics.store.versions import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(
    autouse=True, params=["here", pytest.param("spark", marks=[pytest.mark.full, pytest.mark.every_engine])]
)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What reads recordings."""
    if request.param == "spark":
        request.getfixturevalue("spark")
        monkeypatch.setattr(job, "MOST_BYTES_HERE", -1)
    return str(request.param)


def rows_of(snapshot: Snapshot, table: str, *order: str) -> list[dict[str, Any]]:
    rows = snapshot.arrow(table).to_pylist()
    return sorted(rows, key=lambda row: tuple(str(row[name]) for name in order))


def by_stream(snapshot: Snapshot, table: str = "recordings") -> dict[str, dict[str, Any]]:
    rows = rows_of(snapshot, table, "started_at")
    return {f"{row['app']}/{row['stream']}".lstrip("/"): row for row in rows}


def test_every_file_has_a_row_with_its_status(snapshot: Snapshot, recordings: Path) -> None:
    rows = rows_of(snapshot, "recordings", "path")
    assert [row["path"] for row in rows] == sorted(map(str, recordings.rglob("*.flv")))
    assert {key: row["status"] for key, row in by_stream(snapshot).items()} == STATUS
    for row in rows:
        assert row["size"] == os.path.getsize(row["path"])
        assert (row["lost_bytes"] > 0) == (row["status"] in ("truncated", "damaged", "not_flv")), row["path"]


def test_what_a_recording_is_made_of(snapshot: Snapshot, recordings: Path) -> None:
    found = by_stream(snapshot)
    film = found["holiday"]
    frames = frames_of(recordings / "holiday.flv")
    pictures = [
        frame for frame in frames if frame.kind is MediaKind.VIDEO and describe_video(frame.payload).coded
    ]
    assert film["video_frames"] == len(pictures) == 225
    assert film["keyframes"] == sum(describe_video(frame.payload).keyframe for frame in pictures)
    assert film["video_bytes"] == sum(len(frame.payload) for frame in pictures)
    assert film["tags"] == len(frames)
    assert (film["width"], film["height"], film["fps"]) == (320, 180, 25.0)
    assert (film["video_codec"], film["audio_codec"], film["sample_rate"]) == ("H.264 AVC", "AAC", 44100)
    assert (film["keyframe_interval_ms"], film["dropped_frames"], film["start_source"]) == (
        1200.0,
        0,
        "mtime",
    )
    assert found["live/hevc"]["video_codec"] == "H.265 HEVC"
    assert (found["live/hevc"]["width"], found["live/hevc"]["start_source"]) == (320, "name")
    sound = found["live/sound"]
    assert (sound["video_codec"], sound["video_frames"], sound["fps"], sound["channels"]) == (
        None,
        0,
        None,
        1,
    )


def test_segments_of_the_recorder_are_one_session(snapshot: Snapshot) -> None:
    segments = [row for row in rows_of(snapshot, "recordings", "segment") if row["stream"] == "film"]
    assert [row["segment"] for row in segments] == [1, 2, 3]
    assert {row["start_source"] for row in segments} == {"metadata"}
    assert all(row["complete"] for row in segments)
    assert segments[0]["started_at"] == BEGIN
    session = by_stream(snapshot, "sessions")["live/film"]
    assert (session["files"], session["missing_ms"]) == (3, 0)
    assert session["paths"] == [row["path"] for row in segments]
    assert session["recorded_ms"] == sum(row["duration_ms"] for row in segments)
    assert session["started_at"] == BEGIN


def test_keyframes_are_where_the_table_says(snapshot: Snapshot) -> None:
    rows = rows_of(snapshot, "keyframes", "path")
    found: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        found.setdefault(row["path"], []).append((row["byte_offset"], row["timestamp_ms"]))
    assert {Path(path).name.split("_")[1] for path in found if "_" in path} >= {"film", "hevc", "damaged"}
    for path, keyframes in found.items():
        if "headless" in path:
            continue
        data = Path(path).read_bytes()
        for offset, timestamp in keyframes:
            assert data[offset] == MediaKind.VIDEO
            size = int.from_bytes(data[offset + 1 : offset + 4], "big")
            assert describe_video(data[offset + 11 : offset + 11 + size]).keyframe or "recovered" in path
            assert int.from_bytes(data[offset + 4 : offset + 7], "big") == timestamp
    with open(next(path for path in found if "hevc" in path), "rb") as file:
        expected = [
            tag.offset
            for tag in read_tags(file)
            if tag.type_byte == 9 and describe_video(tag.payload).keyframe
        ]
    assert sorted(offset for offset, _ in next(found[path] for path in found if "hevc" in path)) == expected


def test_seconds_add_up(snapshot: Snapshot) -> None:
    sums: dict[str, list[int]] = {}
    for row in rows_of(snapshot, "seconds"):
        total = sums.setdefault(row["file_id"], [0, 0, 0, 0])
        for number, name in enumerate(("video_bytes", "audio_bytes", "video_frames", "audio_frames")):
            total[number] += row[name]
        assert row["day"] == row["wall"].date()
    for row in rows_of(snapshot, "recordings"):
        expected = [row["video_bytes"], row["audio_bytes"], row["video_frames"], row["audio_frames"]]
        assert sums.get(row["file_id"], [0, 0, 0, 0]) == expected
    film = by_stream(snapshot)["holiday"]
    whole = [row for row in rows_of(snapshot, "seconds") if row["file_id"] == film["file_id"]]
    pictures = {row["second"]: row["video_frames"] for row in whole if row["video_frames"]}
    assert pictures == dict.fromkeys(range(9), 25)
    assert all(row["dropped_est"] == 0 and abs(row["av_skew_ms"]) < 2 for row in whole)


def test_damage_is_an_incident(snapshot: Snapshot) -> None:
    found = {(row["stream"], row["kind"]) for row in rows_of(snapshot, "incidents") if row["bytes"]}
    assert {
        ("truncated", "torn_tail"),
        ("zeros", "zero_tail"),
        ("damaged", "garbage"),
        ("recovered", "wrong_size"),
        ("headless", "garbage"),
    } <= found
    assert not [row for row in rows_of(snapshot, "incidents") if row["stream"] in ("film", "holiday", "page")]


#: In which order the rows of the tables can be compared.
ORDER = {
    "recordings": ("path",),
    "keyframes": ("file_id", "byte_offset"),
    "seconds": ("file_id", "second"),
    "incidents": ("file_id", "byte_offset", "kind", "time_ms"),
    "sessions": ("stream", "started_at"),
}


def assert_same(one: Snapshot, other: Snapshot) -> None:
    """All tables are the same, but for when and by whom they were written."""
    for table, order in ORDER.items():
        these, those = rows_of(one, table, *order), rows_of(other, table, *order)
        for row in [*these, *those]:
            for name in ("run", "indexed_at"):
                row.pop(name, None)
        assert these == those, table


def test_parts_of_any_size_give_the_same_tables(
    snapshot: Snapshot, recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "_SMALLEST_PART", 20_000)
    monkeypatch.setattr(plan, "_LARGEST_PART", 20_000)
    assert_same(index(recordings, tmp_path / "cut"), snapshot)


@pytest.mark.full
def test_parts_that_the_workers_finish_and_write_give_the_same_tables(
    spark: SparkSession,
    snapshot: Snapshot,
    recordings: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of so many rows that they do not come to the driver."""
    monkeypatch.setattr(plan, "_SMALLEST_PART", 20_000)
    monkeypatch.setattr(plan, "_LARGEST_PART", 20_000)
    monkeypatch.setattr(job, "_FEW_ROWS", 20)
    assert_same(index(recordings, tmp_path / "many"), snapshot)


def test_few_and_many_rows_give_the_same_run_after_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the driver writes them or the workers do; also of what was there before."""
    folder = tmp_path / "rec"
    folder.mkdir()
    paths = [folder / f"live_{name}_20260101_120000.flv" for name in "abc"]
    for path, seconds in zip(paths[:2], (3, 4), strict=True):
        path.write_bytes(frames_file(stream(seconds)))
        age(path)
    found = {}
    for few_rows in (500_000, 1):
        monkeypatch.setattr(job, "_FEW_ROWS", few_rows)
        found[few_rows] = index(folder, tmp_path / str(few_rows))
    assert_same(found[1], found[500_000])
    paths[0].write_bytes(frames_file(stream(6)))
    age(paths[0], 1000)
    paths[2].write_bytes(frames_file(stream(2)))
    age(paths[2])
    for few_rows in (500_000, 1):
        monkeypatch.setattr(job, "_FEW_ROWS", few_rows)
        found[few_rows] = index(folder, tmp_path / str(few_rows))
    assert_same(found[1], found[500_000])
    streams = [row["stream"] for row in rows_of(found[1], "seconds", "stream")]
    assert streams == ["a"] * 6 + ["b"] * 4 + ["c"] * 2


def test_spark_reads_where_somebody_says_how_it_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little there is to read."""
    make_two(tmp_path / "rec", size=20)
    monkeypatch.setattr(job, "scan_here", lambda *_: pytest.fail("it is read here"))
    found = index(tmp_path / "rec", tmp_path / "catalogue", "--conf", "spark.sql.shuffle.partitions=1")
    assert [row["status"] for row in rows_of(found, "recordings")] == ["ok", "ok"]


def test_spark_reads_the_same_as_arrow(spark: SparkSession, snapshot: Snapshot) -> None:
    snapshot.register(spark)
    answer = spark.sql(
        "SELECT path, byte_offset, timestamp_ms FROM keyframes WHERE day = '2026-01-01' AND app = 'live'"
        " AND stream = 'film' AND wall <= TIMESTAMP'2026-01-01 12:00:05' ORDER BY wall DESC LIMIT 1"
    ).toArrow()
    film = [row for row in rows_of(snapshot, "keyframes") if row["stream"] == "film"]
    before = [row for row in film if row["wall"] <= datetime(2026, 1, 1, 12, 0, 5, tzinfo=UTC)]
    last = max(before, key=lambda row: row["wall"])
    assert answer.to_pylist() == [{name: last[name] for name in ("path", "byte_offset", "timestamp_ms")}]
    assert spark.table("seconds").count() == len(rows_of(snapshot, "seconds"))


# -- run after run -------------------------------------------------------------------------------------------


def stream(seconds: int, size: int = 20) -> list[MediaFrame]:
    """Pictures every 40 ms, a keyframe each second, sound every 23 ms."""
    pictures = [
        MediaFrame(
            MediaKind.VIDEO, time, bytes([0x27 if time % 1000 else 0x17, 1, 0, 0, 0]).ljust(size, b"v")
        )
        for time in range(0, seconds * 1000, 40)
    ]
    sounds = [MediaFrame(MediaKind.AUDIO, time, b"\xaf\x01aa") for time in range(0, seconds * 1000, 23)]
    return [AVC_HEADER, AAC_HEADER, *sorted(pictures + sounds, key=lambda frame: frame.timestamp_ms)]


def make_two(folder: Path, **more: Any) -> None:
    """Two recordings that are finished."""
    folder.mkdir()
    for name in ("a", "b"):
        path = folder / f"live_{name}_20260101_120000.flv"
        path.write_bytes(frames_file(stream(2, **more)))
        age(path)


def test_recordings_without_place_in_time(tmp_path: Path) -> None:
    """Freezes, drops and drift are found through Spark as well; days are those of the frames."""
    folder, out = tmp_path / "rec", tmp_path / "catalogue"
    folder.mkdir()
    frames: list[MediaFrame] = [AVC_HEADER, AAC_HEADER]
    for time in range(0, 70_000, 20):
        if time % 40 == 0 and not 10_000 <= time < 17_000 and time not in (30_040, 30_080, 31_000):
            frames.append(
                MediaFrame(MediaKind.VIDEO, time, (b"\x17" if time % 2000 == 0 else b"\x27") + b"\x01\0\0\0v")
            )
    # AAC at 44.1 kHz, whose timestamps run 0.2 % too fast.
    frames += [MediaFrame(MediaKind.AUDIO, round(n * 1024 / 44.1 * 1.002), b"\xaf\x01a") for n in range(3000)]
    frames.sort(key=lambda frame: frame.timestamp_ms)
    path = folder / "live_a_20260101_235930.flv"
    path.write_bytes(frames_file(frames))
    age(path)
    snapshot = index(folder, out)
    incidents = {row["kind"]: row for row in rows_of(snapshot, "incidents")}
    assert incidents.keys() == {"freeze", "av_drift"}
    assert (incidents["freeze"]["time_ms"], incidents["freeze"]["length_ms"]) == (9960, 7040)
    assert 7000 < by_stream(snapshot)["live/a"]["audio_drift_ms_per_hour"] < 7400
    rows = {row["second"]: row for row in rows_of(snapshot, "seconds")}
    assert {second: row["dropped_est"] for second, row in rows.items() if row["dropped_est"]} == {
        30: 2,
        31: 1,
    }
    assert by_stream(snapshot)["live/a"]["dropped_frames"] == 3
    assert (rows[29]["day"], rows[30]["day"]) == (date(2026, 1, 1), date(2026, 1, 2))
    assert rows[69]["av_skew_ms"] == pytest.approx(139, abs=8)
    assert rows[30]["wall"] == datetime(2026, 1, 2, tzinfo=UTC)
    assert rows[30]["wall"] - rows[0]["wall"] == timedelta(seconds=30)
    shutil.rmtree(out)
