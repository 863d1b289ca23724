"""What strangers may cost in disk: it never gets full, attempts leave nothing, and junk pushes out only its own kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rtmprelay.config.options import Options
from rtmprelay.errors import ConfigError
from rtmprelay.events import RecordingDeleted, RecordingFailed, RecordingFinished
from rtmprelay.files.disk import create_file
from rtmprelay.files.free_space import DEFAULT_KEEP_FREE, FreeSpace, KeepFree, read_keep_free
from rtmprelay.recording.retention import delete_old
from tests.helpers import group
from tests.recording.helpers import HEADERS, RecordingHarness, groups

GIB = 1024**3


# -- recordings without a second of media --------------------------------------------------------------------


def test_recording_without_a_second_of_media_is_deleted() -> None:
    harness = RecordingHarness(shortest=1.0)
    harness.publish()
    harness.send(*HEADERS, *group(0, pictures=2))
    harness.end()
    assert all(file.is_deleted() for file in harness.disk.files.values())
    (finished,), (deleted,) = harness.of(RecordingFinished), harness.of(RecordingDeleted)
    assert finished.path == deleted.path
    assert deleted.reason == "it has less than 1 s of media"


def test_recording_of_a_second_and_the_short_last_segment_of_a_longer_one_stay() -> None:
    harness = RecordingHarness(shortest=1.0)
    harness.publish()
    harness.send(*HEADERS, *groups(6))
    harness.end()
    assert not harness.of(RecordingDeleted)
    harness = RecordingHarness(shortest=1.0, segment_duration=1.0)
    harness.publish()
    harness.send(*HEADERS, *groups(6))
    harness.end()
    assert len(harness.of(RecordingFinished)) == 2
    assert not harness.of(RecordingDeleted)


def test_command_line_deletes_recordings_without_a_second_of_media(tmp_path: Path) -> None:
    options = Options()
    options.parseOptions(["--record-all", "--record-dir", str(tmp_path), "--open"])
    recording = options["config"].recording
    assert (recording.shortest, recording.keep_free) == (1.0, DEFAULT_KEEP_FREE)


# -- free space ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size", "kept"),
    [
        ("5%", 100 * GIB, 5 * GIB),
        ("10G", 100 * GIB, 10 * GIB),
        ("0", 100 * GIB, 0),
        ("0.5%", 1000 * GIB, 5 * GIB),
    ],
)
def test_share_or_size_is_kept_free(text: str, size: int, kept: int) -> None:
    assert read_keep_free(text).of(size) == kept


def test_default_is_a_twentieth_of_a_small_disk_and_a_gibibyte_of_a_large_one() -> None:
    assert DEFAULT_KEEP_FREE.of(10 * GIB) == GIB // 2
    assert DEFAULT_KEEP_FREE.of(10_000 * GIB) == GIB


@pytest.mark.parametrize("text", ["", "5", "100%", "-1%", "x%", "many"])
def test_wrong_share_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_keep_free(text)


def test_disk_is_looked_at_once_a_second() -> None:
    now, looks, free = 0.0, 0, 2 * GIB

    def usage(_: Path) -> tuple[int, int]:
        nonlocal looks
        looks += 1
        return 100 * GIB, free

    space = FreeSpace(Path("x"), KeepFree(bytes=GIB), lambda: now, usage)
    for _ in range(10):
        space.check()
    free = GIB - 1
    space.check()
    assert looks == 1
    now = 1.0
    with pytest.raises(OSError, match="keep-free"):
        space.check()
    free, now = 3 * GIB, 2.0
    space.check()


def test_recording_stops_before_the_disk_is_full_and_goes_on_when_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = 10 * GIB
    monkeypatch.setattr("rtmprelay.files.free_space._usage", lambda _: (100 * GIB, free))
    harness = RecordingHarness(keep_free=KeepFree(5.0))
    harness.publish()
    harness.send(*HEADERS, *group(0))
    free = 4 * GIB
    harness.clock.advance(1)
    harness.send(*group(1_000))
    (failed,) = harness.of(RecordingFailed)
    assert failed.error == "ENOSPC"
    assert "--keep-free" in failed.reason
    written = len(harness.disk.files)
    free = 10 * GIB
    harness.clock.advance(40)
    harness.send(*group(41_000))
    assert len(harness.disk.files) == written + 1
    harness.end()


# -- who is pushed out ---------------------------------------------------------------------------------------


def recording(folder: Path, app: str, number: int, size: int, age: float) -> Path:
    path = folder / f"{app}_show{number}_20260101_{number:06d}.flv"
    path.write_bytes(bytes(size))
    os.utime(path, (1e6 - age, 1e6 - age))
    return path


def test_junk_in_one_app_does_not_push_out_good_recordings_of_another(tmp_path: Path) -> None:
    good = [recording(tmp_path, "studio", number, 100, 5_000 - number) for number in range(3)]
    junk = [recording(tmp_path, "public", 100 + number, 50, 50 - number) for number in range(40)]
    deleted = delete_old(tmp_path, set(), 1e6, None, 1_000)
    assert all(path.exists() for path in good)
    assert {file.path for file in deleted} <= set(junk)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1_000
    assert not junk[0].exists(), "the oldest of them goes first"


def test_app_with_a_quota_keeps_to_it_and_others_do_not_notice(tmp_path: Path) -> None:
    others = [recording(tmp_path, "studio", number, 100, 5_000) for number in range(5)]
    own = [recording(tmp_path, "public", 100 + number, 100, 500 - number) for number in range(5)]
    deleted = delete_old(tmp_path, set(), 1e6, None, None, app_quotas={"public": 250})
    assert [file.path for file in deleted] == own[:3]
    assert deleted[0].reason == "the app 'public' has too many bytes"
    assert all(path.exists() for path in others)


def test_files_that_are_being_written_count_and_stay(tmp_path: Path) -> None:
    active = recording(tmp_path, "public", 1, 900, 10)
    other = recording(tmp_path, "studio", 2, 200, 5)
    delete_old(tmp_path, {active}, 1e6, None, 1_000)
    assert active.exists()
    assert not other.exists()


def test_quota_on_the_command_line_is_an_app_and_a_size() -> None:
    options = Options()
    options.parseOptions(["--record-all", "--open", "--app-quota", "live=50G", "--app-quota", "a=b=1M"])
    assert options["config"].recording.app_quotas == {"live": 50 * GIB, "a=b": 1024**2}
    for wrong in ("live", "live=", "live=x", "=50"):
        with pytest.raises(SystemExit, match="--app-quota"):
            Options().parseOptions(["--app-quota", wrong])


def test_files_are_readable_for_owner_and_group_only(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        file = create_file(tmp_path, ["x.flv"])
    finally:
        os.umask(before)
    file.close()
    assert (tmp_path / "x.flv").stat().st_mode & 0o777 == 0o640
