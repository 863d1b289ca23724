"""Files on a real disk: names, retention, and a disk with a limit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rtmprelay.flv.names import parse_recording_name
from rtmprelay.recording.flv_files import create_recording
from rtmprelay.recording.retention import delete_old

NOW = 1_794_805_557.6


def make(folder: Path, key: str = "live/test", segment: int | None = None) -> Path:
    file = create_recording(folder, key, NOW, segment)
    file.close()
    return file.path


def test_a_name_that_is_taken_gets_the_next_number(tmp_path: Path) -> None:
    names = [make(tmp_path).name for _ in range(3)]
    assert names == [f"live_test_20261116_050557{copy}.flv" for copy in ("", "-2", "-3")]
    assert make(tmp_path, segment=2).name == "live_test_20261116_050557_0002.flv"


@pytest.mark.parametrize(
    "key",
    [
        "../../../tmp/x",
        "/etc/passwd",
        "a\0b/c",
        "x" * 4096,
        "ü" * 4096 + "/" + "ü" * 4096,
        "CON",
        "NUL.txt/x",
        "..",
        "a/..",
    ],
)
def test_the_file_of_any_stream_is_in_the_folder(tmp_path: Path, key: str) -> None:
    folder = tmp_path / "recordings"
    path = make(folder, key)
    assert path.parent == folder
    assert path.is_file()
    assert os.listdir(tmp_path) == ["recordings"]
    assert parse_recording_name(path.name) is not None


def test_a_folder_that_is_gone_is_created_again_but_not_its_parent(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make(tmp_path / "disk" / "recordings")
    (tmp_path / "disk").mkdir()
    assert make(tmp_path / "disk" / "recordings").exists()


# -- retention -----------------------------------------------------------------------------------------------


def old(folder: Path, day: int, size: int = 100) -> Path:
    path = folder / f"live_test_202611{day:02d}_120000.flv"
    path.write_bytes(bytes(size))
    os.utime(path, (day * 86400, day * 86400))
    return path


def remaining(folder: Path) -> set[str]:
    return set(os.listdir(folder))


def test_recordings_that_are_too_old_are_deleted(tmp_path: Path) -> None:
    paths = [old(tmp_path, day) for day in range(1, 6)]
    deleted = delete_old(tmp_path, set(), 8 * 86400, 4.5 * 86400, None)
    assert [(one.path, one.bytes, one.reason) for one in deleted] == [
        (path, 100, "too old") for path in paths[:3]
    ]
    assert remaining(tmp_path) == {path.name for path in paths[3:]}


def test_the_oldest_recordings_are_deleted_until_the_rest_fits(tmp_path: Path) -> None:
    paths = [old(tmp_path, day) for day in (3, 1, 2, 5, 4)]
    delete_old(tmp_path, set(), 0, None, 250)
    assert remaining(tmp_path) == {paths[3].name, paths[4].name}


def test_files_that_are_being_written_count_and_are_never_deleted(tmp_path: Path) -> None:
    active, *others = [old(tmp_path, day) for day in range(1, 6)]
    delete_old(tmp_path, {active}, 100 * 86400, 1.0, None)
    assert remaining(tmp_path) == {active.name}
    others = [old(tmp_path, day) for day in range(2, 6)]
    delete_old(tmp_path, {active}, 0, None, 200)
    assert remaining(tmp_path) == {active.name, others[-1].name}


def test_files_that_are_no_recordings_are_left_alone(tmp_path: Path) -> None:
    strangers = ["notes.txt", "film.flv", "live_test.flv", ".repair-x.tmp", "live_test_20261101_120000.mp4"]
    for name in strangers:
        (tmp_path / name).write_bytes(bytes(1000))
    (tmp_path / "live_test_20261101_120000.flv").mkdir()
    target = old(tmp_path.parent, 1)
    (tmp_path / "live_link_20261101_120000.flv").symlink_to(target)
    before = remaining(tmp_path)
    assert delete_old(tmp_path, set(), 1e12, 1.0, 1) == []
    assert remaining(tmp_path) == before
    assert delete_old(tmp_path / "absent", set(), 1e12, 1.0, 1) == []


def test_a_file_that_cannot_be_deleted_is_skipped(tmp_path: Path) -> None:
    old(tmp_path, 1)

    def refuse(path: Path) -> None:
        raise PermissionError(path)

    refusing: Callable[[Path], None] = refuse
    assert delete_old(tmp_path, set(), 1e12, 1.0, None, refusing) == []


# -- a disk with a limit -------------------------------------------------------------------------------------

LIMITED = """
import resource, sys
from pathlib import Path
from twisted.internet.task import Clock
from rtmprelay.event_bus import EventBus
from rtmprelay.recording.manager import RecordingManager
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.streams.registry import StreamRegistry
from tests.helpers import group, start_frames
from tests.streams.helpers import FakePublisher, KeepingSubscriber

resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
clock, registry, publisher, player = Clock(), StreamRegistry(), FakePublisher(), KeepingSubscriber()
settings = RecordingSettings(record_all=True, folder=Path(sys.argv[1]))
manager = RecordingManager(settings, registry, EventBus(), clock, None, wall_clock=clock.seconds)
manager.start()
stream = registry.publish("live/test", publisher, 0.0)
stream.subscribe(player)
stream.publish_frames(start_frames(), 0.0)
sent = 3
for number in range(100):
    frames = group(200 * number, size=2000)
    stream.publish_frames(frames, clock.seconds())
    sent += len(frames)
    manager.writer.work()
    clock.advance(0.2)
(status,) = manager.statuses()
assert len(player.frames) == sent == status.messages_in
assert set(status.dropped_by_reason) == {"EFBIG"}, status
registry.unpublish(stream, publisher, True)
manager.writer.work()
"""


def test_files_that_may_not_grow_are_whole_up_to_the_limit(tmp_path: Path) -> None:
    """A size limit of the process: the system takes a part of a write, then refuses. The live stream loses nothing."""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], check=True, cwd=root, timeout=60)
    files = sorted(tmp_path.iterdir())
    assert len(files) > 2
    assert max(path.stat().st_size for path in files) > 290_000
    command = [sys.executable, "-m", "rtmprelay.flv", "check", *map(str, files)]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
