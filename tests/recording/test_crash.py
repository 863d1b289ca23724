"""kill -9 and SIGTERM: what is left on the disk."""

from __future__ import annotations

import math
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rtmprelay.flv.__main__ import main
from rtmprelay.flv.container import read_tags
from rtmprelay.flv.repair import inspect, repair
from rtmprelay.flv.scan import DamageKind
from rtmprelay.media import MediaFrame, MediaKind
from tests.helpers import DEADLINE, wait_for
from tests.recording.crashing_server import frames_of_round, planned_kills, source_frames
from tests.recording.test_ffmpeg import complaints, first_time_after_seek, keyframe_times
from tests.rounds import rounds
from tests.service.command import Server
from tests.service.interop import H264_AAC, FFmpeg
from tests.service.test_interop import PICTURE, TONE

ROOT = Path(__file__).parents[2]
KILLS = rounds(6, full=50)
SEED = 7

#: Bytes before the first frame of a file: metadata with room for its index, and decoder configurations.
BEFORE_FRAMES = 72_000


def coded(frames: list[MediaFrame]) -> list[MediaFrame]:
    """The frames without metadata and decoder configuration, which each file repeats."""
    return [frame for frame in frames if frame.kind is not MediaKind.DATA and frame.payload[1:2] != b"\0"]


def frames_of(path: Path) -> list[MediaFrame]:
    with path.open("rb") as file:
        return [frame for tag in read_tags(file) if (frame := tag.to_frame()) is not None]


def assert_good_up_to_its_last_tag(path: Path) -> bool:
    """Nothing but the end can be missing; whether it was complete."""
    found = inspect(path)
    assert len(found.losses) <= 1, path
    for loss in found.losses:
        assert loss.damage.kind is DamageKind.TORN_TAIL
        assert loss.damage.end == found.size
    with path.open("rb") as file:
        tags = list(read_tags(file))
    assert len(tags) == found.tags
    assert (tags[-1].end if tags else 13) == found.size - found.lost_bytes
    return found.is_fine


@pytest.mark.fewer_rounds
def test_servers_killed_at_any_moment_leave_files_that_can_be_repaired(
    ffmpeg: FFmpeg, tmp_path: Path
) -> None:
    """Kills real servers: every file is good up to its last tag, holds what was sent, and can be repaired."""
    source = ffmpeg.make("crash.flv", f"{PICTURE} {TONE} -t 4 {H264_AAC}")
    command = [sys.executable, "-m", "tests.recording.crashing_server"]
    subprocess.run(
        [*command, str(source), str(tmp_path), str(KILLS), str(SEED)], cwd=ROOT, check=True, timeout=300
    )
    sent = coded([frame for number in range(40) for frame in frames_of_round(source_frames(source), number)])
    complete, unfinished = 0, []
    for folder, kill in zip(sorted(tmp_path.iterdir()), planned_kills(KILLS, SEED), strict=True):
        of_files: list[list[MediaFrame]] = []
        for path in folder.iterdir():
            if not path.stat().st_size:
                # Killed between making the file and its first write.
                path.unlink()
                continue
            if assert_good_up_to_its_last_tag(path):
                complete += 1
            else:
                unfinished.append(path)
            of_files.append(coded(frames_of(path)))
        # By what is in them: two of them may have been written last at the same time.
        of_files.sort(key=lambda frames: frames[0].timestamp_ms if frames else math.inf)
        recorded = [frame for frames in of_files for frame in frames]
        assert recorded or kill.recorded < BEFORE_FRAMES, folder
        assert recorded == sent[: len(recorded)], folder
    assert len(unfinished) >= KILLS // 2
    assert complete
    for path in unfinished[::10]:
        assert_plays(ffmpeg, path)
    for path in unfinished:
        before = coded(frames_of(path))
        repair(path)
        assert inspect(path).is_fine
        assert coded(frames_of(path)) == before
    for path in unfinished[::10]:
        assert_plays(ffmpeg, path)
        assert complaints(ffmpeg, path) == ""


def assert_plays(ffmpeg: FFmpeg, path: Path) -> None:
    """A player reads all of it, and goes to any keyframe."""
    frames = [frame for frame in coded(frames_of(path)) if frame.payload[1:2] == b"\x01"]
    packets = ffmpeg.hash_of(path).packets
    # Of a frame that the kill tore apart, ffmpeg gives the piece that is there.
    assert len(frames) <= len(packets) <= len(frames) + len(inspect(path).losses)
    times = keyframe_times(path)
    for time_in_file in times[1::20]:
        begin = times[0]
        assert first_time_after_seek(ffmpeg, path, time_in_file - begin + 0.5) == time_in_file


def test_a_frame_that_is_torn_apart_does_not_hinder_a_player(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    source = ffmpeg.make("crash.flv", f"{PICTURE} {TONE} -t 4 {H264_AAC}")
    with source.open("rb") as file:
        *_, last, _ = (tag for tag in read_tags(file) if len(tag.payload) > 100)
    torn = tmp_path / "torn.flv"
    torn.write_bytes(source.read_bytes()[: last.offset + 60])
    assert not assert_good_up_to_its_last_tag(torn)
    assert_plays(ffmpeg, torn)


def publisher(ffmpeg: FFmpeg, source: Path, port: int) -> subprocess.Popen[bytes]:
    command = [ffmpeg.program, "-v", "quiet", "-readrate", "1", "-i", str(source), "-c", "copy", "-f", "flv"]
    return subprocess.Popen([*command, f"rtmp://127.0.0.1:{port}/live/show"], stdin=subprocess.DEVNULL)


def recorded_ms(path: Path) -> int:
    """The last timestamp in a file so far."""
    with path.open("rb") as file:
        return max((tag.timestamp_ms for tag in read_tags(file)), default=0)


def stop_while_recording(ffmpeg: FFmpeg, folder: Path, number: int) -> Path:
    """Run the command, let it record, and send it a signal; the file that it leaves."""
    source = ffmpeg.make("crash.flv", f"{PICTURE} {TONE} -t 4 {H264_AAC}")
    server = Server(folder, "--record-all", "--record-dir", "taken")
    encoder = publisher(ffmpeg, source, server.port())
    try:
        taken = folder / "taken"
        # A recording of less than a second would be deleted.
        wait_for(
            lambda: taken.exists() and any(recorded_ms(path) > 1500 for path in taken.iterdir()), "a file"
        )
        assert server.stop(number)
    finally:
        encoder.kill()
        encoder.wait(DEADLINE)
    (path,) = taken.iterdir()
    return path


def test_command_completes_its_recordings_on_sigterm(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path = stop_while_recording(ffmpeg, tmp_path, signal.SIGTERM)
    assert main(["check", str(path)]) == 0
    assert complaints(ffmpeg, path) == ""
    assert "finished: the server stops" in (tmp_path / "out.log").read_text()


def test_file_of_a_killed_command_can_be_repaired(ffmpeg: FFmpeg, tmp_path: Path) -> None:
    path = stop_while_recording(ffmpeg, tmp_path, signal.SIGKILL)
    assert main(["check", str(path)]) == 1
    assert_good_up_to_its_last_tag(path)
    copy = shutil.copy(path, tmp_path / "copy.flv")
    assert main(["repair", str(copy)]) == 0
    assert main(["check", str(copy)]) == 0
    assert complaints(ffmpeg, Path(copy)) == ""
