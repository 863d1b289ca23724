"""A recording with several tracks is judged by its first one, and is one recording however it is cut."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtmprelay.media import MediaFrame, MediaKind
from tests.spark.media import frames_file

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.flv.sources import open_source
from spark_analytics.recordings.clips import _TagReader
from spark_analytics.recordings.discover import find_recordings
from spark_analytics.recordings.plan import cut
from spark_analytics.recordings.results import Reading
from spark_analytics.recordings.rows import unpacked
from spark_analytics.recordings.tasks import run_task
from tests.spark.test_parts import FRAME, check
from tests.spark.test_scanning import EXAMPLES

#: Two tracks that take turns, as (track, FourCC).
SAME = ((0, b"avc1"), (1, b"avc1"))
MIXED = ((0, b"avc1"), (1, b"hvc1"))


def video(time: int, track: int | None, fourcc: bytes = b"avc1", *, key: bool = False, packet: int = 1) -> MediaFrame:  # fmt: skip
    """A picture of one track; None is a payload that tells no tracks apart."""
    first = 0x80 | (0x10 if key else 0x20)
    head = bytes([first | packet]) + fourcc
    if track is not None:
        head = bytes([first | 6, packet]) + fourcc + bytes([track])
    return MediaFrame(MediaKind.VIDEO, time, head + b"\0\0\0" + b"picture" * 5)


def audio(time: int, track: int, fourcc: bytes = b"mp4a", packet: int = 1) -> MediaFrame:
    return MediaFrame(MediaKind.AUDIO, time, bytes([0x95, packet]) + fourcc + bytes([track]) + b"sound")


def both(time: int, *, key: bool = False) -> MediaFrame:
    """Two tracks in one payload."""
    tracks = b"".join(bytes([number]) + (8).to_bytes(3, "big") + b"\0\0\0abcde" for number in (0, 1))
    return MediaFrame(MediaKind.VIDEO, time, bytes([0x96 if key else 0xA6, 0x11]) + b"avc1" + tracks)


def pictures(tracks: tuple[tuple[int, bytes], ...], count: int = 250) -> list[MediaFrame]:
    """25 a second of each track, a keyframe every two seconds."""
    headers = [video(0, track, fourcc, key=True, packet=0) for track, fourcc in tracks]
    return headers + [
        video(40 * number, track, fourcc, key=number % 50 == 0)
        for number in range(count)
        for track, fourcc in tracks
    ]


@pytest.fixture
def row_of(tmp_path: Path) -> Callable[[list[MediaFrame]], dict[str, Any]]:
    """The row of `recordings` of a file with these frames."""

    def row(frames: list[MediaFrame]) -> dict[str, Any]:
        path = tmp_path / "live_tracks_20260101_120000.flv"
        path.write_bytes(frames_file(frames))
        (file,) = find_recordings([str(path)]).files.values()
        (lot,) = run_task(cut(file, 0, 1 << 30), Reading("run", datetime.now(UTC)))
        assert lot.recordings is not None
        (found,) = unpacked(lot.recordings).to_pylist()
        return dict(found)

    return row


@pytest.mark.parametrize(
    "tracks", [SAME, MIXED, SAME[::-1], MIXED[::-1], ((0, b"hvc1"), (3, b"av01"), (7, b"vp09"))]
)
def test_a_recording_is_what_its_first_track_is(
    tracks: tuple[tuple[int, bytes], ...], row_of: Callable[[list[MediaFrame]], dict[str, Any]]
) -> None:
    frames = pictures(tracks)
    row = row_of(frames)
    names = {b"avc1": "H.264 AVC", b"hvc1": "H.265 HEVC"}
    assert row["video_codec"] == names[dict(tracks)[0]]
    assert (row["fps"], row["dropped_frames"], row["keyframe_interval_ms"]) == (25.0, 0, 2000.0)
    assert (row["video_frames"], row["keyframes"], row["duration_ms"]) == (250, 5, 9960)
    # The bytes are what the recording really has.
    assert row["video_bytes"] == sum(len(frame.payload) for frame in frames[len(tracks) :])
    known = check(frames_file(frames), 30)
    assert not known.incidents
    assert [gop[4] for gop in known.keyframes] == [50] * 5


def test_a_freeze_of_the_first_track_is_one_even_if_the_second_goes_on() -> None:
    frames = [
        frame for frame in pictures(MIXED) if frame.payload[6] == 1 or not 3000 < frame.timestamp_ms < 6000
    ]
    known = check(frames_file(frames), 30)
    assert [(row[0], row[1], row[3]) for row in known.incidents] == [("freeze", 3000, 3000)]


def test_a_payload_without_tracks_is_the_first_track() -> None:
    """As encoders send it that add a second track to a stream that others must be able to play."""
    frames = [
        frame
        for number in range(100)
        for frame in (video(40 * number, None, key=number % 50 == 0), video(40 * number + 5, 1, b"hvc1"))
    ]
    known = check(frames_file(frames), 30)
    assert (known.facts["counts"]["video_frames"], known.facts["steps"][40]) == (100, 99)
    assert not known.incidents


def test_tracks_in_one_payload_are_one_picture() -> None:
    known = check(frames_file([both(40 * number, key=number % 50 == 0) for number in range(100)]), 30)
    assert (known.facts["counts"]["video_frames"], known.facts["steps"][40]) == (100, 99)
    assert not known.incidents


def test_a_codec_of_the_first_track_that_changes_is_told() -> None:
    frames = pictures(MIXED, 50) + [
        video(2000 + 40 * number, track, b"hvc1", key=not number) for number in range(50) for track in (0, 1)
    ]
    known = check(frames_file(frames), 30)
    assert [row[5] for row in known.incidents] == ["video: H.264 AVC -> H.265 HEVC"]


def test_sound_has_tracks_too() -> None:
    frames = [
        frame
        for time in range(0, 5000, 20)
        for frame in (audio(time + 3, 1, b"Opus"), audio(time, 0), video(time, None, key=time % 1000 == 0))
    ]
    known = check(frames_file(frames), 30)
    assert known.facts["counts"]["audio_frames"] == 250
    assert known.facts["audio_codecs"][1] == "AAC"
    assert not known.incidents


def test_a_recording_that_lacks_its_first_track_still_has_pictures(
    row_of: Callable[[list[MediaFrame]], dict[str, Any]],
) -> None:
    row = row_of(pictures(((1, b"hvc1"),)))
    assert (row["video_codec"], row["fps"], row["video_frames"]) == ("H.265 HEVC", 25.0, 250)
    check(frames_file(pictures(((1, b"hvc1"),))), 30)


_TIME = st.integers(0, 9000)
_TRACK = st.sampled_from([None, 0, 0, 1, 2])
_TRACKED = st.one_of(
    st.builds(
        video,
        _TIME,
        _TRACK,
        st.sampled_from([b"avc1", b"hvc1", b"abcd"]),
        key=st.booleans(),
        packet=st.sampled_from([0, 1, 1, 1, 3]),
    ),
    st.builds(
        audio, _TIME, st.integers(0, 2), st.sampled_from([b"mp4a", b"Opus"]), st.sampled_from([0, 1, 1])
    ),
    st.builds(both, _TIME, key=st.booleans()),
    FRAME,
)


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(st.lists(_TRACKED, max_size=40), st.data())
def test_any_tracks(frames: list[MediaFrame], data: st.DataObject) -> None:
    file = bytearray(frames_file(frames))
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(file)))
        file[at : at + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=20))
    check(bytes(file), data.draw(st.integers(2, 12)), data.draw(st.integers(0, 99)))


def test_a_clip_has_the_configuration_of_each_track(tmp_path: Path) -> None:
    path = tmp_path / "tracks.flv"
    path.write_bytes(frames_file(pictures(MIXED)))
    source = open_source(str(path), path.stat().st_size)
    headers = _TagReader(source).headers_before(source.size)
    assert [tag.frame for tag in headers.values()] == pictures(MIXED)[:2]
