"""The command `find`: the file and byte of a moment, and clips that play by themselves."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rtmprelay.flv.repair import inspect
from rtmprelay.flv.tags import describe_audio, describe_video
from rtmprelay.media import MediaFrame, MediaKind
from tests.spark.media import age, ffmpeg, frames_of, record

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.__main__ import main
from tests.spark.world import BEGIN, index

if TYPE_CHECKING:
    from spark_analytics.store.versions import Snapshot
from tests.spark.test_commands import Capture, ask


def at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat()


# -- find ----------------------------------------------------------------------------------------------------


def test_find_gives_file_and_byte(snapshot: Snapshot, capsys: Capture) -> None:
    assert ask(snapshot, "find", "live/film", "--at", at(4.9), "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["path"].endswith("_0002.flv")
    data = Path(found["path"]).read_bytes()
    offset = found["byte_offset"]
    assert data[offset] == MediaKind.VIDEO
    assert describe_video(data[offset + 11 :]).keyframe
    assert int.from_bytes(data[offset + 4 : offset + 7], "big") == found["timestamp_ms"] == 4800
    assert (found["seek_ms"], found["keyframe_at"], found["vanished"]) == (
        100,
        "2026-01-01T12:00:05.300Z",
        False,
    )


def test_find_says_what_there_is_instead(snapshot: Snapshot, capsys: Capture) -> None:
    assert ask(snapshot, "find", "live/film", "--at", "2026-02-01T12:00:00") == 1
    error = capsys.readouterr().err
    assert error.startswith(
        "No recording shows live/film at 2026-02-01T12:00:00Z; the last one before ends at 2026-01-01T12:00:09."
    )
    assert ask(snapshot, "find", "live/nobody", "--at", at(1)) == 1
    assert "There is no recording of live/nobody" in capsys.readouterr().err
    assert ask(snapshot, "find", "live/film", "--at", "tomorrow") == 1
    assert capsys.readouterr().err.startswith("tomorrow is no time: write 2026-01-01T12:34:56")


def coded(frames: list[MediaFrame]) -> list[tuple[MediaKind, bytes]]:
    return [
        (frame.kind, frame.payload)
        for frame in frames
        if (frame.kind is MediaKind.VIDEO and describe_video(frame.payload).coded)
        or (frame.kind is MediaKind.AUDIO and describe_audio(frame.payload).coded)
    ]


def decode(path: Path) -> str:
    """What ffmpeg complains about."""
    command = [ffmpeg(), "-v", "warning", "-i", str(path), "-f", "null", "-"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def test_a_clip_across_segments_plays_by_itself(
    snapshot: Snapshot, recordings: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "clip.flv"
    assert ask(snapshot, "find", "live/film", "--at", at(2.9), "--cut", str(out), "--seconds", "5") == 0
    assert "from 3 recordings" in capsys.readouterr().err
    frames = frames_of(out)
    got, everything = coded(frames), coded(frames_of(recordings / "holiday.flv"))
    begin = everything.index(got[0])
    assert describe_video(got[0][1]).keyframe
    pictures = [one for one in got if one[0] is MediaKind.VIDEO]
    assert pictures == [one for one in everything[begin:] if one[0] is MediaKind.VIDEO][: len(pictures)]
    sounds = [one for one in got if one[0] is MediaKind.AUDIO]
    first = everything.index(sounds[0])
    assert sounds == [one for one in everything[first:] if one[0] is MediaKind.AUDIO][: len(sounds)]
    # From the keyframe at 2.4 s up to 7.9 s, each 40 ms.
    assert len(pictures) == 138
    times = [frame.timestamp_ms for frame in frames]
    assert (times[0], times == sorted(times)) == (0, True)
    assert 5400 <= times[-1] < 5500
    assert inspect(out).is_fine
    assert decode(out) == ""


def test_a_clip_of_sound_alone(snapshot: Snapshot, tmp_path: Path) -> None:
    out = tmp_path / "clip.flv"
    assert (
        ask(
            snapshot, "find", "live/sound", "--at", "2026-01-01T13:00:01", "--cut", str(out), "--seconds", "2"
        )
        == 0
    )
    assert inspect(out).is_fine
    # Sound needs no keyframe: the clip begins at the moment itself.
    times = [frame.timestamp_ms for frame in frames_of(out) if frame.kind is MediaKind.AUDIO]
    assert times[1] < 50
    assert 1950 <= times[-1] < 2000
    assert decode(out) == ""


def test_of_several_copies_the_whole_one_is_cut(recordings: Path, tmp_path: Path, capsys: Capture) -> None:
    """And none that has been moved away since: the catalogue may not know that yet."""
    old, folder = tmp_path / "old", tmp_path / "rec"
    old.mkdir()
    segments = record(
        old, frames_of(recordings / "holiday.flv"), "live/copied", BEGIN.timestamp(), segment=3.0
    )
    for number, segment in enumerate(segments):
        torn = old / f"z{number}.flv"
        torn.write_bytes(segment.read_bytes()[: segment.stat().st_size // 2] + bytes(5000))
    for path in old.iterdir():
        age(path)
    index(old, tmp_path / "catalogue")
    old.rename(folder)
    snapshot = index(folder, tmp_path / "catalogue")
    rows = snapshot.arrow("recordings").to_pylist()
    assert {row["stream"] for row in rows} == {"copied"}
    assert len(rows) == 12
    assert all(row["vanished_at"] is None for row in rows)
    out = tmp_path / "clip.flv"
    capsys.readouterr()
    assert ask(snapshot, "find", "live/copied", "--at", at(2), "--cut", str(out), "--seconds", "6") == 0
    captured = capsys.readouterr()
    assert str(folder / segments[0].name) in captured.out
    assert "from 3 recordings" in captured.err
    times = [frame.timestamp_ms for frame in frames_of(out) if frame.kind is MediaKind.VIDEO]
    assert max(after - before for before, after in pairwise(times)) == 40, "no hole"
    # The operator says what became of the old place.
    assert main(["index", "--gone", str(old), "--out", str(snapshot.root)]) == 0
    assert "6 vanished" in capsys.readouterr().out


def test_a_clip_overwrites_nothing(snapshot: Snapshot, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "clip.flv"
    out.write_text("precious")
    assert ask(snapshot, "find", "live/film", "--at", at(1), "--cut", str(out)) == 1
    assert "is there already" in capsys.readouterr().err
    assert out.read_text() == "precious"
    assert ask(snapshot, "find", "live/film", "--at", at(1), "--cut", str(tmp_path / "no" / "such.flv")) == 1
    assert capsys.readouterr().err.endswith(
        f"such.flv cannot be written: there is no folder {tmp_path / 'no'}.\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["clip.flv"]


def test_a_clip_goes_on_in_another_broadcast(recordings: Path, tmp_path: Path, capsys: Capture) -> None:
    """The encoder came back after two seconds and began again at 0: the clock on the wall fills the hole."""
    folder = tmp_path / "rec"
    folder.mkdir()
    frames = frames_of(recordings / "holiday.flv")
    begin = datetime(2026, 5, 1, 10, tzinfo=UTC).timestamp()
    for start in (begin, begin + 11):
        for path in record(folder, frames, "live/again", start):
            age(path)
    snapshot = index(folder, tmp_path / "catalogue")
    out = tmp_path / "clip.flv"
    capsys.readouterr()
    assert (
        ask(
            snapshot, "find", "live/again", "--at", "2026-05-01T10:00:06", "--cut", str(out), "--seconds", "9"
        )
        == 0
    )
    times = [frame.timestamp_ms for frame in frames_of(out) if frame.kind is MediaKind.VIDEO]
    steps = [after - before for before, after in pairwise(times)]
    assert [step for step in steps if step > 40] == [2040]
    assert times == sorted(times)
    assert inspect(out).is_fine
    assert decode(out) == ""
