"""Real encoders and players: what was published is what is in the file, and players find their way in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtmprelay.events import Event, RecordingFailed, RecordingFinished, RecordingStarted
from rtmprelay.flv.__main__ import main
from rtmprelay.flv.container import read_tags
from rtmprelay.flv.script import decode_metadata
from rtmprelay.flv.tags import describe_video
from rtmprelay.media import MediaKind
from rtmprelay.quantities import MEBIBYTE
from tests.helpers import DEADLINE, real_reactor_test
from tests.recording.conftest import StartRelay
from tests.service.harness import Relay
from tests.service.interop import H264_AAC, Capture, FFmpeg, assert_same_from_a_keyframe_on, in_background
from tests.service.test_interop import PICTURE, TONE

#: What is published, and how it is made. The size is one that macroblocks do not fill.
SMALL = "-f lavfi -i testsrc=size=318x238:rate=25"
MEDIA = {
    "h264_aac_b_frames": f"{SMALL} {TONE} -t 6 {H264_AAC}",
    "audio_only": f"{TONE} -t 6 -c:a aac",
    "mp3_only": f"{TONE} -t 6 -ar 44100 -c:a libmp3lame",
    "video_only": f"{SMALL} -t 6 -c:v libx264 -g 25 -pix_fmt yuv420p",
    "hevc": f"{PICTURE} {TONE} -t 6 -c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=25 -c:a aac",
    "av1": f"{PICTURE} {TONE} -t 4 -c:v libaom-av1 -cpu-used 8 -g 25 -c:a aac",
}


def recordings(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def complaints(ffmpeg: FFmpeg, path: Path) -> str:
    """The errors that ffmpeg finds in a file."""
    command = [ffmpeg.program, "-v", "warning", "-i", str(path), "-f", "null", "-"]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True).stderr


def keyframe_times(path: Path) -> list[float]:
    """When the keyframes of a file come, in seconds."""
    with path.open("rb") as file:
        frames = [frame for tag in read_tags(file) if (frame := tag.to_frame()) is not None]
    return [
        frame.timestamp_ms / 1000
        for frame in frames
        if frame.kind is MediaKind.VIDEO and describe_video(frame.payload).keyframe
    ]


def first_time_after_seek(ffmpeg: FFmpeg, path: Path, seconds: float) -> float:
    """The time at which a player is after a seek."""
    command = [ffmpeg.program, "-v", "error", "-ss", str(seconds), "-noaccurate_seek", "-i", str(path)]
    command += ["-copyts", "-c", "copy", "-map", "0:v", "-frames:v", "1", "-f", "framehash", "-"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True)
    time_base = next(line for line in result.stdout.splitlines() if line.startswith("#tb"))
    numerator, denominator = map(int, time_base.split(": ")[1].split("/"))
    packet = next(line for line in result.stdout.splitlines() if line.startswith("0,"))
    return int(packet.split(",")[1]) * numerator / denominator


async def record(
    ffmpeg: FFmpeg, relay: Relay, source: Path, key: str = "live/test", speed: float = 20.0
) -> None:
    """Publish a file, and wait for its recording to be complete."""
    before = count(relay, RecordingFinished)
    await ffmpeg.publish(source, relay.url(key), speed)

    def is_complete() -> bool:
        # A recording may have several files, and the thread may not have begun the last one when the stream has gone.
        complete = count(relay, RecordingFinished)
        return (
            relay.service.registry.get(key) is None
            and len(relay.service.recordings) == 0
            and complete > before
            and complete == count(relay, RecordingStarted)
        )

    await relay.until(is_complete)


def count(relay: Relay, kind: type[Event]) -> int:
    return sum(isinstance(event, kind) for event in relay.events)


@pytest.mark.parametrize("name", MEDIA)
@real_reactor_test
async def test_recorded_stream_is_the_published_one(
    name: str, ffmpeg: FFmpeg, recording_relay: StartRelay, folder: Path
) -> None:
    """Every packet, in order, with its time; and neither ffmpeg nor `check` has a complaint."""
    source = ffmpeg.make(f"recorded_{name}.flv", MEDIA[name])
    await record(ffmpeg, recording_relay(), source)
    (path,) = recordings(folder)
    assert path.name.startswith("live_test_")
    recorded, published = ffmpeg.hash_of(path), ffmpeg.hash_of(source)
    assert recorded == published
    assert complaints(ffmpeg, path) == ""
    assert main(["check", str(path)]) == 0
    with path.open("rb") as file:
        values = decode_metadata(next(read_tags(file)).payload)
    assert values is not None
    assert values["filesize"] == path.stat().st_size
    if recorded.of("video"):
        assert (values["width"], values["height"]) in {(320.0, 240.0), (318.0, 238.0)}
        times = keyframe_times(path)
        assert len(times) >= 4
        assert [first_time_after_seek(ffmpeg, path, time + 0.5) for time in times] == times


@real_reactor_test
async def test_joined_segments_are_the_published_stream(
    ffmpeg: FFmpeg, recording_relay: StartRelay, folder: Path
) -> None:
    """Each segment plays alone; joined they are the stream."""
    source = ffmpeg.make("segmented.flv", f"{PICTURE} {TONE} -t 8 {H264_AAC}")
    relay = recording_relay(segment_duration=2.0)
    await record(ffmpeg, relay, source)
    paths = recordings(folder)
    assert [path.stem[-5:] for path in paths] == ["_0001", "_0002", "_0003", "_0004"]
    parts: list[Capture] = []
    for number, path in enumerate(paths):
        assert complaints(ffmpeg, path) == ""
        # A place in a file counts from its start; the times in it go on from file to file.
        assert keyframe_times(path) == [2.0 * number, 2.0 * number + 1]
        assert first_time_after_seek(ffmpeg, path, 1.5) == 2.0 * number + 1
        parts.append(ffmpeg.hash_of(path))
    published = ffmpeg.hash_of(source)
    for kind in ("video", "audio"):
        joined = [packet.digest for part in parts for packet in part.of(kind)]
        assert joined == [packet.digest for packet in published.of(kind)]
    assert main(["check", *map(str, paths)]) == 0


@real_reactor_test
async def test_two_publishes_of_one_stream_are_two_whole_files(
    ffmpeg: FFmpeg, recording_relay: StartRelay, folder: Path
) -> None:
    source = ffmpeg.make("brief.flv", f"{TONE} -t 1 -c:a aac")
    relay = recording_relay()
    for _ in range(2):
        await record(ffmpeg, relay, source)
    paths = recordings(folder)
    assert len(paths) == 2
    assert ffmpeg.hash_of(paths[0]) == ffmpeg.hash_of(paths[1]) == ffmpeg.hash_of(source)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    if shutil.which("mount") is None:
        pytest.skip("there is no mount here")
    mounted = tmp_path / "tiny"
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mounted)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount")
    yield mounted
    subprocess.run(["umount", "-l", str(mounted)], check=True)


@real_reactor_test
async def test_full_disk_costs_the_player_no_packet(
    ffmpeg: FFmpeg, recording_relay: StartRelay, tiny_disk: Path
) -> None:
    """The player gets every packet; the recording ends whole, and goes on when there is room again."""
    source = ffmpeg.make(
        "filling.flv",
        f"-f lavfi -i testsrc2=size=640x360:rate=25,noise=alls=60:all_seed=3 {TONE} -t 8"
        " -c:v libx264 -preset ultrafast -b:v 4M -g 25 -pix_fmt yuv420p -c:a aac",
    )
    assert source.stat().st_size > 2 * MEBIBYTE
    relay = recording_relay(folder=tiny_disk, retry_after=0.2, longest_retry=0.2)
    publishing = in_background(ffmpeg.publish(source, relay.url("live/full"), speed=2.0))
    await relay.until_live("live/full")
    playing = in_background(ffmpeg.play(relay.url("live/full")))
    await relay.until(lambda: any(isinstance(event, RecordingFailed) for event in relay.events))
    (status,) = relay.service.recordings.statuses()
    assert status.last_error is not None
    assert status.last_error.startswith("ENOSPC: ")
    (first,) = recordings(tiny_disk)
    assert complaints(ffmpeg, first) == ""
    assert main(["check", str(first)]) == 0
    first.unlink()
    await publishing
    played = await playing
    assert isinstance(played, Capture)
    assert_same_from_a_keyframe_on(played, ffmpeg.hash_of(source))
    await relay.until(lambda: not relay.service.recordings.statuses() and count(relay, RecordingFinished) > 1)
    again = recordings(tiny_disk)
    assert again
    assert main(["check", *map(str, again)]) == 0
    assert complaints(ffmpeg, again[0]) == ""
    failures = [event for event in relay.events if isinstance(event, RecordingFailed)]
    assert [failure.error for failure in failures] == ["ENOSPC"]


def test_flv_command_runs_without_twisted(tmp_path: Path) -> None:
    """Spark's workers, and machines that only hold the files, have none."""
    code = "import sys, rtmprelay.flv.__main__, rtmprelay.flv.names; print('twisted' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
