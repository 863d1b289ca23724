"""Clips: what a viewer sees where one recording ends and another goes on."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rtmprelay.flv.repair import inspect
from rtmprelay.media import MediaFrame, MediaKind
from tests.spark.media import age, frames_file, frames_of

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.__main__ import main
from tests.spark.world import index

if TYPE_CHECKING:
    pass

TEN = datetime(2026, 1, 3, 10, tzinfo=UTC)

SOUND_IS_LATE_MS = 300

#: A frame of a clip: who recorded it, what it shows, and when the clip shows it.
Shown = tuple[str, int, int]


def picture(server: str, milliseconds: int, is_keyframe: bool, timestamp_ms: int) -> MediaFrame:
    """A picture that says who recorded it, and what it shows."""
    head = bytes([0x17 if is_keyframe else 0x27, 1, 0, 0, 0])
    return MediaFrame(MediaKind.VIDEO, timestamp_ms, head + f"{server}{milliseconds:09d};".encode())


def sound(server: str, milliseconds: int, timestamp_ms: int) -> MediaFrame:
    return MediaFrame(MediaKind.AUDIO, timestamp_ms, b"\xaf\x01" + f"{server}{milliseconds:09d};".encode())


class Studio:
    """A broadcast that several servers record, and clips of it. Times are seconds since ten o'clock.

    Of several whole recordings of a moment, `find` takes the one that began last.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recordings = folder / "recordings"

    def record(
        self,
        server: str,
        begin: int,
        end: int,
        keyframe_every: float = 2,
        clock: int = 0,
        kinds: str = "V",
        wrong_at: int | None = None,
    ) -> None:
        """A server records from one second to another.

        Args:
            keyframe_every: Seconds between keyframes, the first of which is the first picture; 0 for none at all.
            clock: What its timestamps are ahead of those of the other servers, in milliseconds.
            kinds: V for pictures, A for sound, and both if it has them; then the sound comes late.
            wrong_at: At which second there is one more sound, which says that it is an hour later.
        """
        started = TEN + timedelta(seconds=begin)
        path = self._recordings / server / f"live_x_{started:%Y%m%d_%H%M%S}.flv"
        path.parent.mkdir(parents=True, exist_ok=True)
        step = round(keyframe_every * 1000)
        frames: list[tuple[int, MediaFrame]] = []
        for time in range(begin * 1000, end * 1000, 40):
            if "V" in kinds:
                is_keyframe = step > 0 and not (time - begin * 1000) % step
                frames.append((time, picture(server, time, is_keyframe, time + clock)))
            if "A" in kinds:
                frames.append((time + SOUND_IS_LATE_MS, sound(server, time, time + clock)))
        if wrong_at is not None:
            time = wrong_at * 1000
            frames.append((time, sound(server, time, time + clock + 3_600_000)))
        frames.sort(key=itemgetter(0))
        path.write_bytes(frames_file([frame for _, frame in frames]))
        age(path)

    def cut(self, at: float, seconds: float, kind: MediaKind | None = None) -> list[Shown]:
        """The frames of a clip, or those of one kind."""
        catalogue, out = self._folder / "catalogue", self._folder / f"clip of {kind}.flv"
        index(self._recordings, catalogue)
        moment = (TEN + timedelta(seconds=at)).isoformat()
        arguments = ["find", "live/x", "--at", moment, "--cut", str(out), "--seconds", str(seconds)]
        assert main([*arguments, "--catalogue", str(catalogue)]) == 0
        assert inspect(out).is_fine
        found = []
        for frame in frames_of(out):
            marked = re.search(rb"([A-Z])(\d{9});", frame.payload)
            if marked is not None and kind in (None, frame.kind):
                found.append((marked[1].decode(), int(marked[2]), frame.timestamp_ms))
        return found


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path)


def assert_seamless(clip: list[Shown], begin: int, end: int, step: int = 40) -> None:
    """Everything from one second to another is shown once, when it should be."""
    assert [shown for _, shown, _ in clip] == list(range(begin * 1000, end * 1000, step))
    assert [at for _, _, at in clip] == list(range(0, (end - begin) * 1000, step))


def servers(clip: list[Shown]) -> list[tuple[str, int]]:
    """Who recorded what is shown, and from when on."""
    changes = [after[:2] for before, after in pairwise(clip) if before[0] != after[0]]
    return [clip[0][:2], *changes]


def test_another_server_goes_on_where_one_ended(studio: Studio) -> None:
    """Both recorded the broadcast; the second one begins at its keyframe there, and not at its first one."""
    studio.record("A", 0, 20)
    studio.record("B", 2, 25)
    clip = studio.cut(1, 23)
    assert_seamless(clip, 0, 24)
    assert servers(clip) == [("A", 0), ("B", 20_000)]


def test_one_server_ends_where_the_next_has_a_keyframe(studio: Studio) -> None:
    """Without a keyframe right behind the end, the last one before it is where to change: no picture is missing."""
    studio.record("A", 0, 19)
    studio.record("B", 2, 25)
    clip = studio.cut(1, 23)
    assert_seamless(clip, 0, 24)
    assert servers(clip) == [("A", 0), ("B", 18_000)]


def test_servers_whose_timestamps_differ(studio: Studio) -> None:
    studio.record("A", 0, 19)
    studio.record("B", 2, 25, clock=7_000_000)
    clip = studio.cut(1, 23)
    assert_seamless(clip, 0, 24)
    assert servers(clip) == [("A", 0), ("B", 18_000)]


def test_a_server_that_began_before_goes_on_too(studio: Studio) -> None:
    studio.record("B", 0, 25)
    studio.record("A", 2, 19)
    clip = studio.cut(10, 14)
    assert_seamless(clip, 10, 24)
    assert servers(clip) == [("A", 10_000), ("B", 18_000)]


def test_segments_of_one_server_go_before_those_of_another(studio: Studio) -> None:
    for begin in (0, 10, 20):
        studio.record("A", begin, begin + 10)
        studio.record("B", begin + 5, begin + 15)
    clip = studio.cut(3, 25)
    assert_seamless(clip, 2, 28)
    assert servers(clip) == [("A", 2000)]


def test_a_clip_that_one_server_has_is_from_one(studio: Studio, capsys: pytest.CaptureFixture[str]) -> None:
    studio.record("A", 0, 20)
    studio.record("B", 2, 25)
    assert_seamless(studio.cut(1, 9), 0, 10)
    assert "from one recording" in capsys.readouterr().err


def test_who_may_read_other_files_may_read_a_clip(studio: Studio, tmp_path: Path) -> None:
    studio.record("A", 0, 2)
    studio.cut(0, 1)
    (clip,) = tmp_path.glob("*.flv")
    usual = tmp_path / "usual"
    usual.touch()
    assert clip.stat().st_mode == usual.stat().st_mode


def test_a_server_without_a_keyframe_in_reach_begins_at_the_next(studio: Studio) -> None:
    """What came before the clip cannot be shown, so there is a hole up to its next keyframe."""
    studio.record("A", 2, 19)
    studio.record("B", 1, 40, keyframe_every=20)
    clip = studio.cut(10, 20)
    assert servers(clip) == [("A", 10_000), ("B", 21_000)]
    assert [at for _, _, at in clip] == [shown - 10_000 for _, shown, _ in clip]
    assert clip[-1][1] == 29_960


def test_a_server_whose_next_keyframe_is_far_away_is_left_out(studio: Studio) -> None:
    studio.record("A", 2, 19)
    studio.record("B", 0, 90, keyframe_every=40)
    assert_seamless(studio.cut(10, 60), 10, 19)


def test_sound_goes_on_where_it_ended(studio: Studio) -> None:
    """Without pictures any frame will do."""
    studio.record("A", 2, 19, kinds="A")
    studio.record("B", 0, 25, kinds="A", clock=7_000_000)
    clip = studio.cut(10, 14)
    assert_seamless(clip, 10, 24)
    assert servers(clip) == [("A", 10_000), ("B", 19_000)]


def test_no_sound_is_lost_where_the_server_changes(studio: Studio) -> None:
    studio.record("A", 0, 19, kinds="VA")
    studio.record("B", 2, 25, kinds="VA", clock=7_000_000)
    for kind in (MediaKind.VIDEO, MediaKind.AUDIO):
        clip = studio.cut(1, 23, kind)
        assert_seamless(clip, 0, 24)
        assert servers(clip) == [("A", 0), ("B", 18_000)]


def test_pictures_without_a_keyframe_begin_at_the_moment(studio: Studio) -> None:
    """Nothing can be decoded from its beginning; it is what was asked for all the same."""
    studio.record("A", 0, 30, keyframe_every=0)
    assert_seamless(studio.cut(10, 5), 10, 15)


def test_one_wrong_timestamp_does_not_end_a_clip(studio: Studio) -> None:
    """It goes on behind it; and what is behind it is found, although the timestamps seem to have a gap there."""
    studio.record("A", 0, 30, kinds="VA", wrong_at=12)
    assert_seamless(studio.cut(4, 16, MediaKind.VIDEO), 4, 20)
    assert_seamless(studio.cut(14, 4, MediaKind.AUDIO), 14, 18)
