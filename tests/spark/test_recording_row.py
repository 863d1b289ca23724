"""The row of a recording: who it is of, when it was, and what its frames say of it as a whole."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rtmprelay.flv.script import encode_metadata
from rtmprelay.media import MediaFrame, MediaKind
from tests.flv.media import AAC_HEADER, AVC_HEADER, groups, write_file
from tests.spark.media import age, frames_file

pytest.importorskip("pyarrow", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.recordings import beginning
from spark_analytics.recordings.discover import find_recordings
from spark_analytics.recordings.plan import cut
from spark_analytics.recordings.results import Reading
from spark_analytics.recordings.rows import unpacked
from spark_analytics.recordings.tasks import run_task

NOW = 1_800_000_000.0


def row_of(path: Path, now: float = NOW) -> dict[str, Any]:
    (file,) = find_recordings([str(path)]).files.values()
    (lot,) = run_task(cut(file, 0, 1 << 40), Reading("run", datetime.fromtimestamp(now, UTC)))
    assert lot.recordings is not None
    (found_row,) = unpacked(lot.recordings).to_pylist()
    return dict(found_row)


def test_who_a_recording_is_of(tmp_path: Path) -> None:
    ours = tmp_path / "renamed.flv"
    ours.write_bytes(write_file(groups(3), [AVC_HEADER, AAC_HEADER]))
    age(ours)
    foreign = row_of(ours)
    assert (foreign["app"], foreign["stream"], foreign["start_source"], foreign["complete"]) == (
        "",
        "renamed",
        "mtime",
        True,
    )
    named = ours.rename(tmp_path / "li%2Fve_a_b_20260203_040506_0007-2.flv")
    found_row = row_of(named)
    assert (found_row["app"], found_row["stream"], found_row["segment"]) == ("li/ve", "a_b", 7)
    assert (found_row["started_at"], found_row["start_source"]) == (
        datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC),
        "name",
    )


@pytest.mark.parametrize("time", ["00010101_000000", "99991231_235959", "19691231_235959"])
def test_a_time_in_a_name_that_cannot_be_is_not_believed(tmp_path: Path, time: str) -> None:
    """A day before the first or behind the last one cannot be written."""
    path = tmp_path / f"live_a_{time}.flv"
    path.write_bytes(frames_file(groups(2)))
    age(path)
    found_row = row_of(path)
    assert (found_row["app"], found_row["stream"], found_row["start_source"]) == ("live", "a", "mtime")
    assert abs(found_row["ended_at"].timestamp() - path.stat().st_mtime) < 10


def test_a_stranger_in_the_metadata_is_not_believed_without_end(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "rtmprelay_app": "live",
        "rtmprelay_name": "x\ud800",
        "rtmprelay_started": 1e300,
        "rtmprelay_segment": -5.0,
        "width": float("nan"),
        "height": 1e9,
        "filesize": "big",
    }
    path = tmp_path / "live_b_20260203_040506.flv"
    good = {name: value for name, value in values.items() if name != "rtmprelay_name"}
    path.write_bytes(frames_file([MediaFrame(MediaKind.DATA, 0, encode_metadata(good)), *groups(2)]))
    age(path)
    found_row = row_of(path)
    assert (found_row["app"], found_row["stream"], found_row["segment"]) == ("live", "b", None)
    assert (found_row["start_source"], found_row["width"], found_row["complete"]) == ("name", None, False)


def test_a_novel_for_a_name_is_cut_off(tmp_path: Path) -> None:
    """Each row of each table has the name."""
    values: dict[str, Any] = {"rtmprelay_app": "a" * 50_000, "rtmprelay_name": "b" * 50_000}
    path = tmp_path / "x.flv"
    path.write_bytes(frames_file([MediaFrame(MediaKind.DATA, 0, encode_metadata(values)), *groups(1)]))
    age(path)
    found_row = row_of(path)
    assert (found_row["app"], found_row["stream"]) == ("a" * 1024, "b" * 1024)


def test_a_name_that_utf_8_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "live_%ED%A0%80_20260203_040506.flv"
    path.write_bytes(frames_file(groups(1)))
    assert row_of(path)["stream"] == "?"


def pictures(begin: int, seconds: int) -> list[MediaFrame]:
    """One every 40 ms, a keyframe every two seconds."""
    return [
        MediaFrame(MediaKind.VIDEO, begin + time, (b"\x27" if time % 2000 else b"\x17") + b"\x01\0\0\0v")
        for time in range(0, seconds * 1000, 40)
    ]


def row_of_frames(folder: Path, frames: list[MediaFrame], before: bytes = b"") -> dict[str, Any]:
    path = folder / "live_a_20260203_040506.flv"
    data = frames_file(frames)
    path.write_bytes(data[:13] + before + data[13:])
    return row_of(age(path))


def test_keyframes_are_as_far_apart_as_they_are_where_time_goes_on(tmp_path: Path) -> None:
    """The encoder has begun again at 0, once or twice: that is no step."""
    for starts in ([0, 0], [4000, 0, 0]):
        frames = [frame for begin in starts for frame in pictures(begin, 20)]
        assert row_of_frames(tmp_path, frames)["keyframe_interval_ms"] == 2000
    assert row_of_frames(tmp_path, pictures(0, 2))["keyframe_interval_ms"] is None


def test_time_counts_from_the_first_frame_however_late_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beginning, "_MOST_TAGS", 100)
    monkeypatch.setattr(beginning, "_MOST_BYTES", 30_000)
    script = [MediaFrame(MediaKind.DATA, time, encode_metadata({"number": 1.0})) for time in range(1000)]
    ten_hours = 36_000_000
    for before in (frames_file(script)[13:], frames_file(script[:50])[13:] + bytes(50_000)):
        found_row = row_of_frames(tmp_path, pictures(ten_hours, 10), before)
        assert (found_row["first_timestamp_ms"], found_row["duration_ms"]) == (ten_hours, 9960)
        assert found_row["ended_at"] == datetime(2026, 2, 3, 4, 5, 15, 960_000, tzinfo=UTC)


def sounds(rate: int, header: bytes, begin: int) -> list[MediaFrame]:
    """A minute of AAC whose clock is right."""
    times = [begin + round(number * 1024_000 / rate) for number in range(60 * rate // 1024)]
    return [
        MediaFrame(MediaKind.AUDIO, begin, b"\xaf\x00" + header),
        *(MediaFrame(MediaKind.AUDIO, time, b"\xaf\x01aaaa") for time in times),
    ]


def test_sound_that_changes_for_a_while_does_not_drift(tmp_path: Path) -> None:
    """An advertisement has another sample rate."""
    cd, dat = (44_100, b"\x12\x10"), (48_000, b"\x11\x90")
    for kinds, drift in (([cd, cd, cd], pytest.approx(0, abs=100)), ([cd, dat, cd], None), ([cd, dat], None)):
        frames = [
            frame for number, kind in enumerate(kinds) for frame in sounds(*kind, begin=number * 60_000)
        ]
        assert row_of_frames(tmp_path, frames)["audio_drift_ms_per_hour"] == drift


def test_a_recording_starts_at_a_millisecond(tmp_path: Path) -> None:
    """What one answer says can be asked for in the next question, and answers have milliseconds."""
    metadata = encode_metadata(
        {"rtmprelay_app": "live", "rtmprelay_name": "a", "rtmprelay_started": 1.7e9 + 0.345678}
    )
    found_row = row_of_frames(tmp_path, [MediaFrame(MediaKind.DATA, 0, metadata), *groups(2)])
    assert found_row["started_at"] == datetime.fromtimestamp(1.7e9 + 0.345, UTC)
