"""Recordings become tables: what is in them is what is in the files, run after run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from rtmprelay.flv.container import read_tags
from rtmprelay.flv.tags import describe_video
from rtmprelay.media import MediaFrame, MediaKind
from tests.flv.media import AAC_HEADER, AVC_HEADER
from tests.spark.media import age, frames_file, frames_of
from tests.spark.world import BEGIN, STATUS, index

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

import pyarrow.compute as pc

from spark_analytics.catalogue import Catalogue
from spark_analytics.flv.sources import ByteSource, open_source
from spark_analytics.recordings import job, plan, tasks
from spark_analytics.recordings.discover import FoundFile, find_recordings
from spark_analytics.recordings.results import Reading
from spark_analytics.recordings.tasks import Lot, run_task, scan
from spark_analytics.store.schema import RECORDING_TABLES
from spark_analytics.store.tables import TABLES
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
    # The same if there are so many rows that the workers finish and write them.
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


def test_only_what_is_new_is_read(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "rec", tmp_path / "catalogue"
    folder.mkdir()
    first, second = folder / "live_a_20260101_120000.flv", folder / "live_b_20260101_120000.flv"
    for path, length in ((first, 3), (second, 4)):
        path.write_bytes(frames_file(stream(length)))
        age(path)
    before = index(folder, out)
    assert "2 recordings read" in capsys.readouterr().out
    files = sorted(path for path in out.rglob("*") if path.is_file())
    contents = {path: path.read_bytes() for path in files if path.name != "_lock"}
    # Nothing is new: nothing is read, and nothing is written.
    with monkeypatch.context() as patch:
        patch.setattr("spark_analytics.recordings.job.scan_here", None)
        assert index(folder, out).version == before.version
    assert "nothing is new" in capsys.readouterr().out
    assert sorted(path for path in out.rglob("*") if path.is_file()) == files
    assert all(path.read_bytes() == data for path, data in contents.items())
    # One changes, one vanishes, one is new.
    first.write_bytes(frames_file(stream(6)))
    age(first, 1000)
    second.unlink()
    third = folder / "live_c_20260101_120000.flv"
    third.write_bytes(frames_file(stream(2)))
    age(third)
    after = index(folder, out)
    assert "2 recordings read" in capsys.readouterr().out
    rows = by_stream(after)
    assert {key: (row["duration_ms"] // 1000, row["vanished_at"] is None) for key, row in rows.items()} == {
        "live/a": (5, True),
        "live/b": (3, False),
        "live/c": (1, True),
    }
    # What is known of the vanished one stays; what was known of the changed one does not.
    seconds = [(row["stream"], row["second"]) for row in rows_of(after, "seconds", "stream", "second")]
    assert seconds == [("a", n) for n in range(6)] + [("b", n) for n in range(4)] + [
        ("c", n) for n in range(2)
    ]
    assert {row["stream"]: (row["files"], row["vanished"]) for row in rows_of(after, "sessions")} == {
        "a": (1, 0),
        "b": (1, 1),
        "c": (1, 0),
    }
    # The version before can still be read as it was.
    assert sorted(row["second"] for row in rows_of(before, "seconds") if row["stream"] == "a") == [0, 1, 2]
    # It comes back, and nothing has to be read.
    second.write_bytes(frames_file(stream(4)))
    os.utime(second, ns=(0, rows["live/b"]["mtime_ns"]))
    with monkeypatch.context() as patch:
        patch.setattr("spark_analytics.recordings.tasks.run_task", None)
        again = index(folder, out)
    assert "0 recordings read" in capsys.readouterr().out
    assert by_stream(again)["live/b"]["vanished_at"] is None
    again.register(spark)
    runs = {row["run"] for row in spark.sql("SELECT run FROM recordings").collect()}
    assert runs == {row["run"] for row in rows.values()}


def test_a_file_that_grows_is_read_again(tmp_path: Path) -> None:
    folder, out = tmp_path / "rec", tmp_path / "catalogue"
    folder.mkdir()
    path = folder / "live_a_20260101_120000.flv"
    data = frames_file(stream(4))
    path.write_bytes(data[:-7])
    assert by_stream(index(folder, out))["live/a"]["status"] == "growing"
    # The server died: nobody has written to it since.
    times = path.stat().st_mtime_ns
    rows = Catalogue(out).open().arrow("recordings").to_pylist()
    assert rows[0]["mtime_ns"] == times
    os.utime(path, ns=(times, times - 100 * 10**9))
    row = by_stream(index(folder, out))["live/a"]
    assert (row["status"], row["lost_bytes"]) == ("truncated", 12)


def make_two(folder: Path, **more: Any) -> None:
    """Two recordings that are finished."""
    folder.mkdir()
    for name in ("a", "b"):
        path = folder / f"live_{name}_20260101_120000.flv"
        path.write_bytes(frames_file(stream(2, **more)))
        age(path)


def test_a_file_that_cannot_be_read_does_not_end_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It becomes shorter between the listing and the reading."""
    folder, out = tmp_path / "rec", tmp_path / "catalogue"
    make_two(folder)
    real = plan.make_tasks

    def cut_first(*arguments: Any) -> Any:
        tasks = real(*arguments)
        os.truncate(folder / "live_a_20260101_120000.flv", 50)
        return tasks

    with monkeypatch.context() as patch:
        patch.setattr("spark_analytics.recordings.job.make_tasks", cut_first)
        found = by_stream(index(folder, out))
    assert found["live/a"]["status"] == "unreadable"
    assert "became shorter" in found["live/a"]["error"]
    assert found["live/b"]["status"] == "ok"
    assert "unreadable: " in capsys.readouterr().out
    # As long as it is the same file that cannot be read, there is nothing to publish.
    before = Catalogue(out).open()
    bad = folder / "live_a_20260101_120000.flv"
    bad.write_bytes(frames_file(stream(2)))
    os.utime(bad, ns=(0, found["live/a"]["mtime_ns"]))
    with monkeypatch.context() as patch:
        rows = before.arrow("recordings", where=pc.field("path") == str(bad))
        patch.setattr("spark_analytics.recordings.job.index_recordings", lambda *_: rows)
        assert index(folder, out).version == before.version
    # Nor is anything written for it.
    files = set(out.rglob("*"))
    with monkeypatch.context() as patch:
        patch.setattr("spark_analytics.recordings.job.make_tasks", cut_first)
        assert index(folder, out).version == before.version
    assert set(out.rglob("*")) == files
    bad.write_bytes(frames_file(stream(2)))
    os.utime(bad, ns=(0, found["live/a"]["mtime_ns"]))
    assert "1 unreadable (1 with something wrong)" in capsys.readouterr().out
    os.truncate(bad, 50)
    age(folder / "live_a_20260101_120000.flv")
    assert by_stream(index(folder, out))["live/a"]["status"] == "truncated"


def shrink_while_it_is_read(splits: Sequence[plan.Split], reading: Reading) -> Iterator[Lot]:
    """What a task does, with one file that loses its end when it is open already."""

    def open_and_cut(path: str, size: int) -> ByteSource:
        source = open_source(path, size)
        if "live_a_" in path:
            os.truncate(path, 50)
        return source

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "open_source", open_and_cut)
        yield from run_task(splits, reading)


def test_a_file_that_shrinks_while_it_is_read_does_not_end_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """In a worker of Spark the same code runs, and no test can reach into it."""
    if engine == "spark":
        return
    folder, out = tmp_path / "rec", tmp_path / "catalogue"
    make_two(folder, size=400)
    monkeypatch.setattr("spark_analytics.recordings.tasks.run_task", shrink_while_it_is_read)
    found = by_stream(index(folder, out))
    assert (found["live/a"]["status"], found["live/b"]["status"]) == ("unreadable", "ok")
    assert "became shorter" in found["live/a"]["error"]
    assert len(rows_of(Catalogue(out).open(), "seconds")) == 2


class Cluster:
    """A cluster whose machines come one by one, as far as the one who asks can tell."""

    def __init__(self, master: str, cores: list[int]) -> None:
        self.master = master
        self._cores = cores

    @property
    def defaultParallelism(self) -> int:  # noqa: N802
        return self._cores.pop(0) if len(self._cores) > 1 else self._cores[0]

    def parallelize(self, *_: object) -> Cluster:
        return self

    def count(self) -> int:
        """The first one is there."""
        self._cores[:1] = []
        return 1


@pytest.mark.parametrize(
    ("master", "cores", "expected"),
    [("local[4]", [4], 4), ("spark://h:7077", [2, 4, 8, 16, 16], 16), ("yarn", [2, 1, 1], 1)],
)
def test_work_is_cut_for_all_who_come(master: str, cores: list[int], expected: int) -> None:
    """Before a cluster has begun anything, Spark says two."""
    cluster: Any = Cluster(master, [*cores])
    assert job.cores_at_hand(cluster, pause=lambda _: None) == expected


def test_files_that_change_before_they_are_read_again_end_the_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark reads them again if it loses a machine. Rows that do not belong together must not be written."""
    path = tmp_path / "live_a_20260101_120000.flv"
    path.write_bytes(frames_file(stream(4)))
    age(path)
    files = tuple(find_recordings([str(tmp_path)]).files.values())
    with scan(spark, files, plan.make_tasks(files, 2), Reading("run", datetime.now(UTC)), 0) as found:
        assert not found.is_here
        assert found.frame(spark, "seconds").count() == 4
        # As when the machine is gone that kept them.
        assert found.lots is not None
        found.lots.unpersist(True)
        path.unlink()
        with pytest.raises(Exception, match="changed while"):
            found.frame(spark, "seconds").count()


def test_a_clock_that_was_never_set_does_not_end_the_job(tmp_path: Path) -> None:
    """Nanoseconds of the year 2400 are more than a table holds."""
    folder = tmp_path / "rec"
    make_two(folder)
    os.utime(folder / "live_b_20260101_120000.flv", (13_569_465_600, 13_569_465_600))
    assert FoundFile("/r/b", 1, 13_569_465_600 * 10**9).mtime_ns == 2**63 - 1
    found = by_stream(index(folder, tmp_path / "catalogue"))
    assert found["live/a"]["status"] == "ok"
    assert found["live/b"]["video_frames"] == found["live/a"]["video_frames"] > 0


def test_marking_what_is_gone_takes_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = tmp_path / "rec", tmp_path / "catalogue"
    make_two(folder)
    index(folder, out)
    (folder / "live_a_20260101_120000.flv").unlink()
    monkeypatch.setattr("spark_analytics.cli.index.open_session", None)
    assert by_stream(index(folder, out))["live/a"]["vanished_at"] is not None


@pytest.mark.parametrize("changed", ["recordings", "seconds", "keyframes", "incidents", "sessions"])
def test_a_catalogue_of_another_schema_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    old, new, out = tmp_path / "old", tmp_path / "new", tmp_path / "catalogue"
    for folder, name in ((old, "a"), (old, "gone"), (new, "b")):
        folder.mkdir(exist_ok=True)
        path = folder / f"live_{name}_20260101_120000.flv"
        path.write_bytes(frames_file(stream(1)) + b"torn")
        age(path)
    index(old, out)
    (old / "live_gone_20260101_120000.flv").unlink()
    index(old, out)
    table = TABLES[changed]
    monkeypatch.setitem(TABLES, changed, attrs.evolve(table, version=table.version + 1))
    tables = [TABLES[table.name] for table in RECORDING_TABLES]
    monkeypatch.setattr(plan, "RECORDING_TABLES", tables)
    snapshot = index(new, out)
    streams = {name: sorted(row["stream"] for row in rows_of(snapshot, name)) for name in snapshot.tables}
    # Of what is gone nothing can be read: it stays as it is, with null in columns that are new.
    assert streams == {name: ["a", "b", "gone"] for name in streams}
    assert by_stream(snapshot)["live/gone"]["vanished_at"] is not None
    assert snapshot.schema_version(changed) == table.version + 1
    assert index(new, out).version == Catalogue(out).open().version == snapshot.version


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
